// A 2x3 weight, one scale per row; the second row has zero point 3.
// Its last two columns are wanted, transposed: one quant.constant is left.
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>

func.func @tiny() -> tensor<2x2xf32> {
  %weight = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!rows>
  %transposed = quant.transpose %weight permutation = [1, 0]
    : tensor<2x3x!rows> to tensor<3x2x!columns>
  %last = quant.slice %transposed [1, 0] [2, 2] [1, 1]
    : tensor<3x2x!columns> to tensor<2x2x!columns>
  %float = quant.dcast %last : tensor<2x2x!columns> to tensor<2x2xf32>
  return %float : tensor<2x2xf32>
}
