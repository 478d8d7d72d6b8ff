// RUN: qdialect-opt %s --verify-quant-shapes --verify-diagnostics

!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3,0.125}>
!blocks = !quant.uniform<i8:f32:{1:2}, {{0.5,0.25}}>

func.func @tosa_const() {
  // expected-error @+1 {{'tosa.const' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 1 of length 4, 3 scales)}}
  %0 = "tosa.const"() <{values = dense<1> : tensor<2x4xi8>}> : () -> tensor<2x4x!columns>
  // expected-error @+1 {{'tosa.const' op result type does not fit its shape: quantized dimension must be less than tensor rank (axis 1 of rank 1, 3 scales)}}
  %1 = "tosa.const"() <{values = dense<1> : tensor<3xi8>}> : () -> tensor<3x!columns>
  // expected-error @+1 {{'tosa.const' op result type does not fit its shape: tensor dimension size 5 at axis 1 must be divisible by the corresponding block size 2}}
  %2 = "tosa.const"() <{values = dense<1> : tensor<2x5xi8>}> : () -> tensor<2x5x!blocks>
  // expected-error @+1 {{'tosa.const' op element [1] is 8, outside the storage range [-7, 7]}}
  %3 = "tosa.const"() <{values = dense<[7, 8]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8<-7:7>:f32, 0.5>>
  return
}
