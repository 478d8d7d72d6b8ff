// These errors have the same words, and the same lines, as mlir-opt's.

// RUN: qdialect-opt %s --split-input-file --verify-diagnostics
// RUN: %if mlir-opt-22 %{ mlir-opt-22 %s --split-input-file --verify-diagnostics %}

// expected-error @+1 {{unknown quantized type foobar}}
func.func private @unknown_type(!quant.foobar<i8>)

// -----

// expected-error @+1 {{unknown quantized type foobar}}
func.func private @unknown_opaque_type(!quant<foobar<i8>>)

// -----

// expected-error @+1 {{dialect 'quant' provides no attribute parsing hook}}
func.func private @attribute() attributes {a = #quant.foobar<i8>}

// -----

// expected-note @+1 {{prior use here}}
func.func @other_type(%a: f32) {
  // expected-error @+1 {{use of value '%a' expects different type than prior uses: 'f16' vs 'f32'}}
  %0 = quant.qcast %a : f16 to !quant.any<i8:f16>
  return
}

// -----

func.func @defined_with_other_type() {
  // expected-note @below {{previously used here with type 'i8'}}
  func.call @f(%0) : (i8) -> ()
  // expected-error @below {{definition of SSA value '%0#0' has type 'i16'}}
  %0 = arith.constant 1 : i16
  return
}

// -----

func.func @undefined() {
  // expected-error @below {{use of undeclared SSA value name}}
  func.call @f(%0) : (i8) -> ()
  return
}

// -----

func.func @unknown_op(%a: i8) {
  // expected-error @+1 {{custom op 'quant.fake' is unknown}}
  %0 = quant.fake %a : i8
  return
}

// -----

func.func @unknown_op_without_dialect(%a: i8) {
  // expected-error-re @+1 {{custom op 'fake' is unknown (tried '{{func|builtin}}.fake' as well)}}
  fake %a : i8
  return
}

// -----

func.func @unknown_generic_op(%a: i8) {
  // expected-error @+1 {{unregistered operation 'quant.fake' found in dialect ('quant') that does not allow unknown operations}}
  %0 = "quant.fake"(%a) : (i8) -> i8
  return
}

// -----

func.func @unknown_dialect(%a: i8) {
  // expected-error @+1 {{operation being parsed with an unregistered dialect}}
  %0 = "no_such_dialect.fake"(%a) : (i8) -> i8
  return
}

// -----

// expected-error @+1 {{invalid memref element type}}
func.func private @memref(memref<4x!quant.any<i8>>)

// -----

// expected-error @+1 {{invalid memref element type}}
func.func private @unranked_memref(memref<*x!quant.any<i8>>)

// -----

// expected-error @+1 {{failed to verify 'elementType': VectorElementTypeInterface instance}}
func.func private @vector(i8, vector<4x!quant.any<i8>>)

// -----

// expected-error @+1 {{invalid element type for complex}}
func.func private @complex(complex<!quant.any<i8>>)

// -----

// expected-error @+1 {{invalid dimension}}
func.func private @dimension(tensor<9223372036854775808xi8>)

// -----

func.func private @greatest_dimension(tensor<9223372036854775807xi8>)

// -----

// expected-error @+1 {{integer bitwidth is limited to 16777215 bits}}
func.func private @width(tensor<2xi16777216>)

// -----

// expected-error @+1 {{invalid integer width}}
func.func private @very_wide(si4294967296)

// -----

func.func private @greatest_width(ui16777215)

// -----

// One error for each function, whose first wrong operation ends its verification.
func.func @wrong_twice(%a: f32) {
  // expected-error @+1 {{expressed type in quantized type expected to match float type}}
  %0 = quant.qcast %a : f32 to !quant.any<i8:f16>
  %1 = quant.qcast %a : f32 to !quant.any<i8:f16>
  return
}
func.func @wrong_once(%a: f32) {
  // expected-error @+1 {{expressed type in quantized type expected to match float type}}
  %0 = quant.qcast %a : f32 to !quant.any<i8:f16>
  return
}

// -----

func.func @unfinished() {
  // expected-error @+1 {{expected operation name in quotes}}
  return ]
}

// -----

// An alias may be followed by what is not its own.
!storage = i8
func.func private @alias(!quant.any<!storage <-4:4>>)
