// RUN: qdialect-opt %s --fold-quant-shapes=verify=values --remarks --verify-diagnostics | filecheck %s

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!a = !quant.uniform<u8:f32:1, {0.1:9,0.2,0.3}>
!b = !quant.uniform<u8:f32:0, {0.1:9,0.2,0.3}>

// The constant is moved, and both types with it. It stays a requantization of the constant.
// CHECK-LABEL: @transpose
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT:    %r = quant.requantize %w {rounding = "nearest-away"} : tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>> to tensor<3x2x!quant.uniform<u8:f32:0, {1.000000e-01:9,2.000000e-01,3.000000e-01}>>
// CHECK-NEXT:    func.return %r
func.func @transpose() -> tensor<3x2x!b> {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!rows>
  %r = quant.requantize %w {rounding = "nearest-away"} : tensor<2x3x!rows> to tensor<2x3x!a>
  // expected-remark @below {{folded 'quant.transpose' into constant %w}}
  %t = quant.transpose %r permutation = [1, 0] : tensor<2x3x!a> to tensor<3x2x!b>
  return %t : tensor<3x2x!b>
}

// What the new positions hold is known only when it runs.
// CHECK-LABEL: @pad
// CHECK:         quant.pad
func.func @pad() -> tensor<3x3x!a> {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!rows>
  %r = quant.requantize %w : tensor<2x3x!rows> to tensor<2x3x!a>
  // expected-remark @below {{not folded: the operand is quantized at run time [padding]}}
  %p = quant.pad %r low = [1, 0] high = [0, 0] : tensor<2x3x!a> to tensor<3x3x!a>
  return %p : tensor<3x3x!a>
}
