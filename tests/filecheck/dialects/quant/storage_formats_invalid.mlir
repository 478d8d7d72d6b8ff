// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{illegal storage type prefix}}
func.func private @f(!quant.any<f8E4M3FNUZ>)

// -----

!s = f16
// expected-error @+1 {{illegal storage type prefix}}
func.func private @f(!quant.any<!s>)

// -----

// expected-error @+1 {{illegal storage type prefix}}
func.func private @f(!quant.any<!quant.any<i8>>)

// -----

// expected-error @+1 {{illegal storage type minimum: -449}}
func.func private @f(!quant.any<f8E4M3FN<-449:3>>)

// -----

// expected-error @+1 {{illegal storage min and storage max: (5:5)}}
func.func private @f(!quant.any<f8E4M3FN<5:5>>)

// -----

// expected-error @+1 {{illegal storage type minimum: -8}}
func.func private @f(!quant.any<!quant.quantile<i1:f32, {0.0,1.0}><-8:1>>)

// -----

// expected-error @+1 {{illegal storage type size: 33}}
func.func private @f(!quant.any<!quant.quantile<i33:f32, {0.0,1.0}, <0:1>>>)

// -----

// expected-error @+1 {{quantile values must not be empty}}
func.func private @f(!quant.quantile<i1:f32, {}, <1:0>>)

// -----

// expected-error @+1 {{storage min must be less than storage max}}
func.func private @f(!quant.quantile<i1:f32, {1.0}, <1:0>>)

// -----

// expected-error @+1 {{quantile LUT size (1) must equal the number of representable storage values (65536)}}
func.func private @f(!quant.quantile<f80:f32, {0x7FF0000000000000}>)

// -----

// expected-error @+1 {{quantile values must be finite (no NaN or infinity)}}
func.func private @f(!quant.quantile<i1:f32, {1.0, 0x7FF0000000000000}>)

// -----

// expected-error @+1 {{storage type must be an integer or float type}}
func.func private @f(!quant.quantile<index:none, {}>)

// -----

// expected-error @+1 {{quantile type must be a float or integer type}}
func.func private @f(!quant.quantile<i1:none, {}>)

// -----

// expected-error @+1 {{storage type in quantized type expected to match integer type}}
func.func @f(%a: i8) { %0 = quant.scast %a : i8 to !quant.uniform<f8E4M3FN:f32, 0.5> return }

// -----

// expected-error-re @+1 {{'quant.dcast' op operand #0 must be scalar or tensor of quantized type}}
func.func @f(%a: !quant.quantile<i1:f32, {1.0,2.0}>) { %0 = quant.dcast %a : !quant.quantile<i1:f32, {1.0,2.0}> to f32 return }
