// REQUIRES: iree-opt
// RUN: iree-opt %s --split-input-file --verify-diagnostics=only-expected
// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// Both say the same; StableHLO may add that it failed to infer the type of a result.
!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f() {
  // expected-error @+1 {{'stablehlo.constant' op inferred type(s) 'tensor<2xi8>' are incompatible with return type(s) of operation 'tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>'}}
  %0 = stablehlo.constant() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<3x!tensor>
  return
}

// -----

!unsigned = !quant.uniform<u8:f32, 0.5:3>
func.func @f() {
  // expected-error @+1 {{'stablehlo.constant' op inferred type(s) 'tensor<2xui8>' are incompatible}}
  %0 = stablehlo.constant() <{value = dense<1> : tensor<2xui8>}> : () -> tensor<2x!unsigned>
  return
}

// -----

!blocks = !quant.uniform<i8:f32:{0:1}, {0.5,0.25}>
func.func @f() {
  // expected-error @+1 {{'stablehlo.constant' op result #0 must be statically shaped tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized or per-axis integer quantized values, but got}}
  %0 = stablehlo.constant() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<2x!blocks>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'stablehlo.constant' op inferred type(s) 'vector<2xi8>' are incompatible}}
  %0 = stablehlo.constant() <{value = dense<1> : vector<2xi8>}> : () -> tensor<2xi8>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'stablehlo.constant' op result #0 must be statically shaped tensor of}}
  %0 = stablehlo.constant dense<1> : tensor<2xindex>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{invalid kind of attribute specified}}
  %0 = stablehlo.constant 1 : i8
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{attribute 'value' occurs more than once in the attribute list}}
  %0 = stablehlo.constant {value = dense<1> : tensor<2xi8>} dense<1> : tensor<2xi8>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x3x!tensor>) {
  // expected-error @+1 {{TransposeOp operand rank 2 does not match permutation size 1}}
  %0 = stablehlo.transpose %a, dims = [1] : (tensor<2x3x!tensor>) -> tensor<3x2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x3x!tensor>) {
  // expected-error @+1 {{attribute permutation must be a permutation of [0, 1] but got 1, 1}}
  %0 = stablehlo.transpose %a, dims = [1, 1] : (tensor<2x3x!tensor>) -> tensor<3x2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x3x!tensor>) {
  // expected-error @+1 {{'stablehlo.transpose' op inferred type(s) 'tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>' are incompatible}}
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!tensor>) -> tensor<2x3x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25:3>
func.func @f(%a: tensor<2x3x!tensor>) {
  // expected-error @+1 {{expect same quantization scale and zero_point but got}}
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!tensor>) -> tensor<3x2x!other>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
!unsigned = !quant.uniform<u8:f32, 0.5:3>
func.func @f(%a: tensor<2x3x!tensor>) {
  // expected-error @+1 {{'stablehlo.transpose' op requires compatible element types for all operands and results}}
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!tensor>) -> tensor<3x2x!unsigned>
  return
}

// -----

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
func.func @f(%a: tensor<2x2x!rows>) {
  // expected-error @+1 {{operand quantization_dimension 0 is not same as permutation[0] = 1}}
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2x!rows>) -> tensor<2x2x!rows>
  return
}

// -----

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
func.func @f(%a: tensor<2x3x!rows>) {
  // expected-error @+1 {{'stablehlo.transpose' op result #0 must be ranked tensor of}}
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!rows>) -> tensor<3x2x!rows>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
func.func @f(%a: tensor<2x3x!rows>) {
  // expected-error @+1 {{'stablehlo.reshape' op requires compatible element types for all operands and results}}
  %0 = stablehlo.reshape %a : (tensor<2x3x!rows>) -> tensor<2x3x!tensor>
  return
}

// -----

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
func.func @f(%a: tensor<2x3x!rows>) {
  // expected-error @+1 {{expect same quantization scales and zero_points but got}}
  %0 = stablehlo.reshape %a : (tensor<2x3x!rows>) -> tensor<1x2x3x!quant.uniform<i8:f32:1, {0.5,0.125:3}>>
  return
}

