// RUN: not qdialect-opt %s --lower-quant-shapes --max-memory=100000000 2>&1 | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --max-memory=150000000 | filecheck %s --check-prefix=ROOM

// Splats are written out for `arith.constant`: all that a module has are within one budget.

!q = !quant.uniform<i8:f32, 0.5>
func.func @two() -> (tensor<67108864x!q>, tensor<64x1048576x!q>) {
  %0 = quant.constant dense<3> : tensor<67108864x!q>
  // CHECK: memory.mlir:10:8: error: 'quant.constant' op cannot be lowered: it would take 67108864 more bytes, but only 32891136 of the allowed 100000000 are left (--max-memory) [memory]
  %1 = quant.constant dense<4> : tensor<64x1048576x!q>
  return %0, %1 : tensor<67108864x!q>, tensor<64x1048576x!q>
}
// ROOM: arith.constant dense<3> : tensor<67108864xi8>
// ROOM: arith.constant dense<4> : tensor<64x1048576xi8>
