// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt | filecheck %s

!s = f8E4M3FN
!n = !quant.quantile<ui2:f32, {-1.0,0.0,0.5,1.0}>

// Floats: the default range is not printed, and zero points are any integers, in blocks too.
// CHECK: @floats(!quant.uniform<f8E4M3FN:f32, 5.000000e-01>, !quant.uniform<f8E5M2<-57343:57344>:f32, 5.000000e-01:100000>, !quant.uniform<f4E2M1FN:f32:0, {5.000000e-01,2.500000e-01:-448}>)
func.func private @floats(!quant.uniform<!s <-448:448>:f32, 0.5>, !quant.uniform<f8E5M2<-57343:57344>:f32, 0.5:100000>, !quant.uniform<f4E2M1FN<-6:6>:f32:0, {0.5,0.25:-448}>)

// CHECK-LABEL: @blocks(
// CHECK-SAME{LITERAL}: !quant.uniform<f8E4M3FN:f32:{0:1, 1:32}, {{5.000000e-01:300, 2.500000e-01}}>, !quant.uniform<f8E5M2:bf16:{1:128}, {{5.000000e-01, 1.000980e-01}}>
func.func private @blocks(!quant.uniform<f8E4M3FN:f32:{0:1, 1:32}, {{0.5:300, 0.25}}>, !quant.uniform<f8E5M2:bf16:{1:128}, {{0.5, 0.1}}>)

// CHECK: @of_six_bits(!quant.any<f6E2M3FN>, !quant.any<f6E3M2FN<-27:28>:f32>)
func.func private @of_six_bits(!quant.any<f6E2M3FN<-8:8>>, !quant.any<f6E3M2FN<-27:28>:f32>)

// CHECK: @tables(!quant.quantile<ui2:f32, {-1.000000e+00,0.000000e+00,5.000000e-01,1.000000e+00}>, !quant.quantile<i64:f32, {-1.000000e+00,1.000000e+00}, <0:1>>)
func.func private @tables(!n, !quant<quantile<i64 : f32 , {- 1.0, 1.0}, <0:1>>>)

// All digits are printed inside another type too.
// CHECK: @nested(!quant.uniform<!quant.quantile<ui1:f32, {-0.69619280099868774,0x41678C29C0000000}>:f32, 5.000000e-01:3>, !quant.any<!quant.quantile<ui4:i8, {1.000000e+00,2.000000e+00,3.000000e+00}, <1:3>><1:2>>)
func.func private @nested(!quant.uniform<!quant.quantile<ui1:f32, {-0.6961928009986877,12345678.0}><0:1>:f32, 0.5:3>, !quant.any<!quant.quantile<ui4:i8, {1.0,2.0,3.0}, <1:3>> <1:2>>)
