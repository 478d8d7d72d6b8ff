// RUN: qdialect-opt %s --quantize-with-ranges --remarks --verify-diagnostics --allow-unregistered-dialect | filecheck %s

// A constant with a NaN has no codes.
// CHECK-LABEL: @nan
// CHECK-NEXT:    %c = "tosa.const"
// CHECK-NEXT:    %0 = tosa.add %x, %c
func.func @nan(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %c = "tosa.const"() {values = dense<[1.0, 0x7FC00000]> : tensor<2xf32>} : () -> tensor<2xf32>
  // expected-warning @+2 {{'tosa.add' op stays float: its operand 1: an element is NaN, which has no code}}
  // expected-remark @+1 {{not quantized: its operand 1: an element is NaN, which has no code [illegal-type]}}
  %1 = tosa.add %0, %c : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.stats %1 {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>} : tensor<2xf32>
  return %2 : tensor<2xf32>
}

// What a region pads with is no operand.
// CHECK-LABEL: @padded_by_a_region
// CHECK:         tensor.pad %x_2
// CHECK:         quant.qcast {{.*}} to tensor<4x!quant.uniform<u8:f32, 0.0078431377187371254:128>>
func.func @padded_by_a_region(%x: tensor<2xf32>) -> tensor<4xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  %z = arith.constant 0.0 : f32
  // expected-remark @+1 {{quantized 'tensor.pad'}}
  %1 = tensor.pad %0 low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<2xf32> to tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Each block has its casts.
// CHECK-LABEL: @blocks
// CHECK:         tosa.abs %x_2
// CHECK:         tosa.exp %x_2
func.func @blocks(%x: tensor<2xf32>, %c: i1) -> tensor<2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  // expected-remark @+1 {{quantized 'tosa.abs'}}
  %1 = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.stats %1 {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  cf.cond_br %c, ^a, ^b
^a:
  // expected-remark @+1 {{quantized 'tosa.exp'}}
  %3 = tosa.exp %0 : (tensor<2xf32>) -> tensor<2xf32>
  %4 = quant.stats %3 {layerStats = dense<[0.0, 3.0]> : tensor<2xf32>} : tensor<2xf32>
  return %4 : tensor<2xf32>
^b:
  return %2 : tensor<2xf32>
}

// Tensors without a rank stay in floats.
// CHECK-LABEL: @unranked
// CHECK-NOT:     quant.qcast
func.func @unranked(%x: tensor<*xf32>) -> tensor<*xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<*xf32>
  %1 = "tosa.abs"(%0) : (tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}

// An argument that is quantized already is read behind its cast.
// CHECK-LABEL: @quantized_argument
// CHECK-NEXT:    %0 = quant.dcast %x
// CHECK-NEXT:    %1 = tosa.abs %0
// CHECK-NEXT:    %2 = quant.qcast %1 : {{.*}} to tensor<2x!quant.uniform<u8:f32, 0.0039215688593685627>>
func.func @quantized_argument(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32> {
  %0 = quant.dcast %x : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf32>
  // expected-remark @+1 {{quantized 'tosa.abs'}}
  %1 = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
  %2 = quant.stats %1 {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>} : tensor<2xf32>
  return %2 : tensor<2xf32>
}
