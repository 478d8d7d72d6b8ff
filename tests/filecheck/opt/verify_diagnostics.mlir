// RUN: qdialect-opt %s --split-input-file --verify-diagnostics | filecheck %s

// The parts without errors are printed.
// CHECK:      // {{-+}}
// CHECK-NEXT: // {{-+}}
// CHECK-NEXT: builtin.module {
// CHECK-NEXT:   func.func private @good() -> ()
// CHECK-NEXT: }
// CHECK-NEXT: // {{-+}}
// CHECK-NEXT: // {{-+}}

func.func @same_line(%a: i8) {
  quant.fake // expected-error {{custom op 'quant.fake' is unknown}}
}

// -----

func.func @below(%a: i8) {
  // expected-error@below {{use of value '%a'}}
  // expected-note@above {{prior use here}}
  %0 = quant.qcast %a : f32 to !quant.any<i8:f32>
}

// -----

func.func private @good()

// -----

func.func @next_line(%a: i8) {
  // expected-error@+1 {{'quant.fake' is unknown}}
  quant.fake
}

// -----

func.func @line_before(%a: i8) {
  quant.fake
  // expected-error@-1 {{custom op 'quant.fake' is unknown}}
}

// -----

func.func @above(%a: i8) {
  quant.fake
  // expected-error@above {{custom op 'quant.fake' is unknown}}
}

// -----

func.func @several(%a: f32) { // expected-note {{prior use}} expected-error@+1 {{use of value '%a'}}
  %0 = quant.qcast %a : f16 to !quant.any<i8:f16>
}

// -----

func.func @regular_expression(%a: i8) {
  // expected-error-re@+1 {{custom op {{'q.*e'}} is {{known|unknown}}}}
  quant.fake
}
