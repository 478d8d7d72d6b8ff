// RUN: qdialect-opt %s --fold-quant-shapes=verify=values --remarks --verify-diagnostics | filecheck %s

// The scales move with the integers: here to another axis, in another order.
// CHECK-LABEL: @moved
// CHECK-NEXT:    %c = arith.constant dense<[{{\[}}5, 3, 1], [6, 4, 20000000000]]> : tensor<2x3xi64>
// CHECK-NEXT:    %r = quant.dequantize_bias %c {axis = 1 : i64, scales = dense<[1.000000e-01, 2.500000e-01, 5.000000e-01]> : tensor<3xf32>} : tensor<2x3xi64> to tensor<2x3xf32>
// CHECK-NEXT:    func.return %r
func.func @moved() -> tensor<2x3xf32> {
  %c = arith.constant dense<[[1, 20000000000], [3, 4], [5, 6]]> : tensor<3x2xi64>
  %0 = quant.dequantize_bias %c {scales = dense<[0.5, 0.25, 0.1]> : tensor<3xf32>, axis = 0 : i64} : tensor<3x2xi64> to tensor<3x2xf32>
  // expected-remark @below {{folded 'tosa.transpose' into constant %c}}
  %t = tosa.transpose %0 {perms = array<i32: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // expected-remark @below {{folded 'tosa.reverse' into constant %c}}
  %r = tosa.reverse %t {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// Scales of two axes, which no attribute has.
// CHECK-LABEL: @split
// CHECK:         tensor.expand_shape
func.func @split() -> tensor<2x2xf32> {
  %c = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %0 = quant.dequantize_bias %c {scales = dense<[0.5, 0.25, 0.1, 0.2]> : tensor<4xf32>, axis = 0 : i64} : tensor<4xi64> to tensor<4xf32>
  // expected-remark @below {{not folded: its scales would vary along the axes [0, 1], but one axis is supported [granularity]}}
  %r = tensor.expand_shape %0 [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}
