// RUN: qdialect-opt %s --equalize-inputs | filecheck %s

// A relu with an end has a product behind it, in the dialect of what reads it. The weights are behind a transpose,
// which stays.
// CHECK-LABEL: @ended
// CHECK:         %w = stablehlo.constant dense<{{\[\[}}0.000000e+00, 1.000000e+00], [1.500000e+00, 0.000000e+00]]>
// CHECK-NEXT:    %t = stablehlo.transpose %w
// CHECK:         %r = stablehlo.clamp %zero, %x, %six
// CHECK:         %0 = stablehlo.constant dense<[2.500000e-01, 2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:    %r_equalized = stablehlo.multiply %r, %1 {quant.float, quant.key = "r_equalized"}
// CHECK-NEXT:    %r_equalized_1 = quant.stats %r_equalized {axis = 1 : i64, axisStats = dense<{{\[\[}}0.000000e+00, 1.500000e+00], [0.000000e+00, 1.000000e+00]]> : tensor<2x2xf32>, key = "r_equalized", layerStats = dense<[0.000000e+00, 1.500000e+00]>
// CHECK-NEXT:    %y = stablehlo.dot_general %r_equalized_1, %t, contracting_dims = [1] x [0]
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

// A batch of any size: the bias behind its broadcast is scaled, and the zeros of the relu stay. The scales of a product are
// broadcast to the lengths of what they multiply, and are no value to quantize. What asks for lengths reads no numbers.
// CHECK-LABEL: @dynamic
// CHECK:         %0 = stablehlo.constant dense<[5.000000e-01, 2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    %1 = stablehlo.get_dimension_size %d, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>
// CHECK-NEXT:    %2 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
// CHECK-NEXT:    %3 = stablehlo.constant dense<2> : tensor<1xi32>
// CHECK-NEXT:    %4 = stablehlo.concatenate %2, %3, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
// CHECK-NEXT:    %5 = stablehlo.dynamic_broadcast_in_dim %0, %4, dims = [1] {quant.float, quant.key = "d_equalized_scales"}
// CHECK-NEXT:    %d_equalized = stablehlo.multiply %d, %5 {quant.float, quant.key = "d_equalized"}
// CHECK:         %b = stablehlo.constant dense<[8.000000e+00, 5.000000e-01]> : tensor<2xf32>
// CHECK:         %bs = quant.stats %br {layerStats = dense<[5.000000e-01, 8.000000e+00]> : tensor<2xf32>}
// CHECK:         %rs = quant.stats %r {axis = 1 : i64, axisStats = dense<{{\[\[}}0.000000e+00, 4.000000e+00], [0.000000e+00, 1.000000e+00]]>
// CHECK-NEXT:    %y = stablehlo.dot_general %rs, %
func.func @dynamic(%d: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %ds = quant.stats %d {layerStats = dense<[0.0, 4.0]> : tensor<2xf32>, axisStats = dense<[[0.0, 4.0], [0.0, 1.0]]> : tensor<2x2xf32>, axis = 1 : i64} : tensor<?x2xf32>
  %w = "stablehlo.constant"() <{value = dense<[[0.0, 1.0], [4.0, 0.0]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  %v = "stablehlo.constant"() <{value = dense<[[0.0, 8.0], [0.5, 0.0]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  %b = "stablehlo.constant"() <{value = dense<[4.0, 1.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %zero = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
  %two = "stablehlo.constant"() <{value = dense<2> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "stablehlo.dot_general"(%ds, %w) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %n = "stablehlo.get_dimension_size"(%s) <{dimension = 0 : i64}> : (tensor<?x2xf32>) -> tensor<i32>
  %m = "stablehlo.reshape"(%n) : (tensor<i32>) -> tensor<1xi32>
  %lengths = "stablehlo.concatenate"(%m, %two) <{dimension = 0 : i64}> : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %br = "stablehlo.dynamic_broadcast_in_dim"(%b, %lengths) <{broadcast_dimensions = array<i64: 1>}> : (tensor<2xf32>, tensor<2xi32>) -> tensor<?x2xf32>
  %bs = quant.stats %br {layerStats = dense<[1.0, 4.0]> : tensor<2xf32>} : tensor<?x2xf32>
  %a = "stablehlo.add"(%s, %bs) : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %z = "stablehlo.dynamic_broadcast_in_dim"(%zero, %lengths) <{broadcast_dimensions = array<i64>}> : (tensor<f32>, tensor<2xi32>) -> tensor<?x2xf32>
  %r = "stablehlo.maximum"(%a, %z) : (tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %rs = quant.stats %r {layerStats = dense<[0.0, 2.0]> : tensor<2xf32>, axisStats = dense<[[0.0, 2.0], [0.0, 2.0]]> : tensor<2x2xf32>, axis = 1 : i64} : tensor<?x2xf32>
  %y = "stablehlo.dot_general"(%rs, %v) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}
