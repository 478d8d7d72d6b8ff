// REQUIRES: mlir-opt-22
// MLIR does not know quant.constant, so it is shown to it under another name.
// RUN: qdialect-opt %s --fold-quant-shapes --print-op-generic | sed 's/"quant.constant"/"test.constant"/' | mlir-opt-22 --allow-unregistered-dialect | filecheck %s

!a = !quant.uniform<i4:f32:0, {0.5:3,0.25}>
!b = !quant.uniform<i4:f32:1, {0.5:3,0.25}>

// CHECK: "test.constant"() <{value = dense<[{{\[}}-8, 4], [-7, 5], [-6, 7]]> : tensor<3x2xi4>}> {profile = "w"} : () -> tensor<3x2x!quant.uniform<i4:f32:1, {5.000000e-01:3,2.500000e-01}>>
func.func @transposed() -> tensor<3x2x!b> {
  %w = quant.constant dense<[[-8, -7, -6], [4, 5, 7]]> {profile = "w"} : tensor<2x3x!a>
  %t = quant.transpose %w permutation = [1, 0] : tensor<2x3x!a> to tensor<3x2x!b>
  return %t : tensor<3x2x!b>
}

// Sub-byte elements in hexadecimal text.
// CHECK: "test.constant"() <{value = dense<[true, false, true]> : tensor<3xi1>}>
!i1 = !quant.uniform<i1:f32, 0.5>
func.func @bits() -> tensor<3x!i1> {
  %w = quant.constant dense<"0x05"> : tensor<1x3x!i1>
  %r = quant.reshape %w : tensor<1x3x!i1> to tensor<3x!i1>
  return %r : tensor<3x!i1>
}

// CHECK: "test.constant"() <{value = dense<200> : tensor<4294967296xui8>}>
!u = !quant.uniform<u8:f32, 0.5>
func.func @splat() -> tensor<4294967296x!u> {
  %w = quant.constant dense<200> : tensor<65536x65536x!u>
  %r = quant.reshape %w : tensor<65536x65536x!u> to tensor<4294967296x!u>
  return %r : tensor<4294967296x!u>
}
