// RUN: qdialect-opt %s --allow-unregistered-dialect --lower-quant-ops=to=linalg-ext --strip-func-quant-types --canonicalize | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect "--lower-quant-ops=to=linalg-ext" --split-input-file | filecheck %s --check-prefix=LEFT
// RUN: not qdialect-opt %s "--lower-quant-ops=to=tosa" 2>&1 | filecheck %s --check-prefix=ERROR

// ERROR: error: {{.*}}to must be linalg-ext, but is 'tosa'

!x = !quant.uniform<u8<1:255>:f32, 0.5:7>
!blocks = !quant.uniform<i8:f32:{0:1,1:2}, {{0.5, 0.25:1}, {1.0, 2.0}}>

// A round trip stays a rounding. Nothing of quant is left.
// CHECK-LABEL: @casts
// CHECK-NOT: quant.
// CHECK: %[[Q:[0-9]+]] = "iree_linalg_ext.quantize_affine"(%x, {{.*}}) <{indexing_maps = [{{.*}}], quant_max = 255 : i64, quant_min = 1 : i64, storage_unsigned}> : (tensor<2x4xf32>, tensor<f32>, tensor<i64>, tensor<2x4xi8>) -> tensor<2x4xi8>
// CHECK: %r = "iree_linalg_ext.dequantize_affine"(%[[Q]], {{.*}}) <{indexing_maps = [{{.*}}], quant_max = 255 : i64, quant_min = 0 : i64, input_unsigned}> : (tensor<2x4xi8>, tensor<f32>, tensor<i64>, tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK: tensor.expand_shape %r {{\[\[}}0 : i64], [1 : i64, 2 : i64]]
// CHECK: "iree_linalg_ext.quantize_affine"({{.*}}) <{indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], quant_max = 127 : i64, quant_min = -128 : i64}>
// CHECK-NOT: quant.
func.func @casts(%x: tensor<2x4xf32>) -> tensor<2x4x!blocks> {
  %q = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!x>
  %r = quant.dcast %q : tensor<2x4x!x> to tensor<2x4xf32>
  %p = quant.qcast %r : tensor<2x4xf32> to tensor<2x4x!blocks>
  return %p : tensor<2x4x!blocks>
}

// What the form cannot express is arithmetic, rounded to nearest-even.
// LEFT-LABEL: @dynamic
// LEFT: math.roundeven
// LEFT: arith.sitofp
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  %q = quant.qcast %x : tensor<?xf32> to tensor<?x!quant.uniform<i8:f32, 0.5>>
  %r = quant.dcast %q : tensor<?x!quant.uniform<i8:f32, 0.5>> to tensor<?xf32>
  return %r : tensor<?xf32>
}
