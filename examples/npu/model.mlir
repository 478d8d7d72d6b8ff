// Four pixels of three channels, twice as wide and as high, with one channel.
func.func @main(%pixels: tensor<4x3xf32>) -> tensor<1x4x4x1xf32> {
  %weight = arith.constant dense<[[1.0, 0.5, -1.0, 2.0], [-0.5, 3.0, 1.0, 0.0], [0.25, -3.0, 2.0, 1.0]]> : tensor<3x4xf32>
  %bias = arith.constant dense<[0.5, 1.0, 0.0, 2.0]> : tensor<4xf32>
  %sums = npu.matmul %pixels, %weight bias %bias : tensor<4x3xf32>, tensor<3x4xf32>, tensor<4xf32> to tensor<4x4xf32>
  %positive = npu.relu6 %sums : tensor<4x4xf32> to tensor<4x4xf32>
  %square = tensor.expand_shape %positive [[0, 1, 2], [3]] output_shape [1, 2, 2, 4] : tensor<4x4xf32> into tensor<1x2x2x4xf32>
  %shuffled = npu.pixel_shuffle %square by 2 : tensor<1x2x2x4xf32> to tensor<1x4x4x1xf32>
  return %shuffled : tensor<1x4x4x1xf32>
}
