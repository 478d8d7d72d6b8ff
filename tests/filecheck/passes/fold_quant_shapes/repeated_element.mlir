// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --fold-quant-shapes --fold-quant-shapes | filecheck %s

// One element of several, repeated, is a splat, as it would be for the next run.

// CHECK-LABEL: @joined
// CHECK-NEXT:    %a = arith.constant dense<{{\[\[}}2.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT:    return %a
func.func @joined() -> tensor<2x2xf32> {
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = "stablehlo.slice"(%a) <{start_indices = array<i64: 1>, limit_indices = array<i64: 2>, strides = array<i64: 1>}> : (tensor<2xf32>) -> tensor<1xf32>
  %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64: 0>}> : (tensor<1xf32>) -> tensor<1x2xf32>
  %b = arith.constant dense<[[3.0, 4.0]]> : tensor<1x2xf32>
  %3 = "stablehlo.concatenate"(%2, %b) <{dimension = 0 : i64}> : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
}
