// RUN: qdialect-opt %s --equalize-inputs --allow-unregistered-dialect | filecheck %s

// A relu with an end has a product behind it, in the dialect of what reads it. The weights are behind a transpose,
// which stays.
// CHECK-LABEL: @ended
// CHECK:         %w = "stablehlo.constant"() <{value = dense<{{\[\[}}0.000000e+00, 1.000000e+00], [1.500000e+00, 0.000000e+00]]>
// CHECK-NEXT:    %t = "stablehlo.transpose"(%w)
// CHECK:         %r = "stablehlo.clamp"
// CHECK:         %0 = "stablehlo.constant"() <{value = dense<[2.500000e-01, 2.000000e+00]> : tensor<2xf32>}>
// CHECK-NEXT:    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<2xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:    %r_equalized = "stablehlo.multiply"(%r, %1) {quant.float, quant.key = "r_equalized"}
// CHECK-NEXT:    %r_equalized_1 = quant.stats %r_equalized {axis = 1 : i64, axisStats = dense<{{\[\[}}0.000000e+00, 1.500000e+00], [0.000000e+00, 1.000000e+00]]> : tensor<2x2xf32>, key = "r_equalized", layerStats = dense<[0.000000e+00, 1.500000e+00]>
// CHECK-NEXT:    %y = "stablehlo.dot_general"(%r_equalized_1, %t)
func.func @ended(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = "stablehlo.constant"() <{value = dense<[[0.0, 2.0], [0.375, 0.0]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  %t = "stablehlo.transpose"(%w) <{permutation = array<i64: 1, 0>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %zero = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
  %six = "stablehlo.constant"() <{value = dense<6.0> : tensor<f32>}> : () -> tensor<f32>
  %r = "stablehlo.clamp"(%zero, %x, %six) : (tensor<f32>, tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %rs = quant.stats %r {layerStats = dense<[0.0, 6.0]> : tensor<2xf32>, axisStats = dense<[[0.0, 6.0], [0.0, 0.5]]> : tensor<2x2xf32>, axis = 1 : i64} : tensor<3x2xf32>
  %y = "stablehlo.dot_general"(%rs, %t) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}
