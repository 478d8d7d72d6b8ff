// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

// CHECK-LABEL: @different_scales
// CHECK-NEXT:    %a = quant.constant dense<[1, 2, 3, 4]> : tensor<4x!quant.uniform<i8:f32:{0:2}, {5.000000e-01, 2.500000e-01:7}>>
!p = !quant.uniform<i8:f32, 0.5>
!q = !quant.uniform<i8:f32, 0.25:7>
!c = !quant.uniform<i8:f32:{0:2}, {0.5,0.25:7}>
func.func @different_scales() -> tensor<4x!c> {
  %a = quant.constant dense<[1, 2]> : tensor<2x!p>
  %b = quant.constant dense<[3, 4]> : tensor<2x!q>
  %r = quant.concat dim(0) %a, %b : (tensor<2x!p>, tensor<2x!q>) -> tensor<4x!c>
  return %r : tensor<4x!c>
}

// CHECK-LABEL: @along_the_axis
// CHECK-NEXT:    %a = quant.constant dense<[{{\[}}1, 2], [3, 4], [5, 6]]> : tensor<3x2x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00,5.000000e-01}>>
!d = !quant.uniform<i8:f32:0, {1.0,2.0}>
!e = !quant.uniform<i8:f32:0, {1.0,2.0,0.5}>
func.func @along_the_axis() -> tensor<3x2x!e> {
  %a = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!d>
  %b = quant.constant dense<[[5, 6]]> : tensor<1x2x!p>
  %r = quant.concat dim(0) %a, %b : (tensor<2x2x!d>, tensor<1x2x!p>) -> tensor<3x2x!e>
  return %r : tensor<3x2x!e>
}

// Blocks of 4 and of 2 have blocks of 2 in common.
// CHECK-LABEL: @different_blocks
// CHECK-NEXT:    %a = quant.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8x!quant.uniform<i8:f32:{0:2}, {5.000000e-01, 5.000000e-01, 1.000000e+00, 2.000000e+00}>>
!f = !quant.uniform<i8:f32:{0:2}, {1.0,2.0}>
!g = !quant.uniform<i8:f32:{0:2}, {0.5,0.5,1.0,2.0}>
func.func @different_blocks() -> tensor<8x!g> {
  %a = quant.constant dense<[0, 1, 2, 3]> : tensor<4x!p>
  %b = quant.constant dense<[4, 5, 6, 7]> : tensor<4x!f>
  %r = quant.concat dim(0) %a, %b : (tensor<4x!p>, tensor<4x!f>) -> tensor<8x!g>
  return %r : tensor<8x!g>
}

// CHECK-LABEL: @one_constant_twice
// CHECK-NEXT:    %a = quant.constant dense<[1, 2, 1, 2]> : tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:    func.return %a
func.func @one_constant_twice() -> tensor<4x!p> {
  %a = quant.constant dense<[1, 2]> : tensor<2x!p>
  %r = quant.concat dim(0) %a, %a : (tensor<2x!p>, tensor<2x!p>) -> tensor<4x!p>
  return %r : tensor<4x!p>
}

// What is not constant is not folded.
// CHECK-LABEL: @argument
// CHECK-NEXT:    %a = quant.constant dense<[1, 2]>
// CHECK-NEXT:    %r = quant.concat dim(0) %a, %x
func.func @argument(%x: tensor<2x!p>) -> tensor<4x!p> {
  %a = quant.constant dense<[1, 2]> : tensor<2x!p>
  %r = quant.concat dim(0) %a, %x : (tensor<2x!p>, tensor<2x!p>) -> tensor<4x!p>
  return %r : tensor<4x!p>
}
