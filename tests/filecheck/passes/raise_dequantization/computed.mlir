// RUN: qdialect-opt %s --raise-dequantization --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --raise-dequantization --remarks --verify-diagnostics -o /dev/null

// Scales, or codes, that other ops compute from constants.

// NVFP4: the scales of blocks are f8, times one for the tensor.
// CHECK-LABEL: @two_levels
// CHECK-NEXT: quant.constant dense<{{\[\[}}1.000000e+00, -5.000000e-01], [6.000000e+00, 0.000000e+00], [-0.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<4x2x!quant.uniform<f4E2M1FN:f32:{0:2, 1:1}, {{.*}}>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: return
func.func @two_levels() -> tensor<4x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 6.0, -0.0, 2.0], [-0.5, 0.0, 3.0, 4.0]]> : tensor<2x4xf4E2M1FN>
  %s = stablehlo.constant dense<[[288.0, 176.0], [0.5, 448.0]]> : tensor<2x2xf8E4M3FN>
  %g = stablehlo.constant dense<0.0013> : tensor<f32>
  %0 = stablehlo.convert %w : (tensor<2x4xf4E2M1FN>) -> tensor<2x4xf32>
  %1 = stablehlo.reshape %0 : (tensor<2x4xf32>) -> tensor<2x2x2xf32>
  %2 = stablehlo.convert %s : (tensor<2x2xf8E4M3FN>) -> tensor<2x2xf32>
  %3 = stablehlo.broadcast_in_dim %g, dims = [] : (tensor<f32>) -> tensor<2x2xf32>
  %4 = stablehlo.multiply %2, %3 : tensor<2x2xf32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x2xf32>) -> tensor<2x2x2xf32>
  // expected-remark @below {{raised 'stablehlo.multiply': it became 'quant.dcast'}}
  %6 = stablehlo.multiply %1, %5 : tensor<2x2x2xf32>
  %7 = stablehlo.reshape %6 : (tensor<2x2x2xf32>) -> tensor<2x4xf32>
  %8 = stablehlo.transpose %7, dims = [1, 0] : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %8 : tensor<4x2xf32>
}

// As torch-mlir lowers an index: negative ones would count from the end, and there are none.
// CHECK-LABEL: @table
// CHECK-NEXT: quant.constant dense<{{\[\[}}3, 0, 1], [2, 2, 3]]> : tensor<2x3x!quant.uniform<!quant.quantile<ui2:f32, {-1.000000e+00,0.000000e+00,2.500000e-01,1.000000e+00}>:f32:0, {2.000000e+00,5.000000e-01}>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: return
func.func @table() -> tensor<2x3xf32> {
  %c0 = arith.constant 0 : i64
  %c4 = arith.constant 4 : i64
  %codes = arith.constant dense<[[3, 0, 1], [2, 2, 3]]> : tensor<2x3xi8>
  %entries = arith.constant dense<[-1.0, 0.0, 0.25, 1.0]> : tensor<4xf32>
  %scales = arith.constant dense<[[2.0], [0.5]]> : tensor<2x1xf32>
  %init = tensor.empty() : tensor<2x3xf32>
  %wide = tensor.empty() : tensor<2x3xi64>
  %0 = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]
  } ins(%codes : tensor<2x3xi8>) outs(%wide : tensor<2x3xi64>) {
  ^bb0(%in: i8, %out: i64):
    %long = arith.extui %in : i8 to i64
    linalg.yield %long : i64
  } -> tensor<2x3xi64>
  %1 = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]
  } ins(%0 : tensor<2x3xi64>) outs(%init : tensor<2x3xf32>) {
  ^bb0(%in: i64, %out: f32):
    %is_negative = arith.cmpi slt, %in, %c0 : i64
    %from_end = arith.addi %in, %c4 : i64
    %position = arith.select %is_negative, %from_end, %in : i64
    %index = arith.index_cast %position : i64 to index
    %entry = tensor.extract %entries[%index] : tensor<4xf32>
    linalg.yield %entry : f32
  } -> tensor<2x3xf32>
  // expected-remark @below {{raised 'linalg.generic': it became 'quant.dcast'}}
  %2 = linalg.generic {
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, 0)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  } ins(%1, %scales : tensor<2x3xf32>, tensor<2x1xf32>) outs(%init : tensor<2x3xf32>) {
  ^bb0(%in: f32, %by: f32, %out: f32):
    %product = arith.mulf %in, %by : f32
    linalg.yield %product : f32
  } -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// CHECK-LABEL: @refused
// CHECK: stablehlo.multiply
// CHECK: stablehlo.multiply
func.func @refused() -> (tensor<2xf32>, tensor<2xf32>) {
  %w = stablehlo.constant dense<[1, 2]> : tensor<2xi8>
  %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
  %s = stablehlo.constant dense<[0.5, 0.3]> : tensor<2xf32>
  %0 = stablehlo.convert %w : (tensor<2xi8>) -> tensor<2xf32>
  %1 = stablehlo.divide %zero, %s : tensor<2xf32>
  // expected-remark @below {{not raised: a scale is not positive and finite [arithmetic]}}
  %2 = stablehlo.multiply %0, %1 : tensor<2xf32>
  %3 = stablehlo.divide %0, %s : tensor<2xf32>
  // expected-remark @below {{not raised: its numbers are no codes of 8 bits [arithmetic]}}
  %4 = stablehlo.multiply %3, %s : tensor<2xf32>
  return %2, %4 : tensor<2xf32>, tensor<2xf32>
}
