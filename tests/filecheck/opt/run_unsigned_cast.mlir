// RUN: qdialect-run %s | filecheck %s
// RUN: qdialect-opt %s --fold-quant-shapes | qdialect-run | filecheck %s

// LLVM 24 has casts that read signless integers as unsigned ones.
// CHECK: dense<{{\[\[}}1.000000e+00, 4.000000e+00], [2.540000e+02, 5.000000e+00], [3.000000e+00, 2.500000e+02]]> : tensor<3x2xf32>
func.func @main() -> tensor<3x2xf32> {
  %w = "tosa.const"() <{values = dense<[[1, -2, 3], [4, 5, -6]]> : tensor<2x3xi8>}> : () -> tensor<2x3xi8>
  %c = tosa.cast %w input_unsigned(true) : (tensor<2x3xi8>) -> tensor<2x3xf32>
  %t = tosa.transpose %c perms([1, 0]) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %t : tensor<3x2xf32>
}
