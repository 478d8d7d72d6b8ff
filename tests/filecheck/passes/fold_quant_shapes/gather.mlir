// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

// CHECK-LABEL: @along_the_axis
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}3, 4], [1, 2], [3, 4]]> : tensor<3x2x!quant.uniform<i8:f32:0, {2.500000e-01,5.000000e-01:3,2.500000e-01}>>
!a = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!b = !quant.uniform<i8:f32:0, {0.25,0.5:3,0.25}>
func.func @along_the_axis() -> tensor<3x2x!b> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!a>
  %g = quant.gather %w [1, 0, 1] dim(0) : tensor<2x2x!a> to tensor<3x2x!b>
  return %g : tensor<3x2x!b>
}

// CHECK-LABEL: @across_the_axis
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}2], [4]]> : tensor<2x1x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>>
func.func @across_the_axis() -> tensor<2x1x!a> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!a>
  %g = quant.gather %w [1] dim(1) : tensor<2x2x!a> to tensor<2x1x!a>
  return %g : tensor<2x1x!a>
}

// Positions of one block need no finer blocks.
// CHECK-LABEL: @inside_blocks
// CHECK-NEXT:    %w = quant.constant dense<[3, 2, 5, 4]> : tensor<4x!quant.uniform<i8:f32:{0:2}, {5.000000e-01, 2.500000e-01}>>
!c = !quant.uniform<i8:f32:{0:3}, {0.5, 0.25}>
!d = !quant.uniform<i8:f32:{0:2}, {0.5, 0.25}>
func.func @inside_blocks() -> tensor<4x!d> {
  %w = quant.constant dense<[1, 2, 3, 4, 5, 6]> : tensor<6x!c>
  %g = quant.gather %w [2, 1, 4, 3] dim(0) : tensor<6x!c> to tensor<4x!d>
  return %g : tensor<4x!d>
}

// CHECK-LABEL: @splat
// CHECK-NEXT:    %w = quant.constant dense<7> : tensor<2x65536x!quant.uniform<i8:f32, 5.000000e-01>>
!s = !quant.uniform<i8:f32, 0.5>
func.func @splat() -> tensor<2x65536x!s> {
  %w = quant.constant dense<7> : tensor<65536x65536x!s>
  %g = quant.gather %w [65535, 0] dim(0) : tensor<65536x65536x!s> to tensor<2x65536x!s>
  return %g : tensor<2x65536x!s>
}

// CHECK-LABEL: @nothing
// CHECK-NEXT:    %w = quant.constant dense<> : tensor<2x0x!quant.uniform<i8:f32, 5.000000e-01>>
func.func @nothing() -> tensor<2x0x!s> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!s>
  %g = quant.gather %w [] dim(1) : tensor<2x2x!s> to tensor<2x0x!s>
  return %g : tensor<2x0x!s>
}
