// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

// The quantized axis of length one is repeated: one slot for all.
// CHECK-LABEL: @repeat_the_axis
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1, 1], [2, 2]]> : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
!a = !quant.uniform<i8:f32:1, {0.5:3}>
!p = !quant.uniform<i8:f32, 0.5:3>
func.func @repeat_the_axis() -> tensor<2x2x!p> {
  %w = quant.constant dense<[[1], [2]]> : tensor<2x1x!a>
  %b = quant.broadcast_in_dim %w dims = [0, 1] : tensor<2x1x!a> to tensor<2x2x!p>
  return %b : tensor<2x2x!p>
}

// CHECK-LABEL: @new_axis
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1, 2], [1, 2]]> : tensor<2x2x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01}>>
!c = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!d = !quant.uniform<i8:f32:1, {0.5:3,0.25}>
func.func @new_axis() -> tensor<2x2x!d> {
  %w = quant.constant dense<[1, 2]> : tensor<2x!c>
  %b = quant.broadcast_in_dim %w dims = [1] : tensor<2x!c> to tensor<2x2x!d>
  return %b : tensor<2x2x!d>
}

// Axes may change places.
// CHECK-LABEL: @transposed
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01}>>
func.func @transposed() -> tensor<3x2x!d> {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!c>
  %b = quant.broadcast_in_dim %w dims = [1, 0] : tensor<2x3x!c> to tensor<3x2x!d>
  return %b : tensor<3x2x!d>
}
