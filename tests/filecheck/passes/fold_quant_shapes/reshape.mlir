// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

// The quantized axis is kept whole, and is another one.
// CHECK-LABEL: @keep
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}[1], [2]], {{\[}}[3], [4]]]> : tensor<2x2x1x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>>
!a = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
func.func @keep() -> tensor<2x2x1x!a> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!a>
  %r = quant.reshape %w : tensor<2x2x!a> to tensor<2x2x1x!a>
  return %r : tensor<2x2x1x!a>
}

// The quantized axis is split: two axes have blocks.
// CHECK-LABEL: @split
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1, 2], [3, 4]]> : tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{[{][{]}}1.000000e+00, 2.000000e+00}, {3.000000e+00, 4.000000e+00:5{{[}][}]}}>>
!c = !quant.uniform<i8:f32:0, {1.0,2.0,3.0,4.0:5}>
!d = !quant.uniform<i8:f32:{0:1, 1:1}, {{1.0,2.0},{3.0,4.0:5}}>
func.func @split() -> tensor<2x2x!d> {
  %w = quant.constant dense<[1, 2, 3, 4]> : tensor<4x!c>
  %r = quant.reshape %w : tensor<4x!c> to tensor<2x2x!d>
  return %r : tensor<2x2x!d>
}

// The quantized axis is merged into the slower one: its slots repeat.
// CHECK-LABEL: @merge_inner
// CHECK-NEXT:    %w = quant.constant dense<[1, 2, 3, 4]> : tensor<4x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01,5.000000e-01:3,2.500000e-01}>>
!b = !quant.uniform<i8:f32:1, {0.5:3,0.25}>
!e = !quant.uniform<i8:f32:0, {0.5:3,0.25,0.5:3,0.25}>
func.func @merge_inner() -> tensor<4x!e> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!b>
  %r = quant.reshape %w : tensor<2x2x!b> to tensor<4x!e>
  return %r : tensor<4x!e>
}

// The quantized axis takes the faster one: its slots become blocks.
// CHECK-LABEL: @merge_outer
// CHECK-NEXT:    %w = quant.constant dense<[1, 2, 3, 4]> : tensor<4x!quant.uniform<i8:f32:{0:2}, {5.000000e-01:3, 2.500000e-01}>>
!f = !quant.uniform<i8:f32:{0:2}, {0.5:3,0.25}>
func.func @merge_outer() -> tensor<4x!f> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!a>
  %r = quant.reshape %w : tensor<2x2x!a> to tensor<4x!f>
  return %r : tensor<4x!f>
}

// Factors that do not divide each other: every element has a slot of its own.
// CHECK-LABEL: @knot
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1, 2, 3], [4, 5, 6]]> : tensor<2x3x!quant.uniform<i8:f32:{0:1, 1:1}, {{[{][{]}}1.000000e+00, 1.000000e+00, 2.000000e+00}, {2.000000e+00, 3.000000e+00, 3.000000e+00{{[}][}]}}>>
!g = !quant.uniform<i8:f32:0, {1.0,2.0,3.0}>
!h = !quant.uniform<i8:f32:{0:1, 1:1}, {{1.0,1.0,2.0},{2.0,3.0,3.0}}>
func.func @knot() -> tensor<2x3x!h> {
  %w = quant.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2x!g>
  %r = quant.reshape %w : tensor<3x2x!g> to tensor<2x3x!h>
  return %r : tensor<2x3x!h>
}
