// RUN: not qdialect-opt %s --split-input-file 2>&1 >/dev/null | filecheck %s
// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// xDSL checks these in `verify`, which the classes override, and not in `verify_`.

func.func @trunc(%x: i32) {
  // CHECK: verify_overridden.mlir:9:3: error: invalid cast opcode for cast from i32 to i64
  // expected-error @below {{invalid cast opcode for cast from i32 to i64}}
  llvm.trunc %x : i32 to i64
  return
}
// -----
func.func @zext(%x: i32) {
  // expected-error @below {{invalid cast opcode for cast from i32 to i16}}
  llvm.zext %x : i32 to i16
  return
}
// -----
func.func @sext(%x: i32) {
  // The wrong one is found after equal ones that are right.
  llvm.sext %x : i32 to i64
  llvm.sext %x : i32 to i64
  // expected-error @below {{invalid cast opcode for cast from i32 to i32}}
  llvm.sext %x : i32 to i32
  return
}
