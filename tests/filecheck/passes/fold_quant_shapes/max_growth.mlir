// The bytes that all folds add together: a constant that stays in use, and what is repeated.
// RUN: qdialect-opt %s --fold-quant-shapes=max-growth=11 --remarks --verify-diagnostics --split-input-file | filecheck %s

// The constant dies, so the fold adds nothing.
func.func @moved() -> tensor<3x2xi8> {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %e = tensor.empty() : tensor<3x2xi8>
  // expected-remark @below {{folded 'linalg.transpose' into constant %w}}
  %0 = linalg.transpose ins(%w : tensor<2x3xi8>) outs(%e : tensor<3x2xi8>) permutation = [1, 0]
  return %0 : tensor<3x2xi8>
}

// -----

// Two transposes in place of one constant add six bytes.
func.func @twice() -> (tensor<3x2xi8>, tensor<3x2xi8>) {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %e = tensor.empty() : tensor<3x2xi8>
  // expected-remark @below {{folded 'linalg.transpose' into constant %w}}
  %0 = linalg.transpose ins(%w : tensor<2x3xi8>) outs(%e : tensor<3x2xi8>) permutation = [1, 0]
  // expected-remark @below {{folded 'linalg.transpose' into constant %w}}
  %1 = linalg.transpose ins(%w : tensor<2x3xi8>) outs(%e : tensor<3x2xi8>) permutation = [1, 0]
  return %0, %1 : tensor<3x2xi8>, tensor<3x2xi8>
}

// -----

// Two transposes of a constant that stays add twelve: the first fits.
// CHECK-LABEL: @stays
// CHECK: %[[T:[a-z0-9_]+]] = arith.constant dense<{{\[\[}}1, 4], [2, 5], [3, 6]]>
// CHECK: %[[L:[a-z0-9_]+]] = linalg.transpose
// CHECK: return %w, %[[T]], %[[L]]
func.func @stays() -> (tensor<2x3xi8>, tensor<3x2xi8>, tensor<3x2xi8>) {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %e = tensor.empty() : tensor<3x2xi8>
  // expected-remark @below {{folded 'linalg.transpose' into constant %w}}
  %0 = linalg.transpose ins(%w : tensor<2x3xi8>) outs(%e : tensor<3x2xi8>) permutation = [1, 0]
  // expected-remark @below {{not folded: it would add 6 bytes, of 11 that are allowed 5 are left; it takes max-growth=12 or more [growth]}}
  %1 = linalg.transpose ins(%w : tensor<2x3xi8>) outs(%e : tensor<3x2xi8>) permutation = [1, 0]
  return %w, %0, %1 : tensor<2x3xi8>, tensor<3x2xi8>, tensor<3x2xi8>
}

// -----

// The broadcast would add 12. What it repeats is folded all the same, and adds nothing.
// CHECK-LABEL: @repeated
// CHECK: arith.constant dense<[6, 5, 4, 3, 2, 1]> : tensor<6xi8>
// CHECK: linalg.broadcast
func.func @repeated() -> tensor<3x6xi8> {
  %w = arith.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6xi8>
  %q = quant.scast %w : tensor<6xi8> to tensor<6x!quant.uniform<i8:f32, 0.5>>
  // expected-remark @below {{folded 'quant.reverse' into constant %w}}
  %r = quant.reverse %q dims = [0] : tensor<6x!quant.uniform<i8:f32, 0.5>> to tensor<6x!quant.uniform<i8:f32, 0.5>>
  %s = quant.scast %r : tensor<6x!quant.uniform<i8:f32, 0.5>> to tensor<6xi8>
  %e = tensor.empty() : tensor<3x6xi8>
  // expected-remark @below {{not folded: it would add 12 bytes, of 11 that are allowed 11 are left; it takes max-growth=12 or more [growth]}}
  %0 = linalg.broadcast ins(%s : tensor<6xi8>) outs(%e : tensor<3x6xi8>) dimensions = [0]
  return %0 : tensor<3x6xi8>
}

// -----

// A splat takes no bytes, and neither does what a chain passes through.
// CHECK-LABEL: @free
// CHECK-NOT: linalg.broadcast
func.func @free() -> (tensor<100x2xi8>, tensor<2xi8>) {
  %w = arith.constant dense<7> : tensor<2xi8>
  %v = arith.constant dense<[1, 2]> : tensor<2xi8>
  %e = tensor.empty() : tensor<100x2xi8>
  // expected-remark @below {{folded 'linalg.broadcast' into constant %w}}
  %0 = linalg.broadcast ins(%w : tensor<2xi8>) outs(%e : tensor<100x2xi8>) dimensions = [0]
  // expected-remark @below {{folded 'linalg.broadcast' into constant %v}}
  %1 = linalg.broadcast ins(%v : tensor<2xi8>) outs(%e : tensor<100x2xi8>) dimensions = [0]
  // expected-remark @below {{folded 'tensor.extract_slice' into constant %v}}
  %2 = tensor.extract_slice %1[99, 0] [1, 2] [1, 1] : tensor<100x2xi8> to tensor<2xi8>
  return %0, %2 : tensor<100x2xi8>, tensor<2xi8>
}
