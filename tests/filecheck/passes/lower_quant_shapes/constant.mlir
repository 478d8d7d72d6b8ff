// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-op-generic | qdialect-opt | filecheck %s

!u = !quant.uniform<u4:f32, 0.5:13>

// Attributes and the name stay with the integers, which are signless.
// CHECK-LABEL: @unsigned(
// CHECK-NEXT:      %w = arith.constant {profile = "w"} dense<[1, 7, -1]> : tensor<3xi4>
// CHECK-NEXT:      %0 = quant.scast %w : tensor<3xi4> to tensor<3x!quant.uniform<u4:f32, 5.000000e-01:13>>
// CHECK-NEXT:      func.return %0 : tensor<3x!quant.uniform<u4:f32, 5.000000e-01:13>>
func.func @unsigned() -> tensor<3x!u> {
  %w = quant.constant dense<[1, 7, 15]> {profile = "w"} : tensor<3x!u>
  return %w : tensor<3x!u>
}

// A splat is one element, whatever its shape.
// CHECK-LABEL: @splat(
// CHECK-NEXT:      %w = arith.constant dense<-8> : tensor<65536x65536xi4>
// CHECK-NEXT:      %0 = quant.scast %w : tensor<65536x65536xi4> to tensor<65536x65536x!quant.uniform<u4:f32, 5.000000e-01:13>>
// CHECK-NEXT:      func.return %0 : tensor<65536x65536x!quant.uniform<u4:f32, 5.000000e-01:13>>
func.func @splat() -> tensor<65536x65536x!u> {
  %w = quant.constant dense<8> : tensor<65536x65536x!u>
  return %w : tensor<65536x65536x!u>
}
