// RUN: qdialect-opt --split-input-file --verify-diagnostics --op-form=llvm22 %s | filecheck %s

// CHECK: func.func private @read(!quant.uniform<i8:f32:{0:1}, {5.000000e-01}>, !quant.any<i4>)
func.func private @read(!quant.uniform<i8:f32:{0:1}, {0.5}>, !quant.any<i4>)

// -----

// expected-error @below {{'func.func' op cannot be written for LLVM 22: it has no storage of type 'f8E5M2'}}
func.func private @floats(tensor<2x!quant.uniform<f8E5M2:f32, 0.5>>)

// -----

// expected-error @below {{'func.func' op cannot be written for LLVM 22: it has no storage of type '!quant.quantile<ui1:f32, {0.000000e+00,1.000000e+00}>'}}
func.func private @tables(!quant.any<!quant.quantile<ui1:f32, {0.0, 1.0}>>)

// -----

func.func @extension() {
  // expected-error @below {{'quant.constant' op cannot be written for LLVM 22, which does not have it: lower it before}}
  %0 = quant.constant dense<1> : tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}
