// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// Upstream says the same, and then has a second error on the same line.

!a0 = !quant.uniform<i8:f32:0, {1.0,2.0,3.0}>
!a1 = !quant.uniform<i8:f32:1, {1.0,2.0,3.0}>
func.func @f(%a: tensor<2x3x!a1>) {
  %s = tosa.const_shape {values = dense<[6]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{'tosa.reshape' op inferred type(s) 'tensor<6x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00,3.000000e+00}>>' are incompatible with return type(s) of operation 'tensor<6x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00,3.000000e+00}>>'}}
  %0 = tosa.reshape %a, %s : (tensor<2x3x!a1>, !tosa.shape<1>) -> tensor<6x!a0>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
!a1 = !quant.uniform<i8:f32:1, {1.0,2.0,3.0}>
func.func @f(%a: tensor<2x3x!a1>) {
  %s = tosa.const_shape {values = dense<[6]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{'tosa.reshape' op inferred type(s) 'tensor<6x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00,3.000000e+00}>>' are incompatible with return type(s) of operation 'tensor<6x!quant.uniform<i8:f32, 2.000000e+00:10>>'}}
  %0 = tosa.reshape %a, %s : (tensor<2x3x!a1>, !tosa.shape<1>) -> tensor<6x!q>
  return
}

// -----

!sc = !quant.uniform<i8:f32:{0:1}, {1.0,2.0}>
func.func @f(%a: tensor<?x3x!sc>) {
  %s = tosa.const_shape {values = dense<[-1,1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op inferred type(s) 'tensor<?x1x!quant.uniform<i8:f32:{0:1}, {1.000000e+00, 2.000000e+00}>>' are incompatible with return type(s) of operation 'tensor<?x1xi8>'}}
  %0 = tosa.reshape %a, %s : (tensor<?x3x!sc>, !tosa.shape<2>) -> tensor<?x1xi8>
  return
}

// -----

!a1 = !quant.uniform<i8:f32:1, {1.0,2.0,3.0}>
!a0 = !quant.uniform<i8:f32:0, {1.0,2.0,3.0}>
func.func @f(%a: tensor<2x3x!a1>) {
  %s = tosa.const_shape {values = dense<[-1,1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op inferred type(s) 'tensor<6x1x!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00,3.000000e+00}>>' are incompatible with return type(s) of operation 'tensor<?x1x!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00,3.000000e+00}>>'}}
  %0 = tosa.reshape %a, %s : (tensor<2x3x!a1>, !tosa.shape<2>) -> tensor<?x1x!a0>
  return
}

// -----

// expected-error @+1 {{integer value too large}}
func.func private @f(!tosa.shape<2147483648>)
