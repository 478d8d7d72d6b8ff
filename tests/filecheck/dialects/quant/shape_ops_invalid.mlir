// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// The constraints are those of docs/dialect.md.

!a0 = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
// every shape op (C5)
func.func @the_axis_stays_behind(%x: tensor<2x2x!a0>) {
  // expected-error @+1 {{'quant.transpose' op result element [0, 1] reads slot [0, 0] (scale 5.000000e-01, zero point 3) in its type, but slot [0, 1] (scale 2.500000e-01, zero point 0) in the type that the operands give it; the element type of the result should be '!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01}>'}}
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
// every shape op (C3)
func.func @too_few_slots(%x: tensor<2x!a0>) {
  // expected-error @+1 {{'quant.pad' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 0 of length 3, 2 scales); the element type of the result should be '!quant.uniform<i8:f32:0, {5.000000e-01:3,5.000000e-01:3,2.500000e-01}>'}}
  %0 = quant.pad %x low = [1] high = [0] : tensor<2x!a0> to tensor<3x!a0>
  return
}

// -----

!n = !quant.uniform<i8<-7:7>:f32, 0.5:100>
// quant.pad (C8)
func.func @a_zero_point_that_cannot_be_stored(%x: tensor<2x!n>) {
  // expected-error @+1 {{'quant.pad' op cannot pad with zero point 100, which is outside the storage range [-7, 7]}}
  %0 = quant.pad %x low = [1] high = [0] : tensor<2x!n> to tensor<3x!n>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// every shape op (C4)
func.func @shape(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.transpose' op result shape [2, 3] should be [3, 2]; the result type should be 'tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01>>'}}
  %0 = quant.transpose %x permutation = [1, 0] : tensor<2x3x!p> to tensor<2x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.transpose (C6)
func.func @permutation(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.transpose' op permutation [1, 1] does not name each of 2 axes once}}
  %0 = quant.transpose %x permutation = [1, 1] : tensor<2x3x!p> to tensor<2x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.reshape (C6)
func.func @elements(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.reshape' op 6 elements cannot be reshaped to 5}}
  %0 = quant.reshape %x : tensor<2x3x!p> to tensor<5x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
!s = !quant.uniform<i4:f32, 0.5>
// every shape op (C2)
func.func @storage(%x: tensor<2x!p>) {
  // expected-error @+1 {{'quant.reverse' op operand and result must store the same integers for the same expressed type, but are}}
  %0 = quant.reverse %x dims = [0] : tensor<2x!p> to tensor<2x!s>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// every shape op (C1)
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
  // expected-error @+1 {{'quant.transpose' op the slots of its types determine shapes that do not fit: [?, 3] of the operands, and [2, ?] of the result}}
  %0 = quant.transpose %x permutation = [1, 0] : tensor<?x?x!quant.uniform<i8:f32:1, {0.5,0.25,0.125}>> to tensor<?x?x!quant.uniform<i8:f32:0, {0.5,0.25}>>
  return
}

// -----

!a0 = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
// every shape op (C3)
func.func @an_operand_of_too_few_slots(%x: tensor<3x2x!a0>) {
  // expected-error @+1 {{'quant.transpose' op operand #0 type does not fit its shape: quantized dimension size does not match number of scales (axis 0 of length 3, 2 scales)}}
  %0 = quant.transpose %x permutation = [1, 0] : tensor<3x2x!a0> to tensor<2x3x!a0>
  return
}

// -----

!a1 = !quant.uniform<i8:f32:1, {0.5,0.25,0.125}>
// every shape op (C3)
func.func @an_axis_that_is_gone(%x: tensor<2x3x!a1>) {
  // expected-error @+1 {{'quant.reshape' op result type does not fit its shape: quantized dimension must be less than tensor rank (axis 1 of rank 1, 3 scales); the element type of the result should be '!quant.uniform<i8:f32:0, {}}
  %0 = quant.reshape %x : tensor<2x3x!a1> to tensor<6x!a1>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.transpose (C6)
func.func @too_few_axes(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.transpose' op permutation [0] does not name each of 2 axes once}}
  %0 = quant.transpose %x permutation = [0] : tensor<2x3x!p> to tensor<2x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.slice (C6)
func.func @sizes(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.slice' op 2 offsets, 1 sizes and 2 strides differ in length}}
  %0 = quant.slice %x [0, 0] [2] [1, 1] : tensor<2x3x!p> to tensor<2x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.slice (C6)
func.func @slice_axes(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.slice' op 1 offsets, 1 sizes and 1 strides do not match the rank 2 of the operand}}
  %0 = quant.slice %x [0] [2] [1] : tensor<2x3x!p> to tensor<2x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.slice (C7)
func.func @stride(%x: tensor<3x!p>) {
  // expected-error @+1 {{'quant.slice' op offset 0, size 1 and stride 0 on axis 0 must be at least 0, 0 and 1}}
  %0 = quant.slice %x [0] [1] [0] : tensor<3x!p> to tensor<1x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.slice (C8)
func.func @end(%x: tensor<4x!p>) {
  // expected-error @+1 {{'quant.slice' op offset 0, size 3 and stride 2 leave axis 0 of length 4}}
  %0 = quant.slice %x [0] [3] [2] : tensor<4x!p> to tensor<3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.slice (C8)
func.func @empty_behind_the_end(%x: tensor<4x!p>) {
  // expected-error @+1 {{'quant.slice' op offset 5, size 0 and stride 1 leave axis 0 of length 4}}
  %0 = quant.slice %x [5] [0] [1] : tensor<4x!p> to tensor<0x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.concat (C6)
func.func @no_operand() {
  // expected-error @+1 {{'quant.concat' op a concatenation needs at least one operand}}
  %0 = "quant.concat"() <{dim = 0 : i64}> : () -> tensor<0x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.concat (C7)
func.func @concat_axis(%x: tensor<4x!p>) {
  // expected-error @+1 {{'quant.concat' op axis 1 is out of range for rank 1}}
  %0 = quant.concat dim(1) %x : (tensor<4x!p>) -> tensor<4x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.concat (C7)
func.func @negative_axis(%x: tensor<4x!p>) {
  // expected-error @+1 {{'quant.concat' op axis -1 is negative: axes are counted from 0}}
  %0 = quant.concat dim(-1) %x : (tensor<4x!p>) -> tensor<4x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.concat (C8)
func.func @lengths(%x: tensor<2x3x!p>, %y: tensor<2x4x!p>) {
  // expected-error @+1 {{'quant.concat' op the operands differ in length on axis 1}}
  %0 = quant.concat dim(0) %x, %y : (tensor<2x3x!p>, tensor<2x4x!p>) -> tensor<4x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.concat (C8)
func.func @ranks(%x: tensor<2x3x!p>, %y: tensor<2x!p>) {
  // expected-error @+1 {{'quant.concat' op the operands differ in rank}}
  %0 = quant.concat dim(0) %x, %y : (tensor<2x3x!p>, tensor<2x!p>) -> tensor<4x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.broadcast_in_dim (C6)
func.func @dims(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.broadcast_in_dim' op 1 dims do not match the rank 2 of the operand}}
  %0 = quant.broadcast_in_dim %x dims = [0] : tensor<2x3x!p> to tensor<2x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.broadcast_in_dim (C7)
func.func @repeated(%x: tensor<2x2x!p>) {
  // expected-error @+1 {{'quant.broadcast_in_dim' op dims [0, 0] are not different axes of 2}}
  %0 = quant.broadcast_in_dim %x dims = [0, 0] : tensor<2x2x!p> to tensor<2x2x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.broadcast_in_dim (C8)
func.func @length(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.broadcast_in_dim' op axis 1 of length 3 cannot be broadcast to 4}}
  %0 = quant.broadcast_in_dim %x dims = [0, 1] : tensor<2x3x!p> to tensor<2x4x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.reverse (C6)
func.func @twice(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.reverse' op dims [1, 1] are not different axes}}
  %0 = quant.reverse %x dims = [1, 1] : tensor<2x3x!p> to tensor<2x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.reverse (C6)
func.func @reversed_axis(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.reverse' op dims [2] are not different axes of 2}}
  %0 = quant.reverse %x dims = [2] : tensor<2x3x!p> to tensor<2x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.gather (C6)
func.func @gathered_axis(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.gather' op axis 2 is out of range for rank 2}}
  %0 = quant.gather %x [0] dim(2) : tensor<2x3x!p> to tensor<1x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.gather (C7)
func.func @index(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.gather' op index 3 is out of range for axis 1 of length 3}}
  %0 = quant.gather %x [0, 3] dim(1) : tensor<2x3x!p> to tensor<2x2x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.gather (C7)
func.func @negative_index(%x: tensor<?x3x!p>) {
  // expected-error @+1 {{'quant.gather' op index -1 is negative: positions are counted from 0}}
  %0 = quant.gather %x [-1] dim(0) : tensor<?x3x!p> to tensor<1x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.pad (C6)
func.func @widths(%x: tensor<2x3x!p>) {
  // expected-error @+1 {{'quant.pad' op low, high and interior widths differ in length: [1, 2, 1]}}
  %0 = quant.pad %x low = [0] high = [0, 0] : tensor<2x3x!p> to tensor<2x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.pad (C7)
func.func @negative_width(%x: tensor<3x!p>) {
  // expected-error @+1 {{'quant.pad' op padding widths must not be negative}}
  %0 = quant.pad %x low = [-1] high = [0] : tensor<3x!p> to tensor<2x!p>
  return
}

// -----

!a0 = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
// every shape op (C5)
func.func @gathered_slots(%x: tensor<2x!a0>) {
  // expected-error @+1 {{'quant.gather' op result element [0] reads slot [0] (scale 5.000000e-01, zero point 3) in its type, but slot [0] (scale 2.500000e-01, zero point 0)}}
  %0 = quant.gather %x [1, 0] dim(0) : tensor<2x!a0> to tensor<2x!a0>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// every shape op (C1)
func.func @rank(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x!p>) {
  // expected-error @+1 {{'quant.reverse' op rank 65 is more than 64}}
  %0 = quant.reverse %x dims = [0] : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x!p> to tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
!h = !quant.uniform<i8:f16, 0.5>
// every shape op (C2)
func.func @expressed(%x: tensor<2x!p>) {
  // expected-error @+1 {{'quant.reverse' op operand and result must store the same integers for the same expressed type, but are of 'i8:f32' and 'i8:f16'}}
  %0 = quant.reverse %x dims = [0] : tensor<2x!p> to tensor<2x!h>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
!n = !quant.uniform<i8<-7:7>:f32, 0.5>
// every shape op (C2)
func.func @storage_range(%x: tensor<2x!p>, %y: tensor<2x!n>) {
  // expected-error @+1 {{'quant.concat' op operand and result must store the same integers for the same expressed type, but are of 'i8<-7:7>:f32' and 'i8:f32'}}
  %0 = quant.concat dim(0) %x, %y : (tensor<2x!p>, tensor<2x!n>) -> tensor<4x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.slice (C7)
func.func @offset(%x: tensor<3x!p>) {
  // expected-error @+1 {{'quant.slice' op offset -1, size 1 and stride 1 on axis 0 must be at least 0, 0 and 1}}
  %0 = quant.slice %x [-1] [1] [1] : tensor<3x!p> to tensor<1x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.slice (C7)
func.func @size(%x: tensor<3x!p>) {
  // expected-error @+1 {{'quant.slice' op offset 0, size -1 and stride 1 on axis 0 must be at least 0, 0 and 1}}
  %0 = quant.slice %x [0] [-1] [1] : tensor<3x!p> to tensor<?x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.broadcast_in_dim (C7)
func.func @no_axis(%x: tensor<2x2x!p>) {
  // expected-error @+1 {{'quant.broadcast_in_dim' op dims [0, 2] are not different axes of 2}}
  %0 = quant.broadcast_in_dim %x dims = [0, 2] : tensor<2x2x!p> to tensor<2x2x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.gather (C6)
func.func @negative_gathered_axis(%x: tensor<3x2x!p>) {
  // expected-error @+1 {{'quant.gather' op axis -1 is negative: axes are counted from 0}}
  %0 = quant.gather %x [0] dim(-1) : tensor<3x2x!p> to tensor<3x1x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.pad (C6)
func.func @axes_without_width(%x: tensor<3x2x!p>) {
  // expected-error @+1 {{'quant.pad' op 1 low and 1 high widths do not match the rank 2 of the operand}}
  %0 = quant.pad %x low = [0] high = [0] : tensor<3x2x!p> to tensor<3x2x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
// quant.pad (C7)
func.func @negative_high_width(%x: tensor<3x!p>) {
  // expected-error @+1 {{'quant.pad' op padding widths must not be negative}}
  %0 = quant.pad %x low = [0] high = [-1] : tensor<3x!p> to tensor<2x!p>
  return
}
