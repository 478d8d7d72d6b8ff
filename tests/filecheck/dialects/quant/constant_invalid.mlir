// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// The constraints are those of docs/dialect.md.

// quant.constant (C4)
// expected-error @+1 {{element 128 is outside the storage range [-128, 127]}}
%0 = quant.constant dense<[1, 128]> : tensor<2x!quant.uniform<i8:f32, 0.5>>

// -----

// quant.constant (C4)
// expected-error @+1 {{'quant.constant' op element [1, 0] is -8, outside the storage range [-7, 7]}}
%0 = quant.constant dense<[[7], [-8]]> : tensor<2x1x!quant.uniform<i8<-7:7>:f32, 0.5>>

// -----

// quant.constant (C2)
// expected-error @+1 {{inferred shape of elements literal ([3]) does not match type ([2])}}
%0 = quant.constant dense<[1, 2, 3]> : tensor<2x!quant.uniform<i8:f32, 0.5>>

// -----

// expected-error @+1 {{elements hex data size is invalid for provided type: 'tensor<3xi16>'}}
%0 = quant.constant dense<"0x01020304"> : tensor<3x!quant.uniform<i16:f32, 0.5>>

// -----

// quant.constant (C1)
// expected-error @+1 {{result must be ranked tensor of uniform quantized type, but got 'tensor<2xi8>'}}
%0 = quant.constant dense<[1, 2]> : tensor<2xi8>

// -----

// quant.constant (C1)
// expected-error @+1 {{a constant must have a static shape}}
%0 = quant.constant dense<[1, 2]> : tensor<?x!quant.uniform<i8:f32, 0.5>>

// -----

// quant.constant (C3)
// expected-error @+1 {{'quant.constant' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 0 of length 2, 3 scales)}}
%0 = quant.constant dense<[1, 2]> : tensor<2x!quant.uniform<i8:f32:0, {0.5,0.25,1.0}>>

// -----

// quant.constant (C2)
// expected-error @+1 {{'quant.constant' op value must be of type 'tensor<2xui8>', but is of type 'tensor<2xi8>'}}
%0 = "quant.constant"() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<u8:f32, 0.5>>

// -----

// quant.constant (C1)
// expected-error @+1 {{result must be ranked tensor of uniform quantized type, but got 'tensor<*x!quant.uniform<i8:f32, 5.000000e-01>>'}}
%0 = quant.constant dense<1> : tensor<*x!quant.uniform<i8:f32, 0.5>>

// -----

// quant.constant (C1)
// expected-error @+1 {{'quant.constant' op result must have a static shape}}
%0 = "quant.constant"() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<?x!quant.uniform<i8:f32, 0.5>>
