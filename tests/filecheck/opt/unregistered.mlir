// RUN: qdialect-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics | filecheck %s
// RUN: not qdialect-opt %s --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix=REGISTERED

// CHECK: "no_such_dialect.op"() {a = #no_such_dialect.attribute<1, [2]>} : () -> !no_such_dialect.type
// REGISTERED: error: operation being parsed with an unregistered dialect.
%0 = "no_such_dialect.op"() {a = #no_such_dialect.attribute<1, [2]>} : () -> !no_such_dialect.type

// -----

// An operation that upstream has and xDSL lacks.
// CHECK: "tosa.no_such_op"() : () -> ()
// REGISTERED: error: unregistered operation 'tosa.no_such_op' found in dialect ('tosa') that does not allow unknown operations (xDSL lacks it; use --allow-unregistered-dialect)
"tosa.no_such_op"() : () -> ()

// -----

// The quant dialect is all there.
// expected-error@+1 {{unregistered operation 'quant.fake' found in dialect ('quant') that does not allow unknown operations}}
"quant.fake"() : () -> ()

// -----

// expected-error@+1 {{unknown quantized type fake}}
%0 = "no_such_dialect.op"() : () -> !quant.fake

// -----

// expected-error@+1 {{dialect 'quant' provides no attribute parsing hook}}
"no_such_dialect.op"() {a = #quant.fake} : () -> ()

// -----

// Only the generic form can be read.
// expected-error@+1 {{Dialect `no_such_dialect' not found for custom op 'no_such_dialect.op'}}
no_such_dialect.op

// -----

// No unregistered op is a symbol table: what is called in one is outside of it.
// CHECK-LABEL: @loop
// CHECK: "test.loop"
// CHECK: func.call @body() : () -> ()
func.func private @body()
func.func @loop() {
  "test.loop"() ({
    func.call @body() : () -> ()
    "test.end"() : () -> ()
  }) : () -> ()
  return
}
