// Weights in a file of safetensors: `qdialect-opt --weights=examples/weights/layer.safetensors`.
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x3xf32> {
  %w = arith.constant dense_resource<layer.weight> : tensor<3x2xf32>
  %t = stablehlo.transpose %w, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %y = stablehlo.dot_general %x, %t, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
  return %y : tensor<1x3xf32>
}
