// RUN: qdialect-opt %s --fold-quant-shapes --remarks -o %t.mlir 2>&1 | filecheck %s --check-prefix=REMARKS
// RUN: qdialect-check %s %t.mlir | filecheck %s

// A body that computes without a tensor is no dequantization: the op is one that nothing is known of.

// REMARKS: folded 'linalg.transpose'
// CHECK: function 'f': proven
func.func @f() -> (tensor<4xf32>, tensor<2x1xi8>) {
  %number = arith.constant 0.5 : f32
  %empty = tensor.empty() : tensor<4xf32>
  %filled = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%empty : tensor<4xf32>) {
  ^bb0(%out: f32):
    linalg.yield %number : f32
  } -> tensor<4xf32>
  %w = arith.constant dense<[[1, 2]]> : tensor<1x2xi8>
  %to = tensor.empty() : tensor<2x1xi8>
  %t = linalg.transpose ins(%w : tensor<1x2xi8>) outs(%to : tensor<2x1xi8>) permutation = [1, 0]
  return %filled, %t : tensor<4xf32>, tensor<2x1xi8>
}
