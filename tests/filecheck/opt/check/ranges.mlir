// RUN: qdialect-check %s %s 2>&1 | filecheck %s

// Padding behind ranges for each channel is compared with what else has the same shape.
// CHECK: the same: 1 function, proven
func.func @f(%x: tensor<1x2xf32>, %y: tensor<1x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %z = stablehlo.constant dense<1.5> : tensor<f32>
  %c = stablehlo.pad %x, %z, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %s = quant.stats %c {layerStats = dense<[1.0, 4.0]> : tensor<2xf32>, axisStats = dense<[[1.0, 3.0], [2.0, 4.0]]> : tensor<2x2xf32>, axis = 1 : i64} : tensor<2x2xf32>
  %d = stablehlo.pad %y, %z, low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %t = quant.stats %d {layerStats = dense<[1.0, 4.0]> : tensor<2xf32>, axisStats = dense<[[1.0, 3.0], [2.0, 4.0]]> : tensor<2x2xf32>, axis = 1 : i64} : tensor<2x2xf32>
  return %s, %t : tensor<2x2xf32>, tensor<2x2xf32>
}
