// RUN: qdialect-opt %s --verify-quant-shapes --split-input-file --verify-diagnostics

// The verifiers of tosa do not compare per-axis types, so a type that was only copied passes.
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3,0.125,2.0}>

// The axis is as long as before, and another one.
func.func @stale_axis(%w: tensor<2x4x3x!columns>) -> tensor<3x4x2x!columns> {
  %shape = tosa.const_shape {values = dense<[3, 4, 2]> : tensor<3xindex>} : () -> !tosa.shape<3>
  // expected-error @+1 {{'tosa.reshape' op result element [0, 1, 0] reads slot [0, 1, 0] (scale 2.500000e-01, zero point 3) in its type, but slot [0, 1, 0] (scale 5.000000e-01, zero point 0) in the type that the operands give it}}
  %0 = tosa.reshape %w, %shape : (tensor<2x4x3x!columns>, !tosa.shape<3>) -> tensor<3x4x2x!columns>
  return %0 : tensor<3x4x2x!columns>
}

func.func @one_error_for_each_op(%w: tensor<4x4x!columns>) {
  // expected-error @+1 {{'tosa.transpose' op result element [0, 1] reads slot [0, 1] (scale 2.500000e-01, zero point 3) in its type, but slot [0, 0] (scale 5.000000e-01, zero point 0) in the type that the operands give it; the element type of the result should be '!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3,1.250000e-01,2.000000e+00}>'}}
  %0 = tosa.transpose %w {perms = array<i32: 1, 0>} : (tensor<4x4x!columns>) -> tensor<4x4x!columns>
  // expected-error @+1 {{'tosa.reverse' op result element [0, 0] reads slot [0, 0] (scale 5.000000e-01, zero point 0) in its type, but slot [0, 0] (scale 2.000000e+00, zero point 0) in the type that the operands give it; the element type of the result should be '!quant.uniform<i8:f32:1, {2.000000e+00,1.250000e-01,2.500000e-01:3,5.000000e-01}>'}}
  %1 = tosa.reverse %w {axis = 1 : i32} : (tensor<4x4x!columns>) -> tensor<4x4x!columns>
  return
}

// Four scales on two columns, and on eight.
func.func @copied(%w: tensor<4x4x!columns>) {
  %from = tosa.const_shape {values = dense<[0, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %size = tosa.const_shape {values = dense<[4, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.slice' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 1 of length 2, 4 scales); the element type of the result should be '!quant.uniform<i8:f32:1, {2.500000e-01:3,1.250000e-01}>'}}
  %0 = tosa.slice %w, %from, %size : (tensor<4x4x!columns>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<4x2x!columns>
  // expected-error @+1 {{'tosa.concat' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 1 of length 8, 4 scales); the element type of the result should be}}
  %1 = tosa.concat %w, %w {axis = 1 : i32} : (tensor<4x4x!columns>, tensor<4x4x!columns>) -> tensor<4x8x!columns>
  return
}

// -----

// What is judged is what each op does: what is wrong before it is told before it.
!columns = !quant.uniform<i8:f32:1, {0.5,0.25}>
func.func @wrong_operand(%w: tensor<2x2x!columns>) {
  // expected-error @+1 {{'tosa.transpose' op result element [0, 1] reads}}
  %0 = tosa.transpose %w {perms = array<i32: 1, 0>} : (tensor<2x2x!columns>) -> tensor<2x2x!columns>
  %1 = tosa.reverse %0 {axis = 0 : i32} : (tensor<2x2x!columns>) -> tensor<2x2x!columns>
  return
}

// -----

func.func @operand_that_does_not_fit(%w: tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25}>>) {
  // expected-error @+1 {{'tosa.reverse' op operand #0 type does not fit its shape: quantized dimension size does not match number of scales (axis 1 of length 3, 2 scales)}}
  %0 = tosa.reverse %w {axis = 0 : i32} : (tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25}>>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25}>>
  return
}

// -----

// An identity that says something else of the same elements.
!columns = !quant.uniform<i8:f32:1, {1.0,2.0,3.0}>
!rows = !quant.uniform<i8:f32:0, {1.0,2.0,3.0}>
func.func @reinterpreted(%w: tensor<3x3x!columns>) {
  // expected-error @+1 {{'tosa.identity' op result element [0, 1] reads slot [0, 0] (scale 1.000000e+00, zero point 0) in its type, but slot [0, 1] (scale 2.000000e+00, zero point 0) in the type that the operands give it; the element type of the result should be '!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00,3.000000e+00}>'}}
  %0 = tosa.identity %w : (tensor<3x3x!columns>) -> tensor<3x3x!rows>
  // expected-error @+1 {{'tosa.reverse' op result element [0, 1] reads slot [0, 0] (scale 1.000000e+00, zero point 0) in its type, but slot [0, 1] (scale 2.000000e+00, zero point 0) in the type that the operands give it}}
  %1 = tosa.reverse %w {axis = 0 : i32} : (tensor<3x3x!columns>) -> tensor<3x3x!rows>
  // expected-error @+1 {{'tosa.identity' op moves elements of type '!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00,3.000000e+00}>' to a result of type 'i8': it is not a cast}}
  %2 = tosa.identity %w : (tensor<3x3x!columns>) -> tensor<3x3xi8>
  return
}
