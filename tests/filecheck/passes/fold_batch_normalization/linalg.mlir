// RUN: qdialect-opt %s --fold-batch-normalization | filecheck %s

// As torch-mlir writes it: the scales become factors of the weights, and the sums start from the bias.
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: @normalized
// CHECK-NEXT:    %w = arith.constant dense<{{\[\[}}1.000000e+00, 4.000000e+00], [3.000000e+00, 8.000000e+00]]> : tensor<2x2xf32>
// CHECK:         %[[B:.*]] = arith.constant dense<[-5.000000e-01, 1.000000e+00]> : tensor<2xf32>
// CHECK:         %[[INIT:.*]] = linalg.generic {{.*}} ins(%[[B]] : tensor<2xf32>)
// CHECK:         %sum = linalg.matmul ins(%x, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%[[INIT]] : tensor<3x2xf32>)
// CHECK-NEXT:    return %sum
func.func @normalized(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %mean = arith.constant dense<[0.5, 1.0]> : tensor<2xf32>
  %variance = arith.constant dense<[3.0, 0.0]> : tensor<2xf32>
  %scale = arith.constant dense<[2.0, 2.0]> : tensor<2xf32>
  %offset = arith.constant dense<[0.0, 3.0]> : tensor<2xf32>
  %epsilon = arith.constant 1.0 : f64
  %zero = arith.constant 0.0 : f32
  %e2 = tensor.empty() : tensor<2xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e : tensor<3x2xf32>) -> tensor<3x2xf32>
  %fc = linalg.matmul ins(%x, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<3x2xf32>) -> tensor<3x2xf32>
  %roots = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%variance : tensor<2xf32>) outs(%e2 : tensor<2xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.truncf %epsilon : f64 to f32
    %d = arith.addf %a, %c : f32
    %r = math.sqrt %d : f32
    %is_known = arith.cmpf one, %r, %zero : f32
    cf.assert %is_known, "no zero"
    linalg.yield %r : f32
  } -> tensor<2xf32>
  %centered = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%fc, %mean : tensor<3x2xf32>, tensor<2xf32>) outs(%e : tensor<3x2xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<3x2xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row, #row, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%centered, %roots, %scale, %offset : tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) outs(%e : tensor<3x2xf32>) {
  ^bb0(%a: f32, %root: f32, %factor: f32, %more: f32, %b: f32):
    %c = arith.divf %a, %root : f32
    %d = arith.mulf %c, %factor : f32
    %f = arith.addf %d, %more : f32
    linalg.yield %f : f32
  } -> tensor<3x2xf32>
  return %sum : tensor<3x2xf32>
}

// Weights that are flipped and transposed by an index become a constant.
// CHECK-LABEL: @flipped
// CHECK:         arith.constant dense<{{\[\[}}3.000000e+00, 1.000000e+00], [4.000000e+00, 2.000000e+00]]> : tensor<2x2xf32>
// CHECK-NOT:     tensor.extract
func.func @flipped(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %one = arith.constant 1 : index
  %e2 = tensor.empty() : tensor<2x2xf32>
  %zeros = arith.constant dense<0.0> : tensor<3x2xf32>
  %v = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e2 : tensor<2x2xf32>) {
  ^bb0(%a: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.subi %one, %j : index
    %b = tensor.extract %w[%k, %i] : tensor<2x2xf32>
    linalg.yield %b : f32
  } -> tensor<2x2xf32>
  %fc = linalg.matmul ins(%x, %v : tensor<3x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<3x2xf32>) -> tensor<3x2xf32>
  return %fc : tensor<3x2xf32>
}

// A bias alone stays as it is.
// CHECK-LABEL: @bias
// CHECK:         linalg.matmul
// CHECK-NEXT:    linalg.generic
func.func @bias(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %b = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %zeros = arith.constant dense<0.0> : tensor<3x2xf32>
  %fc = linalg.matmul ins(%x, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<3x2xf32>) -> tensor<3x2xf32>
  %sum = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%fc, %b : tensor<3x2xf32>, tensor<2xf32>) outs(%e : tensor<3x2xf32>) {
  ^bb0(%a: f32, %c: f32, %d: f32):
    %f = arith.addf %a, %c : f32
    linalg.yield %f : f32
  } -> tensor<3x2xf32>
  return %sum : tensor<3x2xf32>
}
