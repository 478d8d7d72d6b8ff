// RUN: qdialect-opt %s --allow-unregistered-dialect --lower-dequantization=to=linalg-ext | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect --lower-dequantization=to=linalg-ext --raise-dequantization | filecheck %s --check-prefix=RAISED

// CHECK-LABEL: @columns
// CHECK-NEXT: %w = arith.constant
// CHECK-NEXT: %[[S:[0-9]+]] = arith.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-NEXT: %[[Z:[0-9]+]] = arith.constant dense<[3, 200]> : tensor<2xi64>
// CHECK-NEXT: %[[E:[0-9]+]] = tensor.empty() : tensor<3x2xf32>
// CHECK-NEXT: %d = "iree_linalg_ext.dequantize_affine"(%w, %[[S]], %[[Z]], %[[E]]) <{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], quant_max = 255 : i64, quant_min = 0 : i64, input_unsigned}>
// RAISED-LABEL: @columns
// RAISED: quant.dcast %{{.*}} : tensor<3x2x!quant.uniform<u8:f32:1, {5.000000e-01:3,2.500000e-01:200}>> to tensor<3x2xf32>
func.func @columns() -> tensor<3x2xf32> {
  %w = arith.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>
  %0 = quant.scast %w : tensor<3x2xi8> to tensor<3x2x!quant.uniform<u8:f32:1, {0.5:3,0.25:200}>>
  %d = quant.dcast %0 : tensor<3x2x!quant.uniform<u8:f32:1, {0.5:3,0.25:200}>> to tensor<3x2xf32>
  return %d : tensor<3x2xf32>
}
