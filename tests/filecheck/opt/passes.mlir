// Passes run in the order given, however they are given.

// RUN: qdialect-opt --canonicalize %s | filecheck %s --check-prefixes=CHECK,ONCE
// RUN: qdialect-opt -canonicalize %s | filecheck %s --check-prefixes=CHECK,ONCE
// RUN: qdialect-opt -p canonicalize %s | filecheck %s --check-prefixes=CHECK,ONCE
// RUN: qdialect-opt --inline --canonicalize %s | filecheck %s --check-prefixes=CHECK,TWICE
// RUN: qdialect-opt -p inline,canonicalize %s | filecheck %s --check-prefixes=CHECK,TWICE
// RUN: qdialect-opt -p inline --canonicalize %s | filecheck %s --check-prefixes=CHECK,TWICE
// RUN: qdialect-opt --inline -p canonicalize %s | filecheck %s --check-prefixes=CHECK,TWICE
// RUN: qdialect-opt --pass-pipeline='builtin.module( inline, canonicalize )' %s | filecheck %s --check-prefixes=CHECK,TWICE
// RUN: qdialect-opt -p 'builtin.module(inline,canonicalize)' %s | filecheck %s --check-prefixes=CHECK,TWICE

// Options, in the form of mlir-opt and in that of xDSL.

// RUN: qdialect-opt --print-ir-after-all --canonicalize --cse %s 2>&1 >/dev/null | filecheck %s --check-prefix=AFTER-ALL
// RUN: qdialect-opt --time-passes --cse %s 2>&1 >/dev/null | filecheck %s --check-prefix=TIME
// RUN: qdialect-opt --fold-quant-shapes='max-growth=0' %s | filecheck %s
// RUN: qdialect-opt -p 'fold-quant-shapes{max-growth=0},cse' %s | filecheck %s
// RUN: qdialect-opt -p 'fold-quant-shapes{ max-growth=0 } , cse' %s | filecheck %s

// AFTER-ALL:      // -----// IR Dump After canonicalize //----- //
// AFTER-ALL-NEXT: builtin.module {
// AFTER-ALL:      // -----// IR Dump After cse //----- //
// AFTER-ALL-NEXT: builtin.module {
// TIME: Pass cse took {{.*}} seconds

// CHECK: func.func @twice
// ONCE:  func.call @add_zero
// TWICE-NOT: func.call
// TWICE: func.return %a : i32
func.func @twice(%a: i32) -> i32 {
  %0 = func.call @add_zero(%a) : (i32) -> i32
  return %0 : i32
}

func.func private @add_zero(%a: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %0 = arith.addi %a, %zero : i32
  return %0 : i32
}
