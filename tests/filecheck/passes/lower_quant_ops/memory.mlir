// RUN: not qdialect-opt %s --lower-quant-ops --max-memory=39 2>&1 | filecheck %s
// RUN: qdialect-opt %s --lower-quant-ops --max-memory=40 | filecheck %s --check-prefix=ROOM

// The scales and zero points of a type are written once, within the budget: 8 of 4 + 1 bytes.

!q = !quant.uniform<i8:f32:0, {1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0}>
func.func @same_type(%x: tensor<8x!q>, %y: tensor<8x!q>) -> (tensor<8xf32>, tensor<8xf32>) {
  // CHECK: memory.mlir:9:8: error: 'quant.dcast' op cannot be lowered: it would take 40 more bytes, but only 39 of the allowed 39 are left (--max-memory) [memory]
  %0 = quant.dcast %x : tensor<8x!q> to tensor<8xf32>
  %1 = quant.dcast %y : tensor<8x!q> to tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
// ROOM-COUNT-2: dense<[1.000000e+00, 2.000000e+00
