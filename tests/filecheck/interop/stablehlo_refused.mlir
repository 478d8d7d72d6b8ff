// REQUIRES: xdsl-jax
// RUN: qdialect-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics

// What is right StableHLO, and xdsl-jax does not take.
!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @constant() {
  // expected-error @+1 {{Expected '->'}}
  %0 = stablehlo.constant() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @pad(%a: tensor<2x!tensor>, %b: tensor<!tensor>) {
  // expected-error @+1 {{operand 'padding_value' at position 1 does not verify}}
  %0 = "stablehlo.pad"(%a, %b) <{edge_padding_high = array<i64: 1>, edge_padding_low = array<i64: 0>, interior_padding = array<i64: 0>}> : (tensor<2x!tensor>, tensor<!tensor>) -> tensor<3x!tensor>
  return
}

// -----

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
func.func @broadcast_in_dim(%a: tensor<2x!rows>) {
  // expected-error @+1 {{'stablehlo.broadcast_in_dim' requires the same element type}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<2x!rows>) -> tensor<3x2x!columns>
  return
}

// -----

func.func @reverse(%a: tensor<2xf32>) {
  // expected-error @+1 {{custom op 'stablehlo.reverse' is unknown}}
  %0 = stablehlo.reverse %a, dims = [0] : tensor<2xf32>
  return
}

// -----

func.func @uniform_quantize(%a: tensor<2xf32>) {
  // expected-error @+1 {{custom op 'stablehlo.uniform_quantize' is unknown}}
  %0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  return
}

// -----

func.func @uniform_dequantize(%a: tensor<2x!quant.uniform<i8:f32, 0.5:3>>) {
  // expected-error @+1 {{custom op 'stablehlo.uniform_dequantize' is unknown}}
  %0 = stablehlo.uniform_dequantize %a : (tensor<2x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<2xf32>
  return
}
