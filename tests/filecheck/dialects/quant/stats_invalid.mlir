// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// The constraints are those of docs/casts_and_statistics.md.

// quant.stats (C1)
func.func @f(%x: tensor<2x3xi8>) {
  // expected-error @+1 {{'quant.stats' op operand #0 must be tensor of floating-point values, but got 'tensor<2x3xi8>'}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>} : tensor<2x3xi8>
  return
}

// -----

// quant.stats (C1)
func.func @f(%x: f32) {
  // expected-error @+1 {{'quant.stats' op operand #0 must be tensor of floating-point values, but got 'f32'}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>} : f32
  return
}

// -----

// quant.stats (C2)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'layerStats' must have shape [2], not [3]}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<3xf32>} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C2)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'layerStats' must be a dense tensor of floats}}
  %0 = quant.stats %x {layerStats = dense<0> : tensor<2xi32>} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C3)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'layerStats' has a minimum that is not at most its maximum}}
  %0 = quant.stats %x {layerStats = dense<[1.0, 0.5]> : tensor<2xf32>} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C3)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'layerStats' has a minimum that is not at most its maximum}}
  %0 = quant.stats %x {layerStats = dense<0x7FC00000> : tensor<2xf32>} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C4)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'axis' requires 'axisStats'}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, axis = 1 : i64} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C4)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'axisStats' requires 'axis'}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, axisStats = dense<0.0> : tensor<3x2xf32>} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C4)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'axis' is 2, which a tensor of rank 2 does not have}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, axisStats = dense<0.0> : tensor<3x2xf32>, axis = 2 : i64} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C4)
func.func @f(%x: tensor<*xf32>) {
  // expected-error @+1 {{'quant.stats' op 'axis' is 0, which a tensor without a rank does not have}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, axisStats = dense<0.0> : tensor<3x2xf32>, axis = 0 : i64} : tensor<*xf32>
  return
}

// -----

// quant.stats (C5)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'axisStats' must have shape [2, 2], a range for each position of axis 0, not [3, 2]}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, axisStats = dense<0.0> : tensor<3x2xf32>, axis = 0 : i64} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C6)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'key' must not be empty}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, key = ""} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C7)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'count' must be at least 1}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, count = 0 : i64} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C1)
func.func @f(%x: tensor<2xf32>) {
  // expected-error @+1 {{result 'result' at position 0 does not verify}}
  %0 = "quant.stats"(%x) <{layerStats = dense<0.0> : tensor<2xf32>}> : (tensor<2xf32>) -> tensor<2xf64>
  return
}

// -----

// quant.stats (C2)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'axisStats' must be a dense tensor of floats}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, axisStats = dense<0> : tensor<3x2xi32>, axis = 1 : i64} : tensor<2x3xf32>
  return
}

// -----

// quant.stats (C3)
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'quant.stats' op 'axisStats' has a minimum that is not at most its maximum}}
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>, axisStats = dense<[[0.0, 1.0], [2.0, 1.0], [0.0, 0.0]]> : tensor<3x2xf32>, axis = 1 : i64} : tensor<2x3xf32>
  return
}
