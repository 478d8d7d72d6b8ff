// RUN: qdialect-opt %s --canonicalize | filecheck %s --check-prefixes=CHECK,ALL
// RUN: qdialect-opt %s --pass-pipeline='builtin.module(canonicalize{test-convergence})' | filecheck %s --check-prefixes=CHECK,ALL
// RUN: qdialect-opt %s --canonicalize='top-down=false region-simplify=aggressive max-iterations=10' | filecheck %s --check-prefixes=CHECK,ALL
// RUN: qdialect-opt %s --canonicalize=region-simplify=disabled | filecheck %s --check-prefixes=CHECK,ALL,UNREACHED
// RUN: qdialect-opt %s --canonicalize=max-iterations=0 | filecheck %s --check-prefixes=CHECK,NOTHING
// RUN: qdialect-opt %s --canonicalize='top-down=false max-iterations=1 max-num-rewrites=1' | filecheck %s --check-prefixes=CHECK,ONE
// RUN: qdialect-opt %s --canonicalize=disable-patterns=SelectSamePattern | filecheck %s --check-prefixes=CHECK,DISABLED
// RUN: qdialect-opt %s --canonicalize=enable-patterns=SelectSamePattern,Other | filecheck %s --check-prefixes=CHECK,ALL
// RUN: qdialect-opt %s --canonicalize=enable-patterns=Other | filecheck %s --check-prefixes=CHECK,DISABLED
// RUN: not qdialect-opt %s --canonicalize='max-iterations=1 test-convergence' 2>&1 | filecheck %s --check-prefix=ERROR

// The folder of addi is no pattern.

// CHECK:           func.func @f(%x: i32, %c: i1) -> i32 {
// ALL-NEXT:          func.return %x : i32
// UNREACHED-NEXT:  ^unreached:
// UNREACHED-NEXT:    func.return %x : i32
// NOTHING:           arith.addi
// NOTHING:           arith.select
// NOTHING:         ^unreached:
// ONE:               %0 = arith.addi %x, %zero : i32
// ONE-NEXT:          func.return %0 : i32
// DISABLED-NEXT:     %0 = arith.select %c, %x, %x : i32
// DISABLED-NEXT:     func.return %0 : i32
// CHECK:           }
// ERROR: options.mlir: error: canonicalization has not converged after 1 iterations
func.func @f(%x: i32, %c: i1) -> i32 {
  %zero = arith.constant 0 : i32
  %0 = arith.addi %x, %zero : i32
  %1 = arith.select %c, %0, %0 : i32
  return %1 : i32
^unreached:
  return %x : i32
}
