// RUN: qdialect-opt %s --fold-batch-normalization --verify-diagnostics --remarks | filecheck %s

// Two products with one matrix are one product of all rows; what the sums start from is still a fill.
// CHECK-LABEL: @linear
// CHECK:         tensor.empty() : tensor<1x6x2xf32>
// CHECK-NEXT:    linalg.fill ins(%zero : f32) outs(%{{.*}} : tensor<1x6x2xf32>)
// CHECK:         %y = linalg.batch_matmul ins(%{{.*}}, %{{.*}} : tensor<1x6x4xf32>, tensor<1x4x2xf32>)
// CHECK-SAME:      -> tensor<1x6x2xf32>
// CHECK-NEXT:    tensor.collapse_shape %y
// CHECK-NEXT:    tensor.expand_shape {{.*}} into tensor<2x3x2xf32>
func.func @linear(%x: tensor<2x3x4xf32>, %m: tensor<4x2xf32>) -> tensor<2x3x2xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x2xf32>
  %s = tensor.empty() : tensor<2x3x2xf32>
  %w = linalg.broadcast ins(%m : tensor<4x2xf32>) outs(%e : tensor<2x4x2xf32>) dimensions = [0]
  %z = linalg.fill ins(%zero : f32) outs(%s : tensor<2x3x2xf32>) -> tensor<2x3x2xf32>
  // expected-remark @+1 {{merged 'linalg.batch_matmul': a matrix was repeated for a batch}}
  %y = linalg.batch_matmul ins(%x, %w : tensor<2x3x4xf32>, tensor<2x4x2xf32>)
    outs(%z : tensor<2x3x2xf32>) -> tensor<2x3x2xf32>
  return %y : tensor<2x3x2xf32>
}
