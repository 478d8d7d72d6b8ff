// RUN: qdialect-opt %s --allow-unregistered-dialect --raise-dequantization --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes --remarks --verify-diagnostics -o /dev/null

// Block weights as JAX writes them: the limits of StableHLO's own quantized types do not hold for
// floats behind casts of quant.

// CHECK-LABEL: @joined
// CHECK-NEXT: stablehlo.constant dense<{{\[\[}}1, 5], [2, 6], [3, 7], [4, 8]]> : tensor<4x2xi8>
// CHECK-NEXT: quant.scast {{.*}} to tensor<4x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{.*}}>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: return
func.func @joined() -> tensor<4x2xf32> {
  %w = "stablehlo.constant"() <{value = dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8>}> : () -> tensor<2x4xi8>
  %s = "stablehlo.constant"() <{value = dense<[[0.5, 0.25], [1.0, 2.0]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  // expected-remark @below {{folded 'stablehlo.reshape' into constant %w}}
  %i = "stablehlo.reshape"(%w) : (tensor<2x4xi8>) -> tensor<2x2x2xi8>
  %f = "stablehlo.convert"(%i) : (tensor<2x2x2xi8>) -> tensor<2x2x2xf32>
  // expected-remark @below {{dropped 'stablehlo.broadcast_in_dim': it is read by arithmetic behind a constant}}
  %b = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<2x2xf32>) -> tensor<2x2x2xf32>
  %p = "stablehlo.multiply"(%f, %b) : (tensor<2x2x2xf32>, tensor<2x2x2xf32>) -> tensor<2x2x2xf32>
  // expected-remark @below {{not folded: it stays behind the constant: without it, each scale would be repeated for each element of its block; '--raise-dequantization' first removes it [parameter-growth]}}
  %j = "stablehlo.reshape"(%p) : (tensor<2x2x2xf32>) -> tensor<2x4xf32>
  // expected-remark @below {{folded 'stablehlo.transpose' into constant %w}}
  %t = "stablehlo.transpose"(%j) <{permutation = array<i64: 1, 0>}> : (tensor<2x4xf32>) -> tensor<4x2xf32>
  return %t : tensor<4x2xf32>
}

// The scales are broadcast, and no shape op is behind the arithmetic.
// CHECK-LABEL: @scales
// CHECK-NOT: stablehlo.broadcast_in_dim
// CHECK: return
func.func @scales() -> tensor<2x4xf32> {
  %w = "stablehlo.constant"() <{value = dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8>}> : () -> tensor<2x4xi8>
  %s = "stablehlo.constant"() <{value = dense<[0.5, 0.25]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %f = "stablehlo.convert"(%w) : (tensor<2x4xi8>) -> tensor<2x4xf32>
  // expected-remark @below {{not folded: 24 bytes of it would be repetitions, and 0 are allowed; it takes max-repetition=24 or more; '--raise-dequantization' first removes it [growth]}}
  %b = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2x4xf32>
  %p = "stablehlo.multiply"(%f, %b) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %p : tensor<2x4xf32>
}

// A scale that no type has: raising would not help.
// CHECK-LABEL: @negative
// CHECK: stablehlo.broadcast_in_dim
func.func @negative() -> tensor<2x4xf32> {
  %w = "stablehlo.constant"() <{value = dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8>}> : () -> tensor<2x4xi8>
  %s = "stablehlo.constant"() <{value = dense<[0.5, -0.25]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %f = "stablehlo.convert"(%w) : (tensor<2x4xi8>) -> tensor<2x4xf32>
  // expected-remark @below {{not folded: 24 bytes of it would be repetitions, and 0 are allowed; it takes max-repetition=24 or more [growth]}}
  %b = "stablehlo.broadcast_in_dim"(%s) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2x4xf32>
  %p = "stablehlo.multiply"(%f, %b) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %p : tensor<2x4xf32>
}
