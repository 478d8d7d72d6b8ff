// RUN: qdialect-opt %s --fold-quant-shapes --verify-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --fold-quant-shapes --remarks --verify-diagnostics

!rows = !quant.uniform<f8E4M3FN:f32:0, {0.5,0.25:3}>
!blocks = !quant.uniform<f4E2M1FN:f32:{0:1,1:2}, {{0.5,2.0},{4.0,8.0}}>
!table = !quant.uniform<!quant.quantile<ui2:f32, {-1.0,0.5,0.1,1.0}>:f32, 0.5>

// CHECK-LABEL: @bits_move
// CHECK-NEXT: %w = quant.constant
// CHECK-SAME{LITERAL}: dense<[[1.000000e+00, 0xFF], [-0.000000e+00, 5.000000e+00], [0x7F, 4.480000e+02]]> : tensor<3x2x!quant.uniform<f8E4M3FN:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: quant.dcast
// CHECK-NEXT: func.return
func.func @bits_move(%init: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = quant.constant dense<[[1.0, -0.0, 0x7F], [0xFF, 5.0, 448.0]]> : tensor<2x3x!rows>
  %a = quant.dcast %w : tensor<2x3x!rows> to tensor<2x3xf32>
  // expected-remark @below {{folded 'linalg.transpose' into constant %w}}
  %t = linalg.transpose ins(%a : tensor<2x3xf32>) outs(%init : tensor<3x2xf32>) permutation = [1, 0]
  return %t : tensor<3x2xf32>
}

// The code of real zero is 0 under zero point 0, and 3.0 under zero point 3.
// CHECK-LABEL: @zeros
// CHECK{LITERAL}: dense<[[0.000000e+00, 1.000000e+00], [3.000000e+00, -0.000000e+00]]> : tensor<2x2x!quant.uniform<f8E4M3FN:f32:0, {5.000000e-01,2.500000e-01:3}>>
func.func @zeros() -> tensor<2x2xf32> {
  %w = quant.constant dense<[[1.0], [-0.0]]> : tensor<2x1x!rows>
  %a = quant.dcast %w : tensor<2x1x!rows> to tensor<2x1xf32>
  %zero = arith.constant 0.0 : f32
  // expected-remark @below {{folded 'tensor.pad' into constant %w}}
  %p = tensor.pad %a low[0, 1] high[0, 0] { ^bb0(%i: index, %j: index): tensor.yield %zero : f32 } : tensor<2x1xf32> to tensor<2x2xf32>
  return %p : tensor<2x2xf32>
}

// CHECK-LABEL: @split_blocks
// CHECK{LITERAL}: dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, -0.000000e+00, 6.000000e+00, -6.000000e+00, 5.000000e-01, 0.000000e+00]> : tensor<8x!quant.uniform<f4E2M1FN:f32:{0:2}, {5.000000e-01, 2.000000e+00, 4.000000e+00, 8.000000e+00}>>
func.func @split_blocks() -> tensor<8xf32> {
  %w = quant.constant dense<[[1.0, 2.0, 3.0, -0.0], [6.0, -6.0, 0.5, 0.0]]> : tensor<2x4x!blocks>
  %a = quant.dcast %w : tensor<2x4x!blocks> to tensor<2x4xf32>
  // expected-remark @below {{folded 'tensor.collapse_shape' into constant %w}}
  %r = tensor.collapse_shape %a [[0, 1]] : tensor<2x4xf32> into tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: @no_zero
// CHECK: tensor.pad
func.func @no_zero() -> (tensor<3xf32>, tensor<2xf32>) {
  %w = quant.constant dense<[0, 3]> : tensor<2x!table>
  %a = quant.dcast %w : tensor<2x!table> to tensor<2xf32>
  %zero = arith.constant 0.0 : f32
  // expected-remark @below {{not folded: no code of !quant.quantile<ui2:f32> dequantizes to 0.0 with scale 5.000000e-01, zero point 0 [padding]}}
  %p = tensor.pad %a low[1] high[0] { ^bb0(%i: index): tensor.yield %zero : f32 } : tensor<2xf32> to tensor<3xf32>
  return %p, %a : tensor<3xf32>, tensor<2xf32>
}