// -----

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
func.func @f(%a: tensor<2x3x!rows>) {
  // expected-error @+1 {{product of dimensions before quantization dimension must match between operand and result for 1 and 3}}
  %0 = stablehlo.reshape %a : (tensor<2x3x!rows>) -> tensor<3x2x!columns>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{number of output elements (5) doesn't match expected number of elements (6)}}
  %0 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'stablehlo.reshape' op result #0 must be statically shaped or single bounded dimension tensor of}}
  %0 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<?xf32>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x2x!tensor>) {
  // expected-error @+1 {{broadcast_dimensions size (1) does not match operand rank (2)}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<2x2x!tensor>) -> tensor<2x2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x2x!tensor>) {
  // expected-error @+1 {{broadcast_dimensions should not have duplicates}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 0] : (tensor<2x2x!tensor>) -> tensor<2x2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{broadcast_dimensions contains invalid value -1 for result with rank 2}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [-1] : (tensor<2x!tensor>) -> tensor<2x2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{size of operand dimension 0 (2) is not equal to 1 or size of result dimension 0 (3)}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<2x!tensor>) -> tensor<3x2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{expect same quantization scale and zero_point but got}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : (tensor<2x!tensor>) -> tensor<2x3x!other>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{'stablehlo.broadcast_in_dim' op requires compatible element types for all operands and results}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<2x!tensor>) -> tensor<3x2x!columns>
  return
}

// -----

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
func.func @f(%a: tensor<2x2x!rows>) {
  // expected-error @+1 {{result quantization_dimension 1 not same as broadcast_dimensions[0] = 0}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<2x2x!rows>) -> tensor<2x2x!columns>
  return
}

// -----

!one = !quant.uniform<i8:f32:0, {0.5:3}>
func.func @f(%a: tensor<1x!one>) {
  // expected-error @+1 {{mismatch result scale 1 (2.500000e-01) and operand scale 0 (5.000000e-01)}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<1x!one>) -> tensor<3x2x!quant.uniform<i8:f32:1, {0.5:3,0.25:3}>>
  return
}

// -----

!one = !quant.uniform<i8:f32:0, {0.5:3}>
func.func @f(%a: tensor<1x!one>) {
  // expected-error @+1 {{mismatch result zero_point 1 (2) and operand zero_point 0 (3)}}
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<1x!one>) -> tensor<3x2x!quant.uniform<i8:f32:1, {0.5:3,0.5:2}>>
  return
}

// -----

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
func.func @f(%a: tensor<2x!rows>) {
  // expected-error @+1 {{'stablehlo.reverse' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got}}
  %0 = stablehlo.reverse %a, dims = [0] : tensor<2x!rows>
  return
}

// -----

!wide = !quant.uniform<i8:f32, 0.5:128>
func.func @f(%a: tensor<2x!wide>) {
  // expected-error @+1 {{'stablehlo.reverse' op operand #0 must be ranked tensor of}}
  %0 = stablehlo.reverse %a, dims = [0] : tensor<2x!wide>
  return
}

// -----

