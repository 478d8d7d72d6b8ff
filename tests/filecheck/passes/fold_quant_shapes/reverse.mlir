// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

// CHECK-LABEL: @along_the_axis
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}3, 4], [1, 2]]> : tensor<2x2x!quant.uniform<i8:f32:0, {2.500000e-01,5.000000e-01:3}>>
!a = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!b = !quant.uniform<i8:f32:0, {0.25,0.5:3}>
func.func @along_the_axis() -> tensor<2x2x!b> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!a>
  %r = quant.reverse %w dims = [0] : tensor<2x2x!a> to tensor<2x2x!b>
  return %r : tensor<2x2x!b>
}

// CHECK-LABEL: @across_the_axis
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}2, 1], [4, 3]]> : tensor<2x2x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>>
func.func @across_the_axis() -> tensor<2x2x!a> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!a>
  %r = quant.reverse %w dims = [1] : tensor<2x2x!a> to tensor<2x2x!a>
  return %r : tensor<2x2x!a>
}
