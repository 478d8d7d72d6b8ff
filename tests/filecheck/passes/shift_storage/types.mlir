// RUN: qdialect-opt %s --allow-unregistered-dialect --shift-storage="from=i8 to=u8" --remarks --verify-diagnostics | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect --shift-storage="from=i8 to=u8" | qdialect-opt --allow-unregistered-dialect --shift-storage="from=i8 to=u8" | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect > %t.before
// RUN: qdialect-opt %s --allow-unregistered-dialect --shift-storage="from=i8 to=u8" --shift-storage="from=u8 to=i8" | diff %t.before -

!a = !quant.uniform<i8<-127:127>:f32:0, {0.5,0.25:3}>
!at = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25:3}>
!s = !quant.uniform<i8:f32, 0.5:-4>
!blocks = !quant.uniform<i8:f32:{1:2}, {{0.5:-3, 0.25:3}}>
!bias = !quant.uniform<i32:f32, 0.5>
!other = !quant.uniform<i4:f32, 0.5>
!any = !quant.any<i8<-16:15>:f32>

// Everywhere: signatures, nested types, and attributes. Biases, and storages of other widths, stay.
// CHECK: func.func private @types(tensor<?x4x!quant.uniform<u8:f32:{1:2}, {{[{][{]}}5.000000e-01:125, 2.500000e-01:-125}}>>, tuple<tensor<*x!quant.any<u8<112:143>:f32>>>, tensor<2x!quant.uniform<i32:f32, 5.000000e-01>>) -> !quant.uniform<i4:f32, 5.000000e-01> attributes {type = tensor<1x!quant.uniform<u8:f32, 5.000000e-01:124>>}
func.func private @types(tensor<?x4x!blocks>, tuple<tensor<*x!any>>, tensor<2x!bias>) -> !other attributes {type = tensor<1x!s>}

// CHECK-LABEL: @moved
// CHECK-SAME:      %x: tensor<2x3x!quant.uniform<u8<1:255>:f32:0, {5.000000e-01:128,2.500000e-01:131}>>
// CHECK-NEXT:    %t = quant.transpose %x permutation = [1, 0] : tensor<2x3x!quant.uniform<u8<1:255>:f32:0, {5.000000e-01:128,2.500000e-01:131}>> to tensor<3x2x!quant.uniform<u8<1:255>:f32:1, {5.000000e-01:128,2.500000e-01:131}>>
// CHECK-NEXT:    %p = quant.pad %t
// CHECK-NEXT:    %d = quant.dcast %p : tensor<4x2x!quant.uniform<u8<1:255>:f32:1, {5.000000e-01:128,2.500000e-01:131}>> to tensor<4x2xf32>
func.func @moved(%x: tensor<2x3x!a>) -> tensor<4x2xf32> {
  %t = quant.transpose %x permutation = [1, 0] : tensor<2x3x!a> to tensor<3x2x!at>
  %p = quant.pad %t low = [1, 0] high = [0, 0] : tensor<3x2x!at> to tensor<4x2x!at>
  %d = quant.dcast %p : tensor<4x2x!at> to tensor<4x2xf32>
  return %d : tensor<4x2xf32>
}

// Also the integers that a cast makes quantized, if they are constant.
// CHECK-LABEL: @constants
// CHECK-NEXT:    %c = quant.constant dense<[{{\[}}129, 1], [131, 255]]> : tensor<2x2x!quant.uniform<u8<1:255>
// CHECK-NEXT:    %s = quant.constant dense<135> : tensor<1000x!quant.uniform<u8:f32, 5.000000e-01:124>>
// CHECK-NEXT:    %k = arith.constant dense<[-127, 0, -1]> : tensor<3xi8>
// CHECK-NEXT:    %q = quant.scast %k : tensor<3xi8> to tensor<3x!quant.uniform<u8:f32, 5.000000e-01:124>>
// CHECK-NEXT:    %t = "tosa.const"() <{values = dense<[129, 128]> : tensor<2xui8>}> : () -> tensor<2x!quant.uniform<u8:f32, 5.000000e-01:124>>
func.func @constants() -> (tensor<2x2x!a>, tensor<1000x!s>, tensor<3x!s>, tensor<2x!s>) {
  %c = quant.constant dense<[[1, -127], [3, 127]]> : tensor<2x2x!a>
  %s = quant.constant dense<7> : tensor<1000x!s>
  %k = arith.constant dense<[1, -128, 127]> : tensor<3xi8>
  %q = quant.scast %k : tensor<3xi8> to tensor<3x!s>
  %t = "tosa.const"() <{values = dense<[1, 0]> : tensor<2xi8>}> : () -> tensor<2x!s>
  return %c, %s, %q, %t : tensor<2x2x!a>, tensor<1000x!s>, tensor<3x!s>, tensor<2x!s>
}

// What rounds, and what is not known, is told.
// CHECK-LABEL: @computed
// CHECK-NEXT:    %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u8:f32, 5.000000e-01:124>>
// CHECK-NEXT:    %u = "test.op"(%q)
func.func @computed(%x: tensor<2xf32>) -> tensor<2x!s> {
  // expected-remark @below {{shifted 'quant.qcast': quotients close to a tie may now round to the other neighbour, since the sum with the zero point is rounded}}
  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!s>
  // expected-remark @below {{shifted 'test.op': it is assumed to compute with the dequantized values of its operands}}
  %u = "test.op"(%q) : (tensor<2x!s>) -> tensor<2x!s>
  return %u : tensor<2x!s>
}
