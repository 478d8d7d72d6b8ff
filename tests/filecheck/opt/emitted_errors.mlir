// RUN: not qdialect-opt %s -p x86-regalloc-verify-liveness 2>&1 >/dev/null | filecheck %s
// RUN: qdialect-opt %s -p x86-regalloc-verify-liveness --verify-diagnostics

// The text of such an error is not in the exception: `Operation.emit_error` has it.

x86_func.func @f(%p: !x86.reg64<rax>) {
  // CHECK: emitted_errors.mlir:10:8: error: p should not be read after in/out usage
  // CHECK-NEXT: %q = x86.r.inc
  // expected-error @below {{p should not be read after in/out usage}}
  %q = x86.r.inc %p : (!x86.reg64<rax>) -> !x86.reg64<rax>
  "test.op"(%p) : (!x86.reg64<rax>) -> ()
  x86_func.ret
}
