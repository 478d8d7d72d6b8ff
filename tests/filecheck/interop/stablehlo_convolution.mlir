// REQUIRES: iree-opt
// RUN: iree-opt %s | filecheck %s
// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s | iree-opt | filecheck %s

// CHECK-LABEL: @convolution
// CHECK: dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = {{\[\[}}1, 1], [0, 1]], rhs_dilate = [1, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64
// CHECK: dim_numbers = [b, f]x[i, o]->[b, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, note}
func.func @convolution(%x: tensor<1x8x8x4xf32>, %w: tensor<3x3x2x16xf32>, %a: tensor<2x4xf32>, %b: tensor<4x3xf32>) {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 1], [0, 1]], rhs_dilate = [1, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]} : (tensor<1x8x8x4xf32>, tensor<3x3x2x16xf32>) -> tensor<1x4x7x16xf32>
  %1 = stablehlo.convolution(%a, %b) dim_numbers = [b, f]x[i, o]->[b, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, note} : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  return
}