func.func @f(%a: tensor<2xsi8>) {
  // expected-error @+1 {{'stablehlo.reverse' op operand #0 must be ranked tensor of}}
  %0 = stablehlo.reverse %a, dims = [0] : tensor<2xsi8>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{dimensions should be unique. Got: 0, 0}}
  %0 = stablehlo.reverse %a, dims = [0, 0] : tensor<2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{all dimensions should be non-negative. Got dimension: -1.}}
  %0 = stablehlo.reverse %a, dims = [-1] : tensor<2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{all dimensions should be between [0, 1). Got dimension: 1.}}
  %0 = stablehlo.reverse %a, dims = [1] : tensor<2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{'stablehlo.reverse' op requires the same element type for all operands and results}}
  %0 = stablehlo.reverse %a, dims = [0] : (tensor<2x!tensor>) -> tensor<2x!other>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // expected-error @+1 {{'stablehlo.reverse' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
  %0 = stablehlo.reverse %a, dims = [0] : (tensor<2xf32>) -> tensor<3xf32>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>, %b: tensor<i8>) {
  // expected-error @+1 {{'stablehlo.pad' op requires the same element type for all operands and results}}
  %0 = stablehlo.pad %a, %b, low = [1], high = [0], interior = [0] : (tensor<2x!tensor>, tensor<i8>) -> tensor<3x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
func.func @f(%a: tensor<2x!rows>, %b: tensor<!tensor>) {
  // expected-error @+1 {{'stablehlo.pad' op operand #0 must be ranked tensor of}}
  %0 = stablehlo.pad %a, %b, low = [1], high = [0], interior = [0] : (tensor<2x!rows>, tensor<!tensor>) -> tensor<3x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>, %b: tensor<1x!tensor>) {
  // expected-error @+1 {{'stablehlo.pad' op operand #1 must be 0D tensor of 4/6/8/16/32/64-bit float or bool or 2/4/8/16/32/64-bit integer or complex type with 32/64-bit float elements or per-tensor integer quantized values, but got}}
  %0 = stablehlo.pad %a, %b, low = [1], high = [0], interior = [0] : (tensor<2x!tensor>, tensor<1x!tensor>) -> tensor<3x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>, %b: tensor<!tensor>) {
  // expected-error @+1 {{'stablehlo.pad' op inferred type(s) 'tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>' are incompatible}}
  %0 = stablehlo.pad %a, %b, low = [1], high = [0], interior = [0] : (tensor<2x!tensor>, tensor<!tensor>) -> tensor<4x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>, %b: tensor<!tensor>) {
  // expected-error @+1 {{'stablehlo.pad' op failed to verify that all of {edge_padding_low, edge_padding_high, interior_padding} have same size}}
  %0 = stablehlo.pad %a, %b, low = [1], high = [0, 0], interior = [0] : (tensor<2x!tensor>, tensor<!tensor>) -> tensor<3x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>, %b: tensor<!tensor>) {
  // expected-error @+1 {{edge_padding_low length (2) must match operand rank (1)}}
  %0 = stablehlo.pad %a, %b, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<2x!tensor>, tensor<!tensor>) -> tensor<3x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>, %b: tensor<!tensor>) {
  // expected-error @+1 {{Interior padding cannot be negative: -1}}
  %0 = stablehlo.pad %a, %b, low = [1], high = [0], interior = [-1] : (tensor<2x!tensor>, tensor<!tensor>) -> tensor<2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>, %b: tensor<!tensor>) {
  // expected-error @+1 {{Padding result in negative size for dimension 0}}
  %0 = stablehlo.pad %a, %b, low = [-5], high = [0], interior = [0] : (tensor<2x!tensor>, tensor<!tensor>) -> tensor<2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2xf16>) {
  // expected-error @+1 {{Expressed type of result expected to be 'f16', but got 'f32'}}
  %0 = stablehlo.uniform_quantize %a : (tensor<2xf16>) -> tensor<2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
!half = !quant.uniform<i8:f16, 0.5:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{Expressed type of result expected to be 'f32', but got 'f16'}}
  %0 = stablehlo.uniform_quantize %a : (tensor<2x!tensor>) -> tensor<2x!half>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2xi8>) {
  // expected-error @+1 {{'stablehlo.uniform_quantize' op operand #0 must be ranked tensor of 4/6/8/16/32/64-bit float or per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xi8>'}}
  %0 = stablehlo.uniform_quantize %a : (tensor<2xi8>) -> tensor<2x!tensor>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2xf32>) {
  // expected-error @+1 {{'stablehlo.uniform_quantize' op all non-scalar operands/results must have the same shape and base type}}
  %0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<3x!tensor>
  return
}

// -----

!blocks = !quant.uniform<i8:f32:{0:1}, {0.5,0.25}>
func.func @f(%a: tensor<2xf32>) {
  // expected-error @+1 {{'stablehlo.uniform_quantize' op result #0 must be ranked tensor of per-tensor integer quantized or per-axis integer quantized values, but got}}
  %0 = stablehlo.uniform_quantize %a : (tensor<2xf32>) -> tensor<2x!blocks>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{'stablehlo.uniform_dequantize' op inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<2xf16>'}}
  %0 = stablehlo.uniform_dequantize %a : (tensor<2x!tensor>) -> tensor<2xf16>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{'stablehlo.uniform_dequantize' op all non-scalar operands/results must have the same shape and base type}}
  %0 = stablehlo.uniform_dequantize %a : (tensor<2x!tensor>) -> tensor<3xf32>
  return
}

// -----

!tensor = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%a: tensor<2x!tensor>) {
  // expected-error @+1 {{'stablehlo.uniform_dequantize' op result #0 must be ranked tensor of 4/6/8/16/32/64-bit float values, but got 'tensor<2xi8>'}}
  %0 = stablehlo.uniform_dequantize %a : (tensor<2x!tensor>) -> tensor<2xi8>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // expected-error @+1 {{'stablehlo.uniform_dequantize' op operand #0 must be ranked tensor of per-tensor integer quantized or per-axis integer quantized values, but got 'tensor<2xf32>'}}
  %0 = stablehlo.uniform_dequantize %a : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

!one = !quant.uniform<i8:f32:1, {0.5:3}>
!two = !quant.uniform<i8:f32:0, {0.5:3,0.5:3}>
func.func @f(%a: tensor<2x1x!one>) {
  // expected-error @+1 {{expect same quantization dimension size for operand and result 'tensor<2x1x}}
  %0 = stablehlo.reshape %a : (tensor<2x1x!one>) -> tensor<2x!two>
  return
}
