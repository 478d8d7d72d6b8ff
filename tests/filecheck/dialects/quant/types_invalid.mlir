// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{illegal storage type size: 33}}
func.func private @f(!quant.any<i33>)

// -----

// expected-error @+1 {{illegal storage type size: 0}}
func.func private @f(!quant.any<u0>)

// -----

// expected-error @+1 {{expected storage type width}}
func.func private @f(!quant.any<u8x>)

// -----

// expected-error @+1 {{illegal storage type prefix}}
func.func private @f(!quant.any<int8>)

// -----

// expected-error @+1 {{illegal storage type minimum: -129}}
func.func private @f(!quant.any<i8<-129:5>>)

// -----

// expected-error @+1 {{illegal storage type maximum: 16}}
func.func private @f(!quant.any<u4<0:16>>)

// -----

// expected-error @+1 {{illegal storage min and storage max: (5:5)}}
func.func private @f(!quant.any<i8<5:5>>)

// -----

// expected-error @+1 {{invalid kind of type specified}}
func.func private @f(!quant.any<i8:i32>)

// -----

// Of two errors, the scale is read first.
// expected-error @+1 {{scale 0.000000e+00 out of expressed type range [1.401298e-45, 3.402823e+38]}}
func.func private @f(!quant.uniform<i8<5:5>:f32, 0.0>)

// -----

// expected-error @+1 {{scale 6.550500e+04 out of expressed type range [5.960464e-08, 6.550400e+04]}}
func.func private @f(!quant.uniform<i8:f16:0, {1.0,65505.0}>)

// -----

// expected-error @+1 {{scale INF out of expressed type range}}
func.func private @f(!quant.uniform<i8:f32, 0x7FF0000000000000>)

// -----

// expected-error @+1 {{unexpected decimal integer literal for a floating point value}}
func.func private @f(!quant.uniform<i8:f32, 1>)

// -----

// expected-error @+1 {{hexadecimal float literal should not have a leading minus}}
func.func private @f(!quant.uniform<i8:f32, -0x3FF0000000000000>)

// -----

// expected-error @+1 {{integer value too large}}
func.func private @f(!quant.uniform<i8:f32, 1.0:9223372036854775808>)

// -----

// expected-error @+1 {{illegal quantized dimension: -1}}
func.func private @f(!quant.uniform<i8:f32:true, {1.0}>)

// -----

// expected-error @+1 {{illegal quantized dimension: -1}}
func.func private @f(!quant.uniform<i8:f32:{0:0,-1:1}, {{1.0}}>)

// -----

// expected-error @+1 {{illegal block size: -4}}
func.func private @f(!quant.uniform<i8:f32:{0:-4}, {{1.0}}>)

// -----

// expected-error @+1 {{tensor literal is invalid; ranks are not consistent between elements}}
func.func private @f(!quant.uniform<i8:f32:{0:1}, {{1.0,2.0},{3.0}}>)

// -----

// expected-error @+1 {{expected floating point literal}}
func.func private @f(!quant.uniform<i8:f32:0, {}>)

// -----

// expected-error @+1 {{expected '{'}}
func.func private @f(!quant.uniform<i8:f32:0, 1.0>)

// -----

// expected-error @+1 {{illegal min and max: (1.000000e+00:1.000000e+00)}}
func.func private @f(!quant.calibrated<f32<1.0:1.0>>)

// -----

// Without a bracket next to the name, the type ends there.
// expected-error @+1 {{expected ')'}}
func.func private @f(!quant.uniform <i8:f32, 1.0>)

// -----

// expected-error @+1 {{expected '<'}}
func.func private @f(!quant.any)

// -----

// expected-error @+1 {{unknown quantized type table}}
func.func private @f(!quant.table<i8:f32, 1.0>)

// -----

// expected-error @+1 {{dialect 'quant' provides no attribute parsing hook}}
func.func private @f() attributes {a = #quant.slots}

// -----

// Brackets are counted before anything is read.
// expected-error @+1 {{unbalanced '<' character in pretty dialect name}}
func.func private @f(!quant<uniform<i8<-4:3:f32, 0.5>>)

// -----

// expected-error @+1 {{unbalanced '{' character in pretty dialect name}}
func.func private @f(!quant.uniform<i8:f32:0, {1.0, 2.0>)

// -----

// expected-error @+1 {{expected ':'}}
func.func private @f(!quant.uniform<i8<16>:f32, 0.5>)

// -----

// expected-error @+1 {{expected ','}}
func.func private @f(!quant.uniform<i8:f32 0.5>)

// -----

// expected-error @+1 {{expected '>'}}
func.func private @f(!quant.uniform<i8:f32, 0.5:1 2>)

// -----

// expected-error @+1 {{invalid integer width}}
func.func private @f(!quant.uniform<i123123123120:f32, 0.5>)

// -----

// expected-error @+1 {{integer bitwidth is limited to 16777215 bits}}
func.func private @f(!quant.uniform<i16777216:f32, 0.5>)

// -----

// expected-error @+1 {{expected integer value}}
func.func private @f(!quant.any<i8<-:7>>)

// -----

// expected-error @+1 {{undefined symbol alias id 'quant'}}
func.func private @f(!quant)

// -----

// expected-error @+1 {{expected '"' in string literal}}
func.func private @f(!quant.uniform<i8:"f32, 0.5>)

// -----

// expected-error @+1 {{expected three consecutive dots for an ellipsis}}
func.func private @f(!quant.uniform<i8:f32, .5>)

// -----

// expected-error @+2 {{unknown quantized type unifrom}}
// expected-note @+1 {{did you mean 'uniform'?}}
func.func private @f(!quant.unifrom<i8:f32, 0.5>)

// -----

// expected-error @+1 {{`!"quantum"<"bit<1>">` type created with unregistered dialect}}
func.func private @f(!quantum.bit<1>)
