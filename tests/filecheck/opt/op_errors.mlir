// RUN: not qdialect-opt %s --split-input-file 2>&1 | filecheck %s

// What is found wrong when an operation is made is told at its name, as in MLIR.

// CHECK: op_errors.mlir:{{[0-9]+}}:8: error: Unexpected attribute !quant.uniform<i8:f32, 5.000000e-01>
// CHECK-NEXT: %0 = arith.addi
func.func @f(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  %0 = arith.addi %a, %a : tensor<2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

// CHECK: op_errors.mlir:{{[0-9]+}}:8: error: incorrect length for range variable
// CHECK-NEXT: %r = llvm.insertelement
func.func @f(%val: vector<4xf32>, %vec: vector<4x4xf32>, %idx: i32) {
  %r = llvm.insertelement %val, %vec[%idx : i32] : vector<4x4xf32>
  func.return
}

// -----

// A wrong attribute or type is told at its place.
// CHECK: op_errors.mlir:{{[0-9]+}}:18: error: Integer value 300 is out of range for type i8
"test.op"() {a = 300 : i8} : () -> ()

// -----

// CHECK: op_errors.mlir:{{[0-9]+}}:16: error: custom op 'func.func' expected non-empty function body
func.func @f() {
}

// -----

// CHECK: op_errors.mlir:{{[0-9]+}}:9: error: expected operation name in quotes
// CHECK-NEXT:   return
// CHECK-NEXT: {{^        \^$}}
// CHECK-NEXT: op_errors.mlir:{{[0-9]+}}:16: note: to match this '{'
// CHECK-NEXT: func.func @f() {
func.func private @g()
func.func @f() {
  return
