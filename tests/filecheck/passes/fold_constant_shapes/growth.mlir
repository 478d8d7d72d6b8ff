// RUN: qdialect-opt %s --fold-constant-shapes --remarks --verify-diagnostics -o /dev/null
// RUN: qdialect-opt %s --fold-constant-shapes="max-parameter-growth=2 max-repetition=6" | filecheck %s

// With the values that the remarks name, the op is folded.

// CHECK: %w = arith.constant dense<{{\[\[}}1, 2, 3], [4, 5, 6], [1, 2, 3], [4, 5, 6]]> : tensor<4x3xi8>
// CHECK: dense<{{\[\[}}5.000000e-01], [2.500000e-01], [5.000000e-01], [2.500000e-01]]> : tensor<4x1xf32>
// CHECK-NOT: tosa.concat
func.func @twice() -> tensor<4x3xf32> {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %s = "tosa.const"() <{values = dense<[[0.5], [0.25]]> : tensor<2x1xf32>}> : () -> tensor<2x1xf32>
  %shift = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %c = tosa.cast %w : (tensor<2x3xi8>) -> tensor<2x3xf32>
  %m = tosa.mul %c, %s, %shift : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<1xi8>) -> tensor<2x3xf32>
  // expected-remark @below {{not folded: its operands would have 4 elements, its sources have 2, and 2 are allowed; it takes max-parameter-growth=2 or more; '--raise-dequantization' before '--fold-quant-shapes' removes it [parameter-growth]}}
  %k = tosa.concat %m, %m {axis = 0 : i32} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %k : tensor<4x3xf32>
}
