// RUN: qdialect-opt %s --fold-quant-shapes --remarks --verify-diagnostics

// What no op can carry is left.
func.func @merged_axes() -> tensor<4xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %s = quant.stats %w {layerStats = dense<[1.0, 4.0]> : tensor<2xf32>, axisStats = dense<[[1.0, 3.0], [2.0, 4.0]]> : tensor<2x2xf32>, axis = 1 : i64} : tensor<2x2xf32>
  // expected-remark @+1 {{not folded: it would have 4 ranges, its source has 2, and 2 are allowed; it takes max-parameter-growth=2 or more [parameter-growth]}}
  %t = tensor.collapse_shape %s [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  return %t : tensor<4xf32>
}

func.func @split_axis() -> tensor<2x2xf32> {
  %w = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %s = quant.stats %w {layerStats = dense<[1.0, 4.0]> : tensor<2xf32>, axisStats = dense<[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]> : tensor<4x2xf32>, axis = 0 : i64} : tensor<4xf32>
  // expected-remark @+1 {{not folded: its ranges would vary along the axes [0, 1], but one axis is supported [granularity]}}
  %t = tensor.expand_shape %s [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  return %t : tensor<2x2xf32>
}
