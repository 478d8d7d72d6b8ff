// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.transpose' op expected perms attribute to have size 2 (input rank) but got size 1}}
  %0 = tosa.transpose %a {perms = array<i32: 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.transpose' op expected valid permutation indices}}
  %0 = tosa.transpose %a {perms = array<i32: 0, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.transpose' op expected valid permutation indices}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 2>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.transpose' op expected output tensor dim 0 to match input dim 1 with value of 3}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.transpose' op expected input1 and output to have same numbers of elements, got 6 and 9}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.transpose' op expected input tensor rank to equal result tensor rank}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2x1xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.transpose' op failed to verify that all of {input1, output} have same element type}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xi32>
  return
}

// -----

func.func @f(%a: tensor<*xf32>) {
  // expected-error @+1 {{'tosa.transpose' op expected perms attribute to have size 3 (output rank) but got size 2}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<*xf32>) -> tensor<3x2x2xf32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // expected-error @+1 {{'tosa.transpose' op operand #0 must be tosa-conformant tensor of at least rank 1, but got 'tensor<f32>'}}
  %0 = tosa.transpose %a {perms = array<i32>} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<?x3xf32>) {
  // expected-error @+1 {{'tosa.transpose' op expected output tensor dim 0 to match input dim 1 with value of 3}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<?x3xf32>) -> tensor<4x5xf32>
  return
}

// -----

func.func @f(%a: vector<2x3xf32>) {
  // expected-error @+1 {{'tosa.transpose' op operand #0 must be tosa-conformant tensor of at least rank 1, but got 'vector<2x3xf32>'}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 0>} : (vector<2x3xf32>) -> tensor<3x2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xcomplex<f32>>) {
  // expected-error @+1 {{'tosa.transpose' op operand #0 must be tosa-conformant tensor of at least rank 1, but got 'tensor<2x3xcomplex<f32>>'}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<2x3xcomplex<f32>>) -> tensor<3x2xcomplex<f32>>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
!q2 = !quant.uniform<i8:f32, 3.0:10>
func.func @f(%a: tensor<2x3x!q>) {
  // expected-error @+1 {{'tosa.transpose' op failed to verify that all of {input1, output} have same element type}}
  %0 = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<2x3x!q>) -> tensor<3x2x!q2>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[7]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{'tosa.reshape' op cannot reshape 6 elements into 7}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<1>) -> tensor<7xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[7]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{'tosa.reshape' op new shape is inconsistent with result shape}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<1>) -> tensor<6xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[6,1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op new shape does not match result rank}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<6xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[-1,-1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op expected at most one target dimension to be -1}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<6x1xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[-1,12]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op cannot reshape 6 elements into 12}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<?x12xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[-2,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op new shape has invalid tensor dimension size -2}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<?x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[-2,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op new shape is inconsistent with result shape}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[0,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op result #0 must be tosa-conformant tensor of number values, but got 'tensor<0x3xf32>'}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<0x3xf32>
  return
}

// -----

