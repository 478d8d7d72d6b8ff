// RUN: qdialect-opt %s --fold-batch-normalization -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: sed -n '/^func.func @linalg/,$p' %s > %t.before.mlir
// RUN: sed -n '/^  func.func @linalg/,$p' %t.mlir | sed '$d' > %t.after.mlir
// RUN: qdialect-check %t.before.mlir %t.after.mlir

// The bias is as long as the sums, which have their length at run time.
// CHECK-LABEL: @stablehlo
// CHECK-NEXT:    %w = stablehlo.constant dense<{{\[\[}}2.000000e+00, 8.000000e+00], [6.000000e+00, 1.600000e+01]]> : tensor<2x2xf32>
// CHECK-NEXT:    %fc = stablehlo.dot_general %x, %w
// CHECK-NEXT:    %[[B:.*]] = stablehlo.constant dense<[5.000000e-01, -4.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    stablehlo.get_dimension_size %fc, dim = 0
// CHECK:         %[[SPREAD:.*]] = stablehlo.dynamic_broadcast_in_dim %[[B]]
// CHECK-NEXT:    %z = stablehlo.add %fc, %[[SPREAD]] : tensor<?x2xf32>
// CHECK-NEXT:    return %z
func.func @stablehlo(%x: tensor<?x2xf32>, %shape: tensor<2xi64>) -> tensor<?x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %scale = stablehlo.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %offset = stablehlo.constant dense<[0.5, -4.0]> : tensor<2xf32>
  %fc = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %factors = stablehlo.dynamic_broadcast_in_dim %scale, %shape, dims = [1] : (tensor<2xf32>, tensor<2xi64>) -> tensor<?x2xf32>
  %offsets = stablehlo.dynamic_broadcast_in_dim %offset, %shape, dims = [1] : (tensor<2xf32>, tensor<2xi64>) -> tensor<?x2xf32>
  %y = stablehlo.multiply %fc, %factors : tensor<?x2xf32>
  %z = stablehlo.add %y, %offsets : tensor<?x2xf32>
  return %z : tensor<?x2xf32>
}

// Sums that start from a fill start from the bias.
// CHECK-LABEL: @linalg
// CHECK-NEXT:    %w = arith.constant dense<{{\[\[}}2.000000e+00, 8.000000e+00], [6.000000e+00, 1.600000e+01]]> : tensor<2x2xf32>
// CHECK:         %[[ROW:.*]] = arith.constant dense<[2.000000e+00, 4.000000e+00]> : tensor<2xf32>
// CHECK:         %[[INIT:.*]] = linalg.generic {{.*}} ins(%[[ROW]] : tensor<2xf32>)
// CHECK:         %z = linalg.matmul ins(%x, %w : tensor<?x2xf32>, tensor<2x2xf32>) outs(%[[INIT]] : tensor<?x2xf32>)
// CHECK-NEXT:    return %z
func.func @linalg(%x: tensor<?x2xf32>, %n: index) -> tensor<?x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %scale = arith.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x2xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  %fc = linalg.matmul ins(%x, %w : tensor<?x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<?x2xf32>) -> tensor<?x2xf32>
  %factors = linalg.broadcast ins(%scale : tensor<2xf32>) outs(%e : tensor<?x2xf32>) dimensions = [0]
  %y = linalg.mul ins(%fc, %factors : tensor<?x2xf32>, tensor<?x2xf32>) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  %z = linalg.add ins(%y, %factors : tensor<?x2xf32>, tensor<?x2xf32>) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  return %z : tensor<?x2xf32>
}
