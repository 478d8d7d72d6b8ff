// RUN: qdialect-opt %s --equalize-inputs --verify-diagnostics --remarks | filecheck %s

// The input has one product. The scales of the second layer are in the rows and the bias of the first, and the ranges
// before and behind the pool follow.
// CHECK-LABEL: @connected
// CHECK:         %0 = "tosa.const"() <{values = dense<{{\[+}}1.000000e+00, 5.000000e-01]]]]> : tensor<1x1x1x2xf32>}>
// CHECK-NEXT:    %1 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}>
// CHECK-NEXT:    %x_equalized = tosa.mul %x, %0, %1 {quant.float, quant.key = "x_equalized"}
// CHECK-NEXT:    %x_equalized_1 = quant.stats %x_equalized {axis = 3 : i64, axisStats = dense<{{\[\[}}-1.000000e+00, 1.000000e+00], [0.000000e+00, 8.000000e+00]]> : tensor<2x2xf32>, count = 4 : i64, key = "x_equalized", layerStats = dense<[-1.000000e+00, 8.000000e+00]>
// CHECK:         %w1 = "tosa.const"() <{values = dense<{{\[+}}5.000000e-01, 2.000000e+00]]], {{\[+}}-2.000000e+00, -8.000000e+00]]]]>
// CHECK-NEXT:    %b1 = "tosa.const"() <{values = dense<[5.000000e-01, 6.000000e+00]>
// CHECK-NEXT:    %h = tosa.conv2d %x_equalized_1, %w1, %b1, %z, %z
// CHECK-NEXT:    %hs = quant.stats %h {axis = 3 : i64, axisStats = dense<{{\[\[}}0.000000e+00, 1.700000e+01], [-6.000000e+01, 8.000000e+00]]> : tensor<2x2xf32>, layerStats = dense<[-6.000000e+01, 1.700000e+01]>
// CHECK-NEXT:    %p = tosa.max_pool2d %hs
// CHECK-NEXT:    %ps = quant.stats %p {axis = 3 : i64, axisStats = dense<{{\[\[}}0.000000e+00, 2.000000e+00], [0.000000e+00, 2.000000e+00]]> : tensor<2x2xf32>, layerStats = dense<[0.000000e+00, 2.000000e+00]>
// CHECK-NEXT:    %w2 = "tosa.const"() <{values = dense<{{\[+}}1.000000e+00, 5.000000e-01]]], {{\[+}}-1.000000e+00, -1.500000e+00]]]]>
func.func @connected(%x: tensor<1x2x2x2xf32>) -> tensor<1x1x1x2xf32> {
  %xs = quant.stats %x {layerStats = dense<[-1.0, 16.0]> : tensor<2xf32>, axisStats = dense<[[-1.0, 1.0], [0.0, 16.0]]> : tensor<2x2xf32>, axis = 3 : i64, key = "x", count = 4 : i64} : tensor<1x2x2x2xf32>
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %w1 = "tosa.const"() <{values = dense<[[[[1.0, 2.0]]], [[[-1.0, -2.0]]]]> : tensor<2x1x1x2xf32>}> : () -> tensor<2x1x1x2xf32>
  %b1 = "tosa.const"() <{values = dense<[1.0, 3.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
  // expected-remark @+1 {{equalized 'tosa.conv2d': its input is scaled by 0.5 to 1; by 'tosa.mul'; its rows are scaled by 0.5 to 2; the expected gain is +0.08 dB}}
  %h = tosa.conv2d %xs, %w1, %b1, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x2x2x2xf32>, tensor<2x1x1x2xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x2x2x2xf32>
  %hs = quant.stats %h {layerStats = dense<[-30.0, 34.0]> : tensor<2xf32>, axisStats = dense<[[0.0, 34.0], [-30.0, 4.0]]> : tensor<2x2xf32>, axis = 3 : i64} : tensor<1x2x2x2xf32>
  %p = tosa.max_pool2d %hs {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x2x2x2xf32>) -> tensor<1x1x1x2xf32>
  %ps = quant.stats %p {layerStats = dense<[0.0, 4.0]> : tensor<2xf32>, axisStats = dense<[[0.0, 4.0], [0.0, 1.0]]> : tensor<2x2xf32>, axis = 3 : i64} : tensor<1x1x1x2xf32>
  %w2 = "tosa.const"() <{values = dense<[[[[0.5, 1.0]]], [[[-0.5, -3.0]]]]> : tensor<2x1x1x2xf32>}> : () -> tensor<2x1x1x2xf32>
  %b2 = "tosa.const"() <{values = dense<0.0> : tensor<2xf32>}> : () -> tensor<2xf32>
  // expected-remark @+1 {{equalized 'tosa.conv2d': its input is scaled by 0.5 to 2; in the rows of 'h'; the expected gain is +8.75 dB}}
  %y = tosa.conv2d %ps, %w2, %b2, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x1x1x2xf32>, tensor<2x1x1x2xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x1x2xf32>
  return %y : tensor<1x1x1x2xf32>
}
