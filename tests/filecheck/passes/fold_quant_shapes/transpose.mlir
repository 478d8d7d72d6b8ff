// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

// The axis moves with the elements: what was read on axis 0 is read on axis 1.
// CHECK-LABEL: @per_axis
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01}>>
// CHECK-NEXT:    func.return %w
!a = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!b = !quant.uniform<i8:f32:1, {0.5:3,0.25}>
func.func @per_axis() -> tensor<3x2x!b> {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!a>
  %t = quant.transpose %w permutation = [1, 0] : tensor<2x3x!a> to tensor<3x2x!b>
  return %t : tensor<3x2x!b>
}

// A permutation that is not its own inverse.
// CHECK-LABEL: @cycle
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}[1, 7], [2, 8]], {{\[}}[3, 9], [4, 10]], {{\[}}[5, 11], [6, 12]]]> : tensor<3x2x2x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00:-1,3.000000e+00:5}>>
// CHECK-NEXT:    func.return %w
!c = !quant.uniform<i8:f32:1, {1.0,2.0:-1,3.0:5}>
!d = !quant.uniform<i8:f32:0, {1.0,2.0:-1,3.0:5}>
func.func @cycle() -> tensor<3x2x2x!d> {
  %w = quant.constant dense<[[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]> : tensor<2x3x2x!c>
  %t = quant.transpose %w permutation = [1, 2, 0] : tensor<2x3x2x!c> to tensor<3x2x2x!d>
  return %t : tensor<3x2x2x!d>
}

// CHECK-LABEL: @blocks
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1, 5], [2, 6], [3, 7], [4, -8]]> : tensor<4x2x!quant.uniform<i4:f16:{0:2, 1:1}, {{[{][{]}}1.000000e+00, 3.000000e+00}, {2.000000e+00, 4.000000e+00{{[}][}]}}>>
// CHECK-NEXT:    func.return %w
!e = !quant.uniform<i4:f16:{0:1, 1:2}, {{1.0, 2.0}, {3.0, 4.0}}>
!f = !quant.uniform<i4:f16:{0:2, 1:1}, {{1.0, 3.0}, {2.0, 4.0}}>
func.func @blocks() -> tensor<4x2x!f> {
  %w = quant.constant dense<[[1, 2, 3, 4], [5, 6, 7, -8]]> : tensor<2x4x!e>
  %t = quant.transpose %w permutation = [1, 0] : tensor<2x4x!e> to tensor<4x2x!f>
  return %t : tensor<4x2x!f>
}

// A value that has the type of one before it again, with nothing moved in between, is that value,
// also when what comes before moves something.
// CHECK-LABEL: @spelled_with_two_types
// CHECK-NEXT:    %s = quant.slice %w
// CHECK-NEXT:    func.return %s
!g = !quant.uniform<i8:f32, 0.5>
!h = !quant.uniform<i8:f32:0, {0.5, 0.5}>
func.func @spelled_with_two_types(%w: tensor<2x3x!g>) -> tensor<2x2x!g> {
  %s = quant.slice %w [0, 1] [2, 2] [1, 1] : tensor<2x3x!g> to tensor<2x2x!g>
  %t = quant.transpose %s permutation = [0, 1] : tensor<2x2x!g> to tensor<2x2x!h>
  %u = quant.transpose %t permutation = [0, 1] : tensor<2x2x!h> to tensor<2x2x!g>
  return %u : tensor<2x2x!g>
}
