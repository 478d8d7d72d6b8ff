// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARKS

// A copy of what stays is written only if it saves something at run time.

// A weight and a part of it, which have more scales together than the weight: the part is no
// constant of its own.
// CHECK-LABEL: @with_a_part
// CHECK: stablehlo.slice
// CHECK-NEXT: stablehlo.concatenate
// REMARKS: not folded: it would copy a constant that stays, for ops that are not folded; '--raise-dequantization' first removes it [growth]
// REMARKS: not folded: its operands would have 3 elements, its sources have 2, and 2 are allowed; it takes max-parameter-growth=1 or more; '--raise-dequantization' first removes it [parameter-growth]
func.func @with_a_part() -> tensor<3x4xf32> {
  %w = "stablehlo.constant"() {value = dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8>} : () -> tensor<2x4xi8>
  %s = "stablehlo.constant"() {value = dense<[0.5, 0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  %f = "stablehlo.convert"(%w) : (tensor<2x4xi8>) -> tensor<2x4xf32>
  %b = "stablehlo.broadcast_in_dim"(%s) {broadcast_dimensions = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x4xf32>
  %d = "stablehlo.multiply"(%f, %b) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %p = "stablehlo.slice"(%d) {start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 4>, strides = array<i64: 1, 1>} : (tensor<2x4xf32>) -> tensor<1x4xf32>
  %c = "stablehlo.concatenate"(%d, %p) {dimension = 0 : i64} : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %c : tensor<3x4xf32>
}

// What is quantized at run time would be quantized twice, and stored twice as floats.
// CHECK-LABEL: @quantized_at_run_time
// CHECK-NEXT: arith.constant
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: quant.transpose
// CHECK-NEXT: quant.reverse
// CHECK-NEXT: return
!q = !quant.uniform<i8:f32, 0.5>
func.func @quantized_at_run_time() -> (tensor<3x2x!q>, tensor<2x3x!q>) {
  %w = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %q = quant.qcast %w : tensor<2x3xf32> to tensor<2x3x!q>
  %t = quant.transpose %q permutation = [1, 0] : tensor<2x3x!q> to tensor<3x2x!q>
  %r = quant.reverse %q dims = [1] : tensor<2x3x!q> to tensor<2x3x!q>
  return %t, %r : tensor<3x2x!q>, tensor<2x3x!q>
}

// One of them alone takes the place of the constant.
// CHECK-LABEL: @moved_once
// CHECK-NEXT: arith.constant
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: return
func.func @moved_once() -> tensor<3x2x!q> {
  %w = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %q = quant.qcast %w : tensor<2x3xf32> to tensor<2x3x!q>
  %t = quant.transpose %q permutation = [1, 0] : tensor<2x3x!q> to tensor<3x2x!q>
  return %t : tensor<3x2x!q>
}
