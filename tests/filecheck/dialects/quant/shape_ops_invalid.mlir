// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

!a0 = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
func.func @the_axis_stays_behind(%x: tensor<2x2x!a0>) {
  // expected-error @+1 {{'quant.transpose' op result element [0, 1] reads slot [0, 0] (scale 5.000000e-01, zero point 3) in its type, but slot [0, 1] (scale 2.500000e-01, zero point 0) in the type that the operands give it}}
  %0 = quant.transpose %x permutation = [1, 0] : tensor<2x2x!a0> to tensor<2x2x!a0>
  return
}

// -----

// The lengths of the axes agree, but not what is read on them.
!a1 = !quant.uniform<i8:f32:1, {1.0,2.0,3.0,4.0}>
func.func @a_stale_axis_of_equal_length(%x: tensor<2x4x3x!a1>) {
  // expected-error @+1 {{'quant.reshape' op result element [0, 1, 0] reads slot [0, 1, 0] (scale 2.000000e+00, zero point 0) in its type, but slot [0, 1, 0] (scale 1.000000e+00, zero point 0)}}
  %0 = quant.reshape %x : tensor<2x4x3x!a1> to tensor<3x4x2x!a1>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
!q = !quant.uniform<i8:f32, 0.25>
func.func @the_first_operand_does_not_decide(%x: tensor<2x!p>, %y: tensor<2x!q>) {
  // expected-error @+1 {{'quant.concat' op result element [2] reads slot [0] (scale 5.000000e-01, zero point 0) in its type, but slot [1] (scale 2.500000e-01, zero point 0)}}
  %0 = quant.concat dim(0) %x, %y : (tensor<2x!p>, tensor<2x!q>) -> tensor<4x!p>
  return
}

// -----

!b = !quant.uniform<i8:f32:{0:32}, {1.0,2.0}>
func.func @a_slice_inside_a_block(%x: tensor<64x!b>) {
  // expected-error @+1 {{'quant.slice' op result element [16] reads slot [0] (scale 1.000000e+00, zero point 0) in its type, but slot [1] (scale 2.000000e+00, zero point 0)}}
  %0 = quant.slice %x [16] [32] [1] : tensor<64x!b> to tensor<32x!quant.uniform<i8:f32, 1.0>>
  return
}

// -----

!a0 = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
func.func @an_order_that_stays(%x: tensor<2x!a0>) {
  // expected-error @+1 {{'quant.reverse' op result element [0] reads slot [0] (scale 5.000000e-01, zero point 3) in its type, but slot [0] (scale 2.500000e-01, zero point 0)}}
  %0 = quant.reverse %x dims = [0] : tensor<2x!a0> to tensor<2x!a0>
  return
}

// -----

!a0 = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
func.func @too_few_slots(%x: tensor<2x!a0>) {
  // expected-error @+1 {{'quant.pad' op quantized dimension size does not match number of scales}}
  %0 = quant.pad %x low = [1] high = [0] : tensor<2x!a0> to tensor<3x!a0>
  return
}

// -----

!n = !quant.uniform<i8<-7:7>:f32, 0.5:100>
func.func @a_zero_point_that_cannot_be_stored(%x: tensor<2x!n>) {
  // expected-error @+1 {{'quant.pad' op cannot pad with zero point 100, which is outside the storage range [-7, 7]}}
  %0 = quant.pad %x low = [1] high = [0] : tensor<2x!n> to tensor<3x!n>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
func.func @shape(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.transpose' op result shape [2, 3] should be [3, 2]}}
  %0 = quant.transpose %x permutation = [1, 0] : tensor<2x3x!p> to tensor<2x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
func.func @permutation(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.transpose' op permutation [1, 1] does not name each of 2 axes once}}
  %0 = quant.transpose %x permutation = [1, 1] : tensor<2x3x!p> to tensor<2x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
func.func @elements(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.reshape' op 6 elements cannot be reshaped to 5}}
  %0 = quant.reshape %x : tensor<2x3x!p> to tensor<5x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
!s = !quant.uniform<i4:f32, 0.5>
func.func @storage(%x: tensor<2x!p>) {
  // expected-error @+1 {{'quant.reverse' op operand and result must store the same integers for the same expressed type, but are}}
  %0 = quant.reverse %x dims = [0] : tensor<2x!p> to tensor<2x!s>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
func.func @unranked(%x: tensor<*x!p>) {
  // expected-error @+1 {{'quant.reverse' op operand #0 must be ranked tensor of uniform quantized type, but got 'tensor<*x!quant.uniform<i8:f32, 5.000000e-01>>'}}
  %0 = quant.reverse %x dims = [0] : tensor<*x!p> to tensor<*x!p>
  return
}

// -----

!a = !quant.any<i8:f32>
func.func @without_scales(%x: tensor<2x!a>) {
  // expected-error @+1 {{'quant.reverse' op operand #0 must be ranked tensor of uniform quantized type}}
  %0 = quant.reverse %x dims = [0] : tensor<2x!a> to tensor<2x!a>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
!q = !quant.uniform<i8:f32, 0.25>
func.func @dynamic_but_decided(%x: tensor<?x!p>) {
  // expected-error @+1 {{every element of the result reads scale 2.500000e-01, zero point 0 in its type, but scale 5.000000e-01, zero point 0 in that of operand #0}}
  %0 = quant.reverse %x dims = [0] : tensor<?x!p> to tensor<?x!q>
  return
}

// -----

!a1 = !quant.uniform<i8:f32:1, {0.5:3,0.25}>
func.func @dynamic_but_decided_by_the_slots(%x: tensor<?x?x!a1>) {
  // expected-error @+1 {{'quant.transpose' op result element}}
  %0 = quant.transpose %x permutation = [1, 0] : tensor<?x?x!a1> to tensor<?x?x!a1>
  return
}

// -----

func.func @slots_tell_lengths(%x: tensor<?x?x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>>) {
  // expected-error @+1 {{'quant.transpose' op the slots of its types tell shapes that do not fit: [?, 3] of the operands, and [2, ?] of the result}}
  %0 = quant.transpose %x permutation = [1, 0] : tensor<?x?x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>> to tensor<?x?x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  return
}
