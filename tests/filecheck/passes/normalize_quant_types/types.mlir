// RUN: qdialect-opt %s --normalize-quant-types --allow-unregistered-dialect | filecheck %s

// One slot.
// CHECK: func.func private @one_slot(tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> ()
func.func private @one_slot(tensor<2x4x!quant.uniform<i8:f32:{}, {{0.5:3}}>>)

// One axis is cut, into blocks of one position. The scale is that of the expressed type.
// CHECK: func.func private @one_axis(tensor<2x4x!quant.uniform<i8<-100:100>:f16:0, {0.0999755859375:3,2.500000e-01}>>) -> ()
func.func private @one_axis(tensor<2x4x!quant.uniform<i8<-100:100>:f16:{0:1, 1:4}, {{0.1:3}, {0.25}}>>)

// CHECK: func.func private @unranked(tensor<*x!quant.uniform<u8:f32:0, {5.000000e-01:-56,2.500000e-01}>>) -> ()
func.func private @unranked(tensor<*x!quant.uniform<u8:f32:{0:1}, {{0.5:200}, {0.25}}>>)

// Blocks of two positions are no axis; two axes neither.
// CHECK: func.func private @larger_blocks(tensor<2x4x!quant.uniform<i8:f32:{1:2}, {{[{][{]}}5.000000e-01, 2.500000e-01}}>>) -> ()
func.func private @larger_blocks(tensor<2x4x!quant.uniform<i8:f32:{1:2}, {{0.5, 0.25}}>>)

// CHECK: func.func private @two_axes(tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{[{][{]}}5.000000e-01, 2.500000e-01}, {2.000000e+00, 1.000000e+00}}>>) -> ()
func.func private @two_axes(tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{0.5, 0.25}, {2.0, 1.0}}>>)

// Scalars, and what is inside other types or attributes, is left.
// CHECK-NEXT: "func.func"() <{sym_name = "others", function_type = (!quant.uniform<i8:f32:{}, {{[{][{]}}5.000000e-01:3}}>, tuple<tensor<2x!quant.uniform<i8:f32:{}, {{[{][{]}}5.000000e-01}}>>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>, sym_visibility = "private", res_attrs = [{test.type = tensor<2x!quant.uniform<i8:f32:{}, {{[{][{]}}5.000000e-01}}>>}]}> ({
// CHECK-NEXT: }) : () -> ()
func.func private @others(!quant.uniform<i8:f32:{}, {{0.5:3}}>, tuple<tensor<2x!quant.uniform<i8:f32:{}, {{0.5}}>>>) -> (tensor<2x!quant.uniform<i8:f32:{}, {{0.5}}>> {test.type = tensor<2x!quant.uniform<i8:f32:{}, {{0.5}}>>})

// CHECK: func.func @body(%c: i1, %x: tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>>) -> tensor<2x2xf32> {
// CHECK-NEXT:   %0 = scf.if %c -> (tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>>) {
// CHECK-NEXT:     scf.yield %x : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:   } else {
// CHECK-NEXT:     %e = "test.make"() : () -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:     scf.yield %e : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:   }
// CHECK-NEXT:   %1 = quant.dcast %0 : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>> to tensor<2x2xf32>
// CHECK-NEXT:   func.return %1 : tensor<2x2xf32>
func.func @body(%c: i1, %x: tensor<2x2x!quant.uniform<i8:f32:{}, {{0.5}}>>) -> tensor<2x2xf32> {
  %0 = scf.if %c -> (tensor<2x2x!quant.uniform<i8:f32:{}, {{0.5}}>>) {
    scf.yield %x : tensor<2x2x!quant.uniform<i8:f32:{}, {{0.5}}>>
  } else {
    %e = "test.make"() : () -> tensor<2x2x!quant.uniform<i8:f32:{}, {{0.5}}>>
    scf.yield %e : tensor<2x2x!quant.uniform<i8:f32:{}, {{0.5}}>>
  }
  %1 = quant.dcast %0 : tensor<2x2x!quant.uniform<i8:f32:{}, {{0.5}}>> to tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}
