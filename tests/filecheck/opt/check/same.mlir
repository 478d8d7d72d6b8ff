// RUN: qdialect-opt --fold-quant-shapes=verify=values %s | qdialect-check %s - | filecheck %s
// RUN: qdialect-opt --fold-quant-shapes=verify=structure --lower-quant-shapes %s | qdialect-check - %s --runs 2 | filecheck %s
// RUN: qdialect-opt --fold-constant-shapes=verify=values %s | qdialect-check %s - | filecheck %s

// CHECK: function 'constants': proven
// CHECK-NEXT: function 'argument': proven
// CHECK-NEXT: the same: 2 functions, all proven

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
func.func @constants() -> (tensor<3x2x!columns>, tensor<4xi8>) {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!rows>
  %t = quant.transpose %w permutation = [1, 0] : tensor<2x3x!rows> to tensor<3x2x!columns>
  %c = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %f = tensor.collapse_shape %c [[0, 1]] : tensor<2x2xi8> into tensor<4xi8>
  return %t, %f : tensor<3x2x!columns>, tensor<4xi8>
}

func.func @argument(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %q = quant.qcast %x : tensor<2x3xf32> to tensor<2x3x!rows>
  %t = quant.transpose %q permutation = [1, 0] : tensor<2x3x!rows> to tensor<3x2x!columns>
  %f = quant.dcast %t : tensor<3x2x!columns> to tensor<3x2xf32>
  return %f : tensor<3x2xf32>
}
