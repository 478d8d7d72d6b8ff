// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// The constraints are those of docs/casts_and_statistics.md.

// quant.dequantize_bias (C1)
func.func @f(%x: tensor<2xi32>) {
  // expected-error @+1 {{'quant.dequantize_bias' op operand #0 must be ranked tensor of signless integers of 33 to 64 bits, but got 'tensor<2xi32>'}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<1xf32>} : tensor<2xi32> to tensor<2xf32>
  return
}

// -----

// quant.dequantize_bias (C1)
func.func @f(%x: tensor<2xui64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op operand #0 must be ranked tensor of signless integers of 33 to 64 bits, but got 'tensor<2xui64>'}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<1xf32>} : tensor<2xui64> to tensor<2xf32>
  return
}

// -----

// quant.dequantize_bias (C1)
func.func @f(%x: tensor<*xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op operand #0 must be ranked tensor of signless integers of 33 to 64 bits, but got 'tensor<*xi64>'}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<1xf32>} : tensor<*xi64> to tensor<*xf32>
  return
}

// -----

// quant.dequantize_bias (C2)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op result #0 must be ranked tensor of floats of at most 64 bits, but got 'tensor<2xi32>'}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<1xf32>} : tensor<2xi64> to tensor<2xi32>
  return
}

// -----

// quant.dequantize_bias (C2)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op failed to verify that operand and result have the same shape}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<1xf32>} : tensor<2xi64> to tensor<3xf32>
  return
}

// -----

// quant.dequantize_bias (C3)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op 'scales' must be a dense tensor of floats of at most 64 bits}}
  %0 = quant.dequantize_bias %x {scales = dense<1> : tensor<1xi32>} : tensor<2xi64> to tensor<2xf32>
  return
}

// -----

// quant.dequantize_bias (C3)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op 'scales' must be positive and finite, but one is -1.0}}
  %0 = quant.dequantize_bias %x {scales = dense<[0.5, -1.0]> : tensor<2xf32>, axis = 0 : i64} : tensor<2xi64> to tensor<2xf32>
  return
}

// -----

// quant.dequantize_bias (C3)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op 'scales' must be positive and finite, but one is nan}}
  %0 = quant.dequantize_bias %x {scales = dense<0x7FC00000> : tensor<1xf32>} : tensor<2xi64> to tensor<2xf32>
  return
}

// -----

// quant.dequantize_bias (C4)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op 'scales' must have shape [1] without an 'axis', not [2]}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<2xf32>} : tensor<2xi64> to tensor<2xf32>
  return
}

// -----

// quant.dequantize_bias (C5)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op 'axis' is 1, which a tensor of rank 1 does not have}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<2xf32>, axis = 1 : i64} : tensor<2xi64> to tensor<2xf32>
  return
}

// -----

// quant.dequantize_bias (C5)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op 'scales' must have shape [2], a scale for each position of axis 0, not [3]}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<3xf32>, axis = 0 : i64} : tensor<2xi64> to tensor<2xf32>
  return
}

// -----

// quant.dequantize_bias (C5)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op 'scales' must have shape [2], a scale for each position of axis 0, not [2, 1]}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<2x1xf32>, axis = 0 : i64} : tensor<2xi64> to tensor<2xf32>
  return
}

// -----

// quant.dequantize_bias (C2)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op result #0 must be ranked tensor of floats of at most 64 bits, but got 'tensor<2xf80>'}}
  %0 = quant.dequantize_bias %x {scales = dense<0.5> : tensor<1xf32>} : tensor<2xi64> to tensor<2xf80>
  return
}

// -----

// quant.dequantize_bias (C3)
func.func @f(%x: tensor<2xi64>) {
  // expected-error @+1 {{'quant.dequantize_bias' op 'scales' must be positive and finite, but one is inf}}
  %0 = quant.dequantize_bias %x {scales = dense<0x7F800000> : tensor<1xf32>} : tensor<2xi64> to tensor<2xf32>
  return
}
