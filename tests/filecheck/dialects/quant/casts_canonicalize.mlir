// RUN: qdialect-opt %s --canonicalize | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>
!q = !quant.uniform<i8:f32, 0.5:4>

// CHECK-LABEL: @dequantize_what_was_quantized
// CHECK-NEXT:    func.return %x
func.func @dequantize_what_was_quantized(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!p>
  %1 = quant.dcast %0 : tensor<4x!p> to tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: @another_encoding_is_another_type
// CHECK:         quant.dcast
func.func @another_encoding_is_another_type(%x: tensor<4xf32, "e">) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32, "e"> to tensor<4x!p>
  %1 = quant.dcast %0 : tensor<4x!p> to tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: @quantize_what_was_dequantized
// CHECK-NEXT:    func.return %x
func.func @quantize_what_was_dequantized(%x: tensor<?x!p>) -> tensor<?x!p> {
  %0 = quant.dcast %x : tensor<?x!p> to tensor<?xf32>
  %1 = quant.qcast %0 : tensor<?xf32> to tensor<?x!p>
  return %1 : tensor<?x!p>
}

// CHECK-LABEL: @requantize
// CHECK-NEXT:    %0 = quant.dcast %x
// CHECK-NEXT:    %1 = quant.qcast %0
func.func @requantize(%x: !p) -> !q {
  %0 = quant.dcast %x : !p to f32
  %1 = quant.qcast %0 : f32 to !q
  return %1 : !q
}

// CHECK-LABEL: @storage
// CHECK-NEXT:    func.return %x
func.func @storage(%x: i8) -> i8 {
  %0 = quant.scast %x : i8 to !p
  %1 = quant.scast %0 : !p to i8
  %2 = quant.scast %1 : i8 to !q
  %3 = quant.scast %2 : !q to i8
  return %3 : i8
}

// CHECK-LABEL: @reinterpret
// CHECK-NEXT:    quant.scast
// CHECK-NEXT:    quant.scast
func.func @reinterpret(%x: !p) -> !q {
  %0 = quant.scast %x : !p to i8
  %1 = quant.scast %0 : i8 to !q
  return %1 : !q
}
