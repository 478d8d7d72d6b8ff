// A layer of codes: a matrix product, its bias, and a relu, with one rounding.
!x = !quant.uniform<i8:f32, 0.125:3>
!w = !quant.uniform<i8<-127:127>:f32:1, {0.5,0.25}>
!b = !quant.uniform<i32:f32:0, {0.0625,0.03125}>
!y = !quant.uniform<i8:f32, 0.25:-128>

func.func @main(%q: tensor<4x3x!x>) -> tensor<4x2x!y> {
  %x = quant.dcast %q : tensor<4x3x!x> to tensor<4x3xf32>
  %c = quant.constant dense<[[1, -2], [3, 4], [-5, 6]]> : tensor<3x2x!w>
  %w = quant.dcast %c : tensor<3x2x!w> to tensor<3x2xf32>
  %k = quant.constant dense<[40, -16]> : tensor<2x!b>
  %b = quant.dcast %k : tensor<2x!b> to tensor<2xf32>
  %e = tensor.empty() : tensor<4x2xf32>
  %i = linalg.broadcast ins(%b : tensor<2xf32>) outs(%e : tensor<4x2xf32>) dimensions = [0]
  %p = linalg.matmul ins(%x, %w : tensor<4x3xf32>, tensor<3x2xf32>) outs(%i : tensor<4x2xf32>) -> tensor<4x2xf32>
  %y = quant.qcast %p : tensor<4x2xf32> to tensor<4x2x!y>
  return %y : tensor<4x2x!y>
}
