// RUN: qdialect-opt %s --verify-quant-shapes --allow-unregistered-dialect --split-input-file --verify-diagnostics

!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3,0.125,2.0}>
!others = !quant.uniform<i8:f32:1, {1.0,2.0,3.0,4.0}>

// The specification has no rule for the scales of an axis that is not repeated.
func.func @broadcast_with_other_scales(%w: tensor<4x4x!columns>) {
  // expected-error @+1 {{'mhlo.broadcast_in_dim' op result element [0, 0] reads slot [0, 0] (scale 1.000000e+00, zero point 0) in its type, but slot [0, 0] (scale 5.000000e-01, zero point 0) in the type that the operands give it; the element type of the result should be '!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3,1.250000e-01,2.000000e+00}>'}}
  %0 = "mhlo.broadcast_in_dim"(%w) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x4x!columns>) -> tensor<4x4x!others>
  return
}

func.func @broadcast_of_one_scale(%w: tensor<4x1x!quant.uniform<i8:f32:1, {0.5}>>) {
  // expected-error @+1 {{'mhlo.broadcast_in_dim' op result element [0, 1] reads slot [0, 1] (scale 2.500000e-01, zero point 3) in its type, but slot [0, 0] (scale 5.000000e-01, zero point 0) in the type that the operands give it; the element type of the result should be '!quant.uniform<i8:f32, 5.000000e-01>'}}
  %0 = "mhlo.broadcast_in_dim"(%w) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<4x1x!quant.uniform<i8:f32:1, {0.5}>>) -> tensor<4x4x!columns>
  return
}

// Lengths are not known, but there are as many as scales.
func.func @fewer_scales_on_a_dynamic_axis(%w: tensor<?x?x!columns>) {
  // expected-error @+1 {{'mhlo.transpose' op the slots of its types determine shapes that do not fit: [?, 4] of the operands, and [2, ?] of the result}}
  %0 = "mhlo.transpose"(%w) <{permutation = array<i64: 1, 0>}> : (tensor<?x?x!columns>) -> tensor<?x?x!quant.uniform<i8:f32:0, {0.5,0.25:3}>>
  return
}

func.func @wrong_axis(%w: tensor<2x3x4x!quant.uniform<i8:f32:0, {0.5,0.25}>>) {
  // expected-error @+1 {{'mhlo.transpose' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 1 of length 4, 2 scales); the element type of the result should be '!quant.uniform<i8:f32:2, {5.000000e-01,2.500000e-01}>'}}
  %0 = "mhlo.transpose"(%w) <{permutation = array<i64: 1, 2, 0>}> : (tensor<2x3x4x!quant.uniform<i8:f32:0, {0.5,0.25}>>) -> tensor<3x4x2x!quant.uniform<i8:f32:1, {0.5,0.25}>>
  return
}

func.func @per_axis_to_per_tensor(%w: tensor<4x4x!columns>) {
  // expected-error @+1 {{'mhlo.reshape' op result element [0, 1] reads slot [0, 0] (scale 5.000000e-01, zero point 0) in its type, but slot [0, 1] (scale 2.500000e-01, zero point 3) in the type that the operands give it}}
  %0 = "mhlo.reshape"(%w) : (tensor<4x4x!columns>) -> tensor<2x8x!quant.uniform<i8:f32, 0.5>>
  return
}

func.func @constants() {
  // expected-error @+1 {{'mhlo.constant' op element [2] is 100, outside the storage range [-7, 7]}}
  %0 = "mhlo.constant"() <{value = dense<[1, 2, 100, 101]> : tensor<4xi8>}> : () -> tensor<4x!quant.uniform<i8<-7:7>:f32, 0.5>>
  // expected-error @+1 {{'mhlo.constant' op every element is 100, outside the storage range [-7, 7]}}
  %1 = "mhlo.constant"() <{value = dense<100> : tensor<4xi8>}> : () -> tensor<4x!quant.uniform<i8<-7:7>:f32, 0.5>>
  // expected-error @+1 {{'mhlo.constant' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 1 of length 3, 4 scales)}}
  %2 = "mhlo.constant"() <{value = dense<1> : tensor<2x3xi8>}> : () -> tensor<2x3x!columns>
  return
}

func.func @impossible(%w: tensor<2x3x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{'mhlo.transpose' op permutation [0, 0] does not name each of 2 axes once}}
  %0 = "mhlo.transpose"(%w) <{permutation = array<i64: 0, 0>}> : (tensor<2x3x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  return
}
