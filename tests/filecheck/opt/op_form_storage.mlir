// RUN: qdialect-opt --split-input-file --verify-diagnostics --op-form=llvm24 %s | filecheck %s

// CHECK: func.func private @read(!quant.uniform<f8E4M3FN:f32:0, {5.000000e-01}>, !quant.any<f4E2M1FN>)
func.func private @read(!quant.uniform<f8E4M3FN:f32:0, {0.5}>, !quant.any<f4E2M1FN>)

// -----

// expected-error @below {{'func.func' op cannot be written for LLVM 24: it crashes on blocks of f8E4M3FN}}
func.func private @blocks(tuple<!quant.uniform<f8E4M3FN:f32:{0:1}, {0.5}>>)

// -----

func.func @inner(%x: !quant.uniform<i8:f32, 0.5>) {
  // expected-error @below {{'test.op' op cannot be written for LLVM 24: it has no storage of type 'f6E2M3FN'}}
  %0 = "test.op"() : () -> !quant.any<f6E2M3FN>
  return
}

// -----

func.func @extension(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @below {{'quant.reverse' op cannot be written for LLVM 24, which does not have it: lower it before}}
  %0 = quant.reverse %x dims = [0] : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2x!quant.uniform<i8:f32, 0.5>>
  return
}
