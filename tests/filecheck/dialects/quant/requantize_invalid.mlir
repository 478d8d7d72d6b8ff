// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// The constraints are those of docs/casts_and_statistics.md.

!a = !quant.uniform<i8:f32, 0.5>

// quant.requantize (C1)
func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{'quant.requantize' op operand #0 must be scalar or tensor of uniform quantized type, but got 'tensor<2xf32>'}}
  %0 = quant.requantize %x : tensor<2xf32> to tensor<2x!a>
  return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>

// quant.requantize (C1)
func.func @f(%x: tensor<2x!a>) {
  // expected-error @+1 {{'quant.requantize' op result #0 must be scalar or tensor of uniform quantized type, but got 'tensor<2x!quant.any<i8:f32>>'}}
  %0 = quant.requantize %x : tensor<2x!a> to tensor<2x!quant.any<i8:f32>>
  return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>

// quant.requantize (C2)
func.func @f(%x: tensor<2x!a>) {
  // expected-error @+1 {{'quant.requantize' op failed to verify that input and result are both scalars or both tensors with matching shape}}
  %0 = quant.requantize %x : tensor<2x!a> to tensor<3x!a>
  return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
!h = !quant.uniform<i8:f16, 0.5>

// quant.requantize (C3)
func.func @f(%x: tensor<2x!a>) {
  // expected-error @+1 {{'quant.requantize' op failed to verify that operand and result express the same type, but they express 'f32' and 'f16'}}
  %0 = quant.requantize %x : tensor<2x!a> to tensor<2x!h>
  return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
!axis = !quant.uniform<i8:f32:0, {0.5,0.25}>

// quant.requantize (C4)
func.func @f(%x: tensor<3x!a>) {
  // expected-error @+1 {{quantized dimension size does not match number of scales}}
  %0 = quant.requantize %x : tensor<3x!a> to tensor<3x!axis>
  return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
!axis = !quant.uniform<i8:f32:0, {0.5,0.25}>

// quant.requantize (C4)
func.func @f(%x: !axis) {
  // expected-error @+1 {{scalar types may not use per-axis quantization}}
  %0 = quant.requantize %x : !axis to !a
  return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>

// quant.requantize (C5)
func.func @f(%x: !a) {
  // expected-error @+1 {{'quant.requantize' op 'rounding' must be one of upstream, nearest-even, nearest-away, but is 'half-even'}}
  %0 = quant.requantize %x {rounding = "half-even"} : !a to !a
  return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
!blocks = !quant.uniform<i8:f32:{0:1}, {1.0,2.0}>
// quant.requantize (C4)
func.func @f(%x: tensor<*x!a>) {
  // expected-error @+1 {{tensor containing the sub-channel quantized type must be ranked}}
  %0 = quant.requantize %x : tensor<*x!a> to tensor<*x!blocks>
  return
}

// -----

func.func @floats_have_one_rounding(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{'quant.requantize' op has a 'rounding', but it stores codes of f8E5M2, and integers are needed}}
  %0 = quant.requantize %x {rounding = "upstream"} : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2x!quant.uniform<f8E5M2:f32, 0.5>>
  return
}
