// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt | filecheck %s

// A sign that is declared is kept: to some versions of MLIR, that is another type.
// CHECK: @storage(!quant.any<i8>, !quant.any<u8>, !quant.any<si8>, !quant.any<ui8>, !quant.any<i1>)
func.func private @storage(!quant.any<i8>, !quant.any<u8>, !quant.any<si8>, !quant.any<ui8>, !quant.any<i01>)

// CHECK: @range(!quant.any<i8>, !quant.any<i8<-128:100>:f32>, !quant.any<u4<0:14>>)
func.func private @range(!quant.any<i8<-128:127>>, !quant.any<i8<-0x80:100>:f32>, !quant.any<u4<false:14>>)

// CHECK: @per_tensor(!quant.uniform<i8:f32, 5.000000e-01>, !quant.uniform<u8:f16, 1.000000e-01:300>)
func.func private @per_tensor(!quant.uniform<i8:f32, 0.5:0>, !quant.uniform<u8:f16, 0.1:300>)

// CHECK: @per_axis(!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01}>)
func.func private @per_axis(!quant.uniform<i8:f32:1, {0.5 : 3, 0.25}>)

// A nested list of a per-axis type is flattened.
// CHECK: @flattened(!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00:1}>)
func.func private @flattened(!quant.uniform<i8:f32:1, {{1.0}, {2.0:1}}>)

// Scales of a sub-channel type are rounded, and zero points are signed.
// CHECK: @sub_channel(!quant.uniform<u8:f16:{0:1, 1:2}, {{[{][{]}}9.997550e-02:-1, 5.000000e-01{{[}][}]}}>)
func.func private @sub_channel(!quant.uniform<u8:f16:{0:1,1:2}, {{0.1:255,0.5}}>)

// CHECK: @no_blocks(!quant.uniform<i8:f32:{}, {{[{][{]}}1.000000e+00{{[}][}]}}>)
func.func private @no_blocks(!quant.uniform<i8:f32:{}, {{1.0}}>)

// CHECK: @scales(!quant.uniform<i8:f32, 0.33333333333333331>, !quant.uniform<i8:f32, 0x4132D68700000000>, !quant.uniform<i8:f32, 1.234567E-4>)
func.func private @scales(!quant.uniform<i8:f32, 0x3FD5555555555555>, !quant.uniform<i8:f32, 1234567.0>, !quant.uniform<i8:f32, 0.0001234567>)

// CHECK: @calibrated(!quant.calibrated<f32<-1.000000e+00:0x7FF0000000000000>>)
func.func private @calibrated(!quant.calibrated<f32<-1.0:0x7FF0000000000000>>)

!storage = i8
!expressed = f32
!type = !quant.uniform<!storage <-100:100>:!expressed, 0.5:3>
// CHECK: @aliases(tensor<?x!quant.uniform<i8<-100:100>:f32, 5.000000e-01:3>>)
func.func private @aliases(tensor<?x!type>)

// CHECK: @dialect_form(!quant.any<i8>)
func.func private @dialect_form(!quant<any <i8>>)

// CHECK: @comment(!quant.uniform<i8:f32, 5.000000e-01>)
func.func private @comment(!quant.uniform<i8 // with a > in it
  : f32, 0.5>)
