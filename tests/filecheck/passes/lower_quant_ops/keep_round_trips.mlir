// RUN: qdialect-opt %s --lower-quant-ops="rounding=nearest-even keep-round-trips" --canonicalize | filecheck %s
// RUN: qdialect-opt %s --lower-quant-ops | filecheck %s --check-prefix=DROPPED

// Floats that are quantized and dequantized are rounded: MLIR drops both casts.

// CHECK-LABEL: @rounded
// CHECK:         %[[QUOTIENT:.*]] = arith.divf %x
// CHECK:         math.roundeven
// CHECK:         arith.fptosi
// CHECK:         arith.sitofp
// CHECK:         arith.mulf
// CHECK-NOT:     quant.
// DROPPED-LABEL: @rounded
// DROPPED:         func.return %x : tensor<2xf32>
func.func @rounded(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.dcast %0 : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf32>
  return %1 : tensor<2xf32>
}
