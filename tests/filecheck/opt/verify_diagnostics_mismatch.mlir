// RUN: not qdialect-opt %s --split-input-file --verify-diagnostics 2>&1 >/dev/null | filecheck %s --match-full-lines --strict-whitespace

func.func @unexpected() {
  quant.fake
}

//      CHECK:{{.*}}verify_diagnostics_mismatch.mlir:4:3: error: unexpected error: custom op 'quant.fake' is unknown
// CHECK-NEXT:  quant.fake
// CHECK-NEXT:  ^

// -----

// expected-error@+1 {{nothing}}
func.func private @missing()

//      CHECK:{{.*}}verify_diagnostics_mismatch.mlir:13:4: error: expected error "nothing" was not produced

// -----

// The right words on the wrong line.
func.func @elsewhere() { // expected-error {{custom op}}
  quant.fake
}

//      CHECK:{{.*}}verify_diagnostics_mismatch.mlir:22:3: error: unexpected error: custom op 'quant.fake' is unknown
//      CHECK:{{.*}}verify_diagnostics_mismatch.mlir:21:29: error: expected error "custom op" was not produced

// -----

// expected-warning@unknown {{none}}
func.func @warning() {
  quant.fake // expected-warning {{custom op}}
}

//      CHECK:{{.*}}verify_diagnostics_mismatch.mlir:32:3: error: 'error' diagnostic emitted when expecting a 'warning'
//      CHECK:{{.*}}verify_diagnostics_mismatch.mlir:30:4: error: expected warning "none" was not produced
//      CHECK:{{.*}}verify_diagnostics_mismatch.mlir:32:17: error: expected warning "custom op" was not produced

// -----

// expected-error-re@+1 {{a {{[}}}}
func.func @invalid_regex() { quant.fake }

//      CHECK:{{.*}}verify_diagnostics_mismatch.mlir:41:4: error: invalid regex: unterminated character set at position {{.*}}
