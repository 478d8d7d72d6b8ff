// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// The constraints are those of docs/dialect.md.

// quant.qcast (C1)
func.func @f(%a: i8) {
  // expected-error @+1 {{'quant.qcast' op operand #0 must be scalar or tensor of floating-point, but got 'i8'}}
  %0 = quant.qcast %a : i8 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// quant.dcast (C1)
func.func @f(%a: f32) {
  // expected-error @+1 {{'quant.dcast' op operand #0 must be scalar or tensor of quantized type, but got 'f32'}}
  %0 = quant.dcast %a : f32 to f32
  return
}

// -----

// quant.scast (C1)
func.func @f(%a: tensor<4xui8>) {
  // expected-error @+1 {{'quant.scast' op operand #0 must be scalar or tensor of signless integer or quantized type, but got 'tensor<4xui8>'}}
  %0 = quant.scast %a : tensor<4xui8> to tensor<4x!quant.uniform<u8:f32, 2.0>>
  return
}

// -----

// quant.qcast (C2)
func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{'quant.qcast' op failed to verify that input and result are both scalars or both tensors with matching shape}}
  %0 = quant.qcast %a : tensor<4xf32> to tensor<?x!quant.uniform<i8:f32, 2.0>>
  return
}

// -----

// quant.scast (C3)
func.func @f(%a: i8) {
  // expected-error @+1 {{'quant.scast' op failed to verify that input must be integer and result must be quantized, or vice versa}}
  %0 = quant.scast %a : i8 to i8
  return
}

// -----

// quant.qcast (C3)
func.func @f(%a: f16) {
  // expected-error @+1 {{expressed type in quantized type expected to match float type}}
  %0 = quant.qcast %a : f16 to !quant.uniform<i8:f32, 2.0>
  return
}

// -----

// quant.scast (C4)
func.func @f(%a: i8) {
  // expected-error @+1 {{storage type in quantized type expected to match integer type}}
  %0 = quant.scast %a : i8 to !quant.uniform<ui8:f32, 1.0>
  return
}

// -----

// quant.qcast (C4)
func.func @f(%a: f32) {
  // expected-error @+1 {{scalar types may not use per-axis quantization}}
  %0 = quant.qcast %a : f32 to !quant.uniform<i8:f32:0, {1.0}>
  return
}

// -----

// quant.qcast (C4)
func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{quantized dimension must be less than tensor rank}}
  %0 = quant.qcast %a : tensor<3xf32> to tensor<3x!quant.uniform<i8:f32:1, {1.0,2.0,3.0}>>
  return
}

// -----

// quant.qcast (C4)
func.func @f(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{quantized dimension size does not match number of scales}}
  %0 = quant.qcast %a : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:1, {1.0,2.0,3.0}>>
  return
}

// -----

// quant.qcast (C4)
func.func @f(%a: tensor<*xf32>) {
  // expected-error @+1 {{tensor containing the sub-channel quantized type must be ranked}}
  %0 = quant.qcast %a : tensor<*xf32> to tensor<*x!quant.uniform<i8:f32:{0:1}, {1.0,2.0}>>
  return
}

// -----

// quant.qcast (C4)
func.func @f(%a: tensor<0x5xf32>) {
  // expected-error @+1 {{tensor dimension size 5 at axis 1 must be divisible by the corresponding block size 2}}
  %0 = quant.qcast %a : tensor<0x5xf32> to tensor<0x5x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0,2.0}}>>
  return
}

// -----

// quant.qcast (C4)
func.func @f(%a: tensor<2x4xf32>) {
  // expected-error @+1 {{dimension size 1 of scales tensor at axis 0 should match (tensor dimension at axis / block sizes at axis) = 1}}
  %0 = quant.qcast %a : tensor<2x4xf32> to tensor<2x4x!quant.uniform<i8:f32:{1:2}, {{1.0,2.0},{1.0,2.0}}>>
  return
}

// -----

// quant.qcast (C1)
func.func @f(%a: f32) {
  // expected-error @+1 {{'quant.qcast' op result #0 must be scalar or tensor of quantized type, but got 'i8'}}
  %0 = quant.qcast %a : f32 to i8
  return
}

// -----

// quant.dcast (C1)
func.func @f(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{'quant.dcast' op result #0 must be scalar or tensor of floating-point, but got 'tensor<2xi8>'}}
  %0 = quant.dcast %a : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xi8>
  return
}

// -----

// quant.dcast (C2)
func.func @f(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{'quant.dcast' op failed to verify that input and result are both scalars or both tensors with matching shape}}
  %0 = quant.dcast %a : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<*xf32>
  return
}

// -----

// quant.dcast (C3)
func.func @f(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{expressed type in quantized type expected to match float type}}
  %0 = quant.dcast %a : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf16>
  return
}

// -----

// quant.dcast (C4)
func.func @f(%a: tensor<2x!quant.uniform<i8:f32:0, {0.5}>>) {
  // expected-error @+1 {{quantized dimension size does not match number of scales}}
  %0 = quant.dcast %a : tensor<2x!quant.uniform<i8:f32:0, {0.5}>> to tensor<2xf32>
  return
}

// -----

// quant.scast (C2)
func.func @f(%a: tensor<2xi8>) {
  // expected-error @+1 {{'quant.scast' op failed to verify that input and result are both scalars or both tensors with matching shape}}
  %0 = quant.scast %a : tensor<2xi8> to tensor<3x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// quant.scast (C3)
func.func @f(%a: tensor<2x!quant.any<i8:f32>>) {
  // expected-error @+1 {{'quant.scast' op failed to verify that input must be integer and result must be quantized, or vice versa}}
  %0 = quant.scast %a : tensor<2x!quant.any<i8:f32>> to tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}

// -----

// quant.scast (C4)
func.func @f(%a: tensor<2xi8>) {
  // expected-error @+1 {{storage type in quantized type expected to match integer type}}
  %0 = quant.scast %a : tensor<2xi8> to tensor<2x!quant.calibrated<f32<-1.0:1.0>>>
  return
}

// -----

// quant.scast (C5)
func.func @f(%a: tensor<2xi8>) {
  // expected-error @+1 {{quantized dimension size does not match number of scales}}
  %0 = quant.scast %a : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32:0, {0.5}>>
  return
}
