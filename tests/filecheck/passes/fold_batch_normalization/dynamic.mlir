// RUN: qdialect-opt %s --fold-batch-normalization | filecheck %s

// Sums of unknown length start from a fill; the new bias has the same length.
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: @scaled
// CHECK-NEXT:    %w = arith.constant dense<{{\[\[}}2.000000e+00, 8.000000e+00], [6.000000e+00, 1.600000e+01]]> : tensor<2x2xf32>
// CHECK-NOT:     arith.mulf
// CHECK:         linalg.matmul ins(%x, %w : tensor<?x2xf32>, tensor<2x2xf32>)
// CHECK-NEXT:    return
func.func @scaled(%x: tensor<?x2xf32>, %n: index) -> tensor<?x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %scale = arith.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x2xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  %fc = linalg.matmul ins(%x, %w : tensor<?x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<?x2xf32>) -> tensor<?x2xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%fc, %scale : tensor<?x2xf32>, tensor<2xf32>) outs(%e : tensor<?x2xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.mulf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<?x2xf32>
  return %sum : tensor<?x2xf32>
}
