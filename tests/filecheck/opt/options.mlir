// RUN: qdialect-opt %s | filecheck %s
// RUN: cat %s | qdialect-opt | filecheck %s
// RUN: cat %s | qdialect-opt - | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect=false --verify-each=1 | filecheck %s
// RUN: qdialect-opt %s -t mlir | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC
// RUN: qdialect-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qdialect-opt %s -t 'mlir{print_generic_format=true}' | filecheck %s --check-prefix=GENERIC
// RUN: qdialect-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix=DEBUGINFO

// CHECK:      builtin.module {
// CHECK-NEXT:   func.func @keep(%a: i32) -> i32 {
// CHECK-NEXT:     func.return %a : i32
// CHECK-NEXT:   }
// CHECK-NEXT: }
// GENERIC: "func.return"(%a) : (i32) -> ()
// DEBUGINFO: func.return %a : i32 loc(unknown)
func.func @keep(%a: i32) -> i32 {
  return %a : i32
}
