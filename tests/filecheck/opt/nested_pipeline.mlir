// RUN: qdialect-opt %s --pass-pipeline='builtin.module(func.func(lower-quant-ops,canonicalize), strip-func-quant-types)' | filecheck %s
// RUN: qdialect-opt %s --pass-pipeline='builtin.module(builtin.module(lower-quant-ops))' | filecheck %s --check-prefix=OTHER

// A pipeline for ops of one name runs on each of them, where it is.

!q = !quant.uniform<i8:f32, 0.5>

// CHECK:      func.func private @before()
// CHECK-NEXT: func.func @cast(%x: i8) -> f32 {
// CHECK:        arith.constant 5.000000e-01 : f32
// CHECK:      func.func private @after()
// CHECK-NEXT: func.func @last(%x: i8) -> f32 {
// CHECK:        arith.constant 5.000000e-01 : f32
// OTHER-COUNT-2: quant.dcast
func.func private @before()
func.func @cast(%x: !q) -> f32 {
  %f = quant.dcast %x : !q to f32
  return %f : f32
}
func.func private @after()
func.func @last(%x: !q) -> f32 {
  %f = quant.dcast %x : !q to f32
  return %f : f32
}