func.func @f(%a: tensor<0x3xf32>) {
  %s = tosa.const_shape {values = dense<[0,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op operand #0 must be tosa-conformant tensor of number values, but got 'tensor<0x3xf32>'}}
  %0 = tosa.reshape %a, %s : (tensor<0x3xf32>, !tosa.shape<2>) -> tensor<0x3xf32>
  return
}

// -----

func.func @f(%a: tensor<0x3xf32>) {
  %s = tosa.const_shape {values = dense<[0,5]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.reshape' op operand #0 must be tosa-conformant tensor of number values, but got 'tensor<0x3xf32>'}}
  %0 = tosa.reshape %a, %s : (tensor<0x3xf32>, !tosa.shape<2>) -> tensor<0x5xf32>
  return
}

// -----

func.func @f(%a: tensor<0x3xf32>) {
  %s = tosa.const_shape {values = dense<[0]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{'tosa.reshape' op operand #0 must be tosa-conformant tensor of number values, but got 'tensor<0x3xf32>'}}
  %0 = tosa.reshape %a, %s : (tensor<0x3xf32>, !tosa.shape<1>) -> tensor<0xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[6]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{'tosa.reshape' op expect input and output to have same element type, got 'f32' and 'i32'}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<1>) -> tensor<6xi32>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
!q2 = !quant.uniform<i8:f32, 3.0:10>
func.func @f(%a: tensor<2x3x!q>) {
  %s = tosa.const_shape {values = dense<[6]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{'tosa.reshape' op expect input and output to have same element type, got '!quant.uniform<i8:f32, 2.000000e+00:10>' and '!quant.uniform<i8:f32, 3.000000e+00:10>'}}
  %0 = tosa.reshape %a, %s : (tensor<2x3x!q>, !tosa.shape<1>) -> tensor<6x!q2>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %s: !tosa.shape<1>) {
  // expected-error @+1 {{'tosa.reshape' op shape operand is not compile time resolvable}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<1>) -> tensor<6xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %i: tensor<2xi32>) {
  %s = builtin.unrealized_conversion_cast %i : tensor<2xi32> to !tosa.shape<1>
  // expected-error @+1 {{'tosa.reshape' op shape operand is not compile time resolvable}}
  %0 = tosa.reshape %a, %s : (tensor<2x3xf32>, !tosa.shape<1>) -> tensor<6xf32>
  return
}

// -----

func.func @f(%a: tensor<4x5xf32>) {
  %s = tosa.const_shape {values = dense<[1,2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %z = tosa.const_shape {values = dense<[0,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.slice' op result #0 must be tosa-conformant tensor of at least rank 1, but got 'tensor<0x3xf32>'}}
  %0 = tosa.slice %a, %s, %z : (tensor<4x5xf32>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<0x3xf32>
  return
}

// -----

func.func @f(%a: tensor<4x5xf32>) {
  %s = tosa.const_shape {values = dense<[1]> : tensor<1xindex>} : () -> !tosa.shape<1>
  %z = tosa.const_shape {values = dense<[2,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.slice' op length of start is not equal to rank of input shape}}
  %0 = tosa.slice %a, %s, %z : (tensor<4x5xf32>, !tosa.shape<1>, !tosa.shape<2>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<4x5xf32>) {
  %s = tosa.const_shape {values = dense<[1,2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %z = tosa.const_shape {values = dense<[2]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{'tosa.slice' op length of size is not equal to rank of input shape}}
  %0 = tosa.slice %a, %s, %z : (tensor<4x5xf32>, !tosa.shape<2>, !tosa.shape<1>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<4x5xf32>) {
  %s = tosa.const_shape {values = dense<[1,2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %z = tosa.const_shape {values = dense<[2,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.slice' op expect input1 and output to have the same ranks, got 2 and 1}}
  %0 = tosa.slice %a, %s, %z : (tensor<4x5xf32>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2xf32>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
!q2 = !quant.uniform<i8:f32, 3.0:10>
func.func @f(%a: tensor<4x5x!q>) {
  %s = tosa.const_shape {values = dense<[1,2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %z = tosa.const_shape {values = dense<[2,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.slice' op expect input and output to have same element type, got '!quant.uniform<i8:f32, 2.000000e+00:10>' and '!quant.uniform<i8:f32, 3.000000e+00:10>'}}
  %0 = tosa.slice %a, %s, %z : (tensor<4x5x!q>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x3x!q2>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
func.func @f(%a: tensor<4x5x!q>) {
  %s = tosa.const_shape {values = dense<[1,2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %z = tosa.const_shape {values = dense<[2,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.slice' op expect input and output to have same element type, got '!quant.uniform<i8:f32, 2.000000e+00:10>' and 'i8'}}
  %0 = tosa.slice %a, %s, %z : (tensor<4x5x!q>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x3xi8>
  return
}

// -----

func.func @f(%a: tensor<4x5xf32>, %i: tensor<2xi32>) {
  %z = tosa.const_shape {values = dense<[2,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.slice' op operand #1 must be Shape with static rank and Index element type, but got 'tensor<2xi32>'}}
  %0 = tosa.slice %a, %i, %z : (tensor<4x5xf32>, tensor<2xi32>, !tosa.shape<2>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<1xf32>) {
  %s = tosa.const_shape {values = dense<[0,1,2,3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // expected-error @+1 {{'tosa.pad' op mismatch in output shape at dimension 1: expected 3 + 2 + 3 = 8, but got 7}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<3x7xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<f32>) {
  %s = tosa.const_shape {values = dense<[0,1,2,3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // expected-error @+1 {{'tosa.pad' op operand #2 must be tosa-conformant unranked tensor of unsigned integer or signless integer or floating-point values or tosa-conformant scalar tensor of number values, but got 'tensor<f32>'}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<4>, tensor<f32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<2xf32>) {
  %s = tosa.const_shape {values = dense<[0,1,2,3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // expected-error @+1 {{'tosa.pad' op operand #2 must be tosa-conformant unranked tensor of unsigned integer or signless integer or floating-point values or tosa-conformant scalar tensor of number values, but got 'tensor<2xf32>'}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<4>, tensor<2xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<?xf32>) {
  %s = tosa.const_shape {values = dense<[0,1,2,3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // expected-error @+1 {{'tosa.pad' op operand #2 must be tosa-conformant unranked tensor of unsigned integer or signless integer or floating-point values or tosa-conformant scalar tensor of number values, but got 'tensor<?xf32>'}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<4>, tensor<?xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<1xi8>) {
  %s = tosa.const_shape {values = dense<[0,1,2,3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // expected-error @+1 {{'tosa.pad' op expect input and output to have same element type, got 'i8' and 'f32'}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xi8>) -> tensor<3x8xf32>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
func.func @f(%a: tensor<2x3x!q>, %p: tensor<1xi8>) {
  %s = tosa.const_shape {values = dense<[0,1,2,3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // expected-error @+1 {{'tosa.pad' op expect input and output to have same element type, got 'i8' and '!quant.uniform<i8:f32, 2.000000e+00:10>'}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3x!q>, !tosa.shape<4>, tensor<1xi8>) -> tensor<3x8x!q>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<1xf32>) {
  %s = tosa.const_shape {values = dense<[0,1,2]> : tensor<3xindex>} : () -> !tosa.shape<3>
  // expected-error @+1 {{'tosa.pad' op padding tensor must have 2 * 2 = 4 elements, but got 3}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<3>, tensor<1xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<1xf32>) {
  %s = tosa.const_shape {values = dense<[0,1,2,-2]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // expected-error @+1 {{'tosa.pad' op invalid padding values at dimension 1: values must be non-negative or -1 for dynamic padding, got [2, -2]}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<1xf32>) {
  %s = tosa.const_shape {values = dense<[0,1,2,-1]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // expected-error @+1 {{'tosa.pad' op mismatch in output shape at dimension 1: expected 3 + 2 + -1 = 4, but got 8}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<1xf32>) {
  %s = tosa.const_shape {values = dense<[0,1,2,3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // expected-error @+1 {{'tosa.pad' op expect same input and output tensor rank, but got inputRank: 2, outputRank: 3}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<3x8x1xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %p: tensor<1xf32>, %s: !tosa.shape<4>) {
  // expected-error @+1 {{'tosa.pad' op shape operand is not compile time resolvable}}
  %0 = tosa.pad %a, %s, %p : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%a: tensor<f32>, %p: tensor<1xf32>) {
  %s = tosa.const_shape {values = dense<> : tensor<0xindex>} : () -> !tosa.shape<0>
  // expected-error @+1 {{'tosa.pad' op operand #0 must be tosa-conformant tensor of at least rank 1, but got 'tensor<f32>'}}
  %0 = tosa.pad %a, %s, %p : (tensor<f32>, !tosa.shape<0>, tensor<1xf32>) -> tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.reverse' op expect input tensor rank (2) to be larger than reverse axis (2)}}
  %0 = tosa.reverse %a {axis = 2 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.reverse' op expected non-negative reverse axis}}
  %0 = tosa.reverse %a {axis = -1 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // expected-error @+1 {{'tosa.reverse' op operand #0 must be tosa-conformant tensor of at least rank 1, but got 'tensor<f32>'}}
  %0 = tosa.reverse %a {axis = 0 : i32} : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.reverse' op expect output tensor rank to be equal to input tensor rank}}
  %0 = tosa.reverse %a {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x3x1xf32>
  return
}

// -----

func.func @f(%a: tensor<*xf32>) {
  // expected-error @+1 {{'tosa.reverse' op expect output tensor rank (2) to be larger than reverse axis (2)}}
  %0 = tosa.reverse %a {axis = 2 : i32} : (tensor<*xf32>) -> tensor<2x3xf32>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
func.func @f(%a: tensor<2x3x!q>) {
  // expected-error @+1 {{'tosa.reverse' op expect input and output to have same element type, got '!quant.uniform<i8:f32, 2.000000e+00:10>' and 'i8'}}
  %0 = tosa.reverse %a {axis = 0 : i32} : (tensor<2x3x!q>) -> tensor<2x3xi8>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
!u = !quant.uniform<u8:f32, 2.0:10>
func.func @f(%a: tensor<2x3x!q>) {
  // expected-error @+1 {{'tosa.reverse' op expect input and output to have same element type, got '!quant.uniform<i8:f32, 2.000000e+00:10>' and '!quant.uniform<u8:f32, 2.000000e+00:10>'}}
  %0 = tosa.reverse %a {axis = 0 : i32} : (tensor<2x3x!q>) -> tensor<2x3x!u>
  return
}

// -----

func.func @f(%a: tensor<2x3xindex>) {
  // expected-error @+1 {{'tosa.reverse' op operand #0 must be tosa-conformant tensor of at least rank 1, but got 'tensor<2x3xindex>'}}
  %0 = tosa.reverse %a {axis = 0 : i32} : (tensor<2x3xindex>) -> tensor<2x3xindex>
  return
}

// -----

func.func @f(%a: tensor<2x0xf32>) {
  // expected-error @+1 {{'tosa.reverse' op operand #0 must be tosa-conformant tensor of at least rank 1, but got 'tensor<2x0xf32>'}}
  %0 = tosa.reverse %a {axis = 0 : i32} : (tensor<2x0xf32>) -> tensor<2x0xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[2]> : tensor<1xindex>} : () -> !tosa.shape<1>
  // expected-error @+1 {{'tosa.tile' op expect 'multiples' to have rank 2 but got 1.}}
  %0 = tosa.tile %a, %s : (tensor<2x3xf32>, !tosa.shape<1>) -> tensor<4x9xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[2,0]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.tile' op result #0 must be tosa-conformant tensor of at least rank 1, but got 'tensor<4x0xf32>'}}
  %0 = tosa.tile %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<4x0xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[2,-2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.tile' op expect element of 'multiples' to be positive integer or -1.}}
  %0 = tosa.tile %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<4x?xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  %s = tosa.const_shape {values = dense<[2,1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.tile' op expect same input and output tensor rank.}}
  %0 = tosa.tile %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<*xf32>) {
  %s = tosa.const_shape {values = dense<[2,1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.tile' op expect 'multiples' array to have length 1 but got 2.}}
  %0 = tosa.tile %a, %s : (tensor<*xf32>, !tosa.shape<2>) -> tensor<4xf32>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
!q2 = !quant.uniform<i8:f32, 3.0:10>
func.func @f(%a: tensor<2x3x!q>) {
  %s = tosa.const_shape {values = dense<[2,3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{'tosa.tile' op expect input and output to have same element type, got '!quant.uniform<i8:f32, 2.000000e+00:10>' and '!quant.uniform<i8:f32, 3.000000e+00:10>'}}
  %0 = tosa.tile %a, %s : (tensor<2x3x!q>, !tosa.shape<2>) -> tensor<4x9x!q2>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %s: !tosa.shape<2>) {
  // expected-error @+1 {{'tosa.tile' op shape operand is not compile time resolvable}}
  %0 = tosa.tile %a, %s : (tensor<2x3xf32>, !tosa.shape<2>) -> tensor<4x8xf32>
  return
}

// -----

func.func @f(%a: tensor<f32>, %i: tensor<1x7xi32>) {
  // expected-error @+1 {{'tosa.tile' op operand #0 must be tosa-conformant tensor of at least rank 1, but got 'tensor<f32>'}}
  %0 = tosa.tile %a, %a : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<1x1xf32>) {
  %s = tosa.const_shape {values = dense<> : tensor<0xindex>} : () -> !tosa.shape<0>
  // expected-error @+1 {{'tosa.tile' op expect 'multiples' to have rank 2 but got 0.}}
  %0 = tosa.tile %a, %s : (tensor<1x1xf32>, !tosa.shape<0>) -> tensor<1x1xf32>
  return
}

// -----

func.func @f(%a: tensor<1x4x5xf32>, %i: tensor<2x7xi32>) {
  // expected-error @+1 {{'tosa.gather' op requires indices dimension 0 to have size 1, got 2}}
  %0 = tosa.gather %a, %i : (tensor<1x4x5xf32>, tensor<2x7xi32>) -> tensor<1x7x5xf32>
  return
}

// -----

func.func @f(%a: tensor<1x4x5xf32>, %i: tensor<1x7xi32>) {
  // expected-error @+1 {{'tosa.gather' op requires output dimension 0 to have size 1, got 2}}
  %0 = tosa.gather %a, %i : (tensor<1x4x5xf32>, tensor<1x7xi32>) -> tensor<2x7x5xf32>
  return
}

// -----

func.func @f(%a: tensor<1x4x5xf32>, %i: tensor<1x7xi32>) {
  // expected-error @+1 {{'tosa.gather' op requires output dimension 1 to have size 7, got 6}}
  %0 = tosa.gather %a, %i : (tensor<1x4x5xf32>, tensor<1x7xi32>) -> tensor<1x6x5xf32>
  return
}

// -----

func.func @f(%a: tensor<1x4x5xf32>, %i: tensor<1x7xi32>) {
  // expected-error @+1 {{'tosa.gather' op expect input and output to have same element type, got 'f32' and 'i32'}}
  %0 = tosa.gather %a, %i : (tensor<1x4x5xf32>, tensor<1x7xi32>) -> tensor<1x7x5xi32>
  return
}

// -----

func.func @f(%a: tensor<1x4x5xf32>, %i: tensor<1x7xi8>) {
  // expected-error @+1 {{'tosa.gather' op operand #1 must be tosa-conformant unranked tensor of number values or 2D tensor of 32-bit signless integer or 64-bit signless integer values, but got 'tensor<1x7xi8>'}}
  %0 = tosa.gather %a, %i : (tensor<1x4x5xf32>, tensor<1x7xi8>) -> tensor<1x7x5xf32>
  return
}

// -----

func.func @f(%a: tensor<1x4x5xf32>, %i: tensor<7xi32>) {
  // expected-error @+1 {{'tosa.gather' op operand #1 must be tosa-conformant unranked tensor of number values or 2D tensor of 32-bit signless integer or 64-bit signless integer values, but got 'tensor<7xi32>'}}
  %0 = tosa.gather %a, %i : (tensor<1x4x5xf32>, tensor<7xi32>) -> tensor<1x7x5xf32>
  return
}

// -----

func.func @f(%a: tensor<4x5xf32>, %i: tensor<1x7xi32>) {
  // expected-error @+1 {{'tosa.gather' op operand #0 must be 3-d tosa-conformant tensor, but got 'tensor<4x5xf32>'}}
  %0 = tosa.gather %a, %i : (tensor<4x5xf32>, tensor<1x7xi32>) -> tensor<1x7x5xf32>
  return
}

// -----

func.func @f(%a: tensor<1x4x5xf32>, %i: tensor<1x7xi32>) {
  // expected-error @+1 {{'tosa.gather' op result #0 must be 3-d tosa-conformant tensor, but got 'tensor<7x5xf32>'}}
  %0 = tosa.gather %a, %i : (tensor<1x4x5xf32>, tensor<1x7xi32>) -> tensor<7x5xf32>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
!q2 = !quant.uniform<i8:f32, 3.0:10>
func.func @f(%a: tensor<1x4x5x!q>, %i: tensor<1x7xi32>) {
  // expected-error @+1 {{'tosa.gather' op expect input and output to have same element type, got '!quant.uniform<i8:f32, 2.000000e+00:10>' and '!quant.uniform<i8:f32, 3.000000e+00:10>'}}
  %0 = tosa.gather %a, %i : (tensor<1x4x5x!q>, tensor<1x7xi32>) -> tensor<1x7x5x!q2>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
func.func @f(%a: tensor<1x4x5x!q>, %i: tensor<1x7x!q>) {
  // expected-error @+1 {{'tosa.gather' op operand #1 must be tosa-conformant unranked tensor of number values or 2D tensor of 32-bit signless integer or 64-bit signless integer values, but got 'tensor<1x7x!quant.uniform<i8:f32, 2.000000e+00:10>>'}}
  %0 = tosa.gather %a, %i : (tensor<1x4x5x!q>, tensor<1x7x!q>) -> tensor<1x7x5x!q>
  return
}

// -----

func.func @f(%a: tensor<1x0x5xf32>, %i: tensor<1x7xi32>) {
  // expected-error @+1 {{'tosa.gather' op operand #0 must be 3-d tosa-conformant tensor, but got 'tensor<1x0x5xf32>'}}
  %0 = tosa.gather %a, %i : (tensor<1x0x5xf32>, tensor<1x7xi32>) -> tensor<1x7x5xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.cast' op requires the same shape for all operands and results}}
  %0 = tosa.cast %a : (tensor<2x3xf32>) -> tensor<3x3xi8>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'tosa.cast' op requires the same shape for all operands and results}}
  %0 = tosa.cast %a : (tensor<2x3xf32>) -> tensor<2x3x1xi8>
  return
}

// -----

!w5 = !quant.uniform<i5:f32, 2.0>
func.func @f(%a: tensor<2x!w5>) {
  // expected-error @+1 {{'tosa.cast' op operand #0 must be tosa-conformant tensor of number values, but got 'tensor<2x!quant.uniform<i5:f32, 2.000000e+00>>'}}
  %0 = tosa.cast %a : (tensor<2x!w5>) -> tensor<2xi8>
  return
}

// -----

func.func @f(%a: tensor<0xi8>) {
  // expected-error @+1 {{'tosa.cast' op operand #0 must be tosa-conformant tensor of number values, but got 'tensor<0xi8>'}}
  %0 = tosa.cast %a : (tensor<0xi8>) -> tensor<0xi8>
  return
}

// -----

!w5 = !quant.uniform<i5:f32, 2.0>
func.func @f(%a: tensor<*x!w5>) {
  // expected-error @+1 {{'tosa.identity' op operand #0 must be tosa-conformant tensor of number values, but got 'tensor<*x!quant.uniform<i5:f32, 2.000000e+00>>'}}
  %0 = tosa.identity %a : (tensor<*x!w5>) -> tensor<*x!w5>
  return
}

// -----

func.func @f(%a: tensor<*xsi8>) {
  // expected-error @+1 {{'tosa.identity' op operand #0 must be tosa-conformant tensor of number values, but got 'tensor<*xsi8>'}}
  %0 = tosa.identity %a : (tensor<*xsi8>) -> tensor<*xsi8>
  return
}

// -----

func.func @f(%a: tensor<0xi8>) {
  // expected-error @+1 {{'tosa.identity' op operand #0 must be tosa-conformant tensor of number values, but got 'tensor<0xi8>'}}
  %0 = tosa.identity %a : (tensor<0xi8>) -> tensor<0xi8>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'tosa.const_shape' op expect number of elements in attribute values (2) to be equal to the rank (3) for the result shape type}}
  %s = tosa.const_shape {values = dense<[1,2]> : tensor<2xindex>} : () -> !tosa.shape<3>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'tosa.const_shape' op expect elements in attribute values with rank 1}}
  %s = tosa.const_shape {values = dense<1> : tensor<1x2xindex>} : () -> !tosa.shape<2>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'tosa.const_shape' op expect elements in attribute values with rank 1}}
  %s = tosa.const_shape {values = dense<1> : tensor<index>} : () -> !tosa.shape<0>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'tosa.const_shape' op result #0 must be Shape with static rank and Index element type, but got 'tensor<2xindex>'}}
  %s = tosa.const_shape {values = dense<[1,2]> : tensor<2xindex>} : () -> tensor<2xindex>
  return
}

// -----

!u = !quant.uniform<u8:f32, 2.0:10>
func.func @f() {
  // expected-error @+1 {{'tosa.const' op expected same attr/result element types}}
  %0 = "tosa.const"() <{values = dense<1> : tensor<2xi8>}> : () -> tensor<2x!u>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
func.func @f() {
  // expected-error @+1 {{'tosa.const' op expected same attr/result element types}}
  %0 = "tosa.const"() <{values = dense<1> : tensor<2xui8>}> : () -> tensor<2x!q>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
func.func @f() {
  // expected-error @+1 {{'tosa.const' op failed to verify that all of {values, output} have same shape}}
  %0 = "tosa.const"() <{values = dense<1> : tensor<2xi8>}> : () -> tensor<3x!q>
  return
}

// -----

!q = !quant.uniform<i8:f32, 2.0:10>
func.func @f() {
  // expected-error @+1 {{'tosa.const' op failed to verify that all of {values, output} have same shape}}
  %0 = "tosa.const"() <{values = dense<1> : tensor<2xi8>}> : () -> tensor<2x1x!q>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'tosa.const' op expected tensors for attr/result type}}
  %0 = "tosa.const"() <{values = dense<1> : vector<2xi8>}> : () -> tensor<2xi8>
  return
}

// -----

!w5 = !quant.uniform<i5:f32, 2.0>
func.func @f() {
  // expected-error @+1 {{'tosa.const' op result #0 must be tosa-conformant tensor of number values, but got 'tensor<2x!quant.uniform<i5:f32, 2.000000e+00>>'}}
  %0 = "tosa.const"() {values = dense<1> : tensor<2xi5>} : () -> tensor<2x!w5>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'tosa.const' op result #0 must be tosa-conformant tensor of number values, but got 'tensor<2xindex>'}}
  %0 = "tosa.const"() {values = dense<1> : tensor<2xindex>} : () -> tensor<2xindex>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'tosa.const' op result #0 must be tosa-conformant tensor of number values, but got 'tensor<2xcomplex<i32>>'}}
  %0 = "tosa.const"() {values = dense<(1,2)> : tensor<2xcomplex<i32>>} : () -> tensor<2xcomplex<i32>>
  return
}

// -----

// expected-error @+1 {{invalid rank (must be >= 0): -1}}
func.func private @f(!tosa.shape<-1>)
