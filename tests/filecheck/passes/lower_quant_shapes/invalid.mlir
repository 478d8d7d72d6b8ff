// RUN: qdialect-opt %s --lower-quant-shapes --split-input-file --verify-diagnostics

!p = !quant.uniform<i8:f32, 0.5>
func.func @two_lengths(%x: tensor<?x?x!p>) {
  // expected-error @+1 {{'quant.reshape' op cannot be lowered: the number of elements does not determine 2 lengths of the result}}
  %0 = quant.reshape %x : tensor<?x?x!p> to tensor<?x?x3x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
func.func @no_elements(%x: tensor<?x!p>) {
  // expected-error @+1 {{'quant.reshape' op cannot be lowered: the number of elements does not determine a length of an empty result}}
  %0 = quant.reshape %x : tensor<?x!p> to tensor<0x?x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
func.func @no_multiple(%x: tensor<7x!p>) {
  // expected-error @+1 {{'quant.reshape' op cannot be lowered: 7 elements are not a multiple of 2}}
  %0 = quant.reshape %x : tensor<7x!p> to tensor<2x?x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
func.func @new_axis(%x: tensor<2x!p>) {
  // expected-error @+1 {{'quant.broadcast_in_dim' op cannot be lowered: the length of axis 1 of the result cannot be determined}}
  %0 = quant.broadcast_in_dim %x dims = [0] : tensor<2x!p> to tensor<2x?x!p>
  return
}

// -----

!p = !quant.uniform<i8:f32, 0.5>
func.func @repeated_axis(%x: tensor<1x!p>) {
  // expected-error @+1 {{'quant.broadcast_in_dim' op cannot be lowered: the length of axis 0 of the result cannot be determined}}
  %0 = quant.broadcast_in_dim %x dims = [0] : tensor<1x!p> to tensor<?x!p>
  return
}

// -----

!s = !quant.uniform<si8:f32, 0.5>
func.func @storage() {
  // expected-error @+1 {{'quant.constant' op cannot be lowered: it stores 'si8', but quant.scast reads signless integers}}
  %0 = quant.constant dense<1> : tensor<2x!s>
  return
}
