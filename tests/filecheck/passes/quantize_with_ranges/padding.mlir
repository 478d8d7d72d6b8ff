// RUN: qdialect-opt %s --quantize-with-ranges=scheme=one-u8 | filecheck %s

// The range of what is padded with -inf is that of the operand: its lowest code is below no element.
// CHECK:      %x_2 = quant.dcast %x_1 : tensor<2x!quant.uniform<u8:f32, 0.011764706112444401:85>>
// CHECK:      %padded = tensor.pad %x_2 low[1] high[0]
// CHECK:      %padded_1 = quant.qcast %padded : tensor<3xf32> to tensor<3x!quant.uniform<u8:f32, 0.011764706112444401:85>>
// CHECK:      return %padded_2
func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
  %x_1 = quant.stats %x {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
  %low = arith.constant 0xFF800000 : f32
  %padded = tensor.pad %x_1 low[1] high[0] {
  ^bb0(%i: index):
    tensor.yield %low : f32
  } : tensor<2xf32> to tensor<3xf32>
  %padded_1 = quant.stats %padded {layerStats = dense<[0xFF800000, 2.0]> : tensor<2xf32>} : tensor<3xf32>
  return %padded_1 : tensor<3xf32>
}
