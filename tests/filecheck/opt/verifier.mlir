// RUN: qdialect-opt %s --split-input-file --verify-diagnostics
// RUN: qdialect-opt %s --split-input-file --disable-verify --print-op-generic | filecheck %s

// CHECK: sym_name = "no_terminator"
func.func @no_terminator() {
  // expected-error@+1 {{block with no terminator, has 'arith.constant' last}}
  %0 = arith.constant 1 : i8
}

// -----

// CHECK: sym_name = "empty_block"
// expected-error@+1 {{empty block: expect at least a terminator}}
func.func @empty_block() {
^bb0:
}

// -----

// CHECK: sym_name = "terminator_in_the_middle"
func.func @terminator_in_the_middle() {
  // expected-error@+1 {{'cf.br' op with block successors must terminate its parent block}}
  cf.br ^bb1
  %0 = arith.constant 1 : i8
^bb1:
  return
}

// -----

// CHECK: sym_name = "operands"
func.func @operands(%a: f32) {
  // expected-error@+1 {{Expected 2 operands, but got 1}}
  %0 = "arith.addf"(%a) <{fastmath = #arith.fastmath<none>}> : (f32) -> f32
  return
}

// -----

// CHECK: sym_name = "nested"
func.func @nested(%a: f32, %c: i1) {
  scf.if %c {
    // expected-error@+1 {{expressed type in quantized type expected to match float type}}
    %0 = quant.qcast %a : f32 to !quant.any<i8:f16>
  }
  return
}

// -----

// What is on one line of xDSL's message and the next is on one line.
// CHECK: sym_name = "result"
func.func @result() -> i8 {
  // expected-error@+1 {{Expected arguments to have the same types as the function output types}}
  return
}

// -----

func.func @index_beyond_the_rank(%x: tensor<2x3xf32>, %init: tensor<3x2xf32>) {
  // expected-error@+1 {{'linalg.transpose' op permutation is not valid}}
  %0 = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%init : tensor<3x2xf32>) permutation = [1, 5]
  return
}

// -----

func.func @axis_twice(%x: memref<3x3xf32>, %init: memref<3x3xf32>) {
  // expected-error@+1 {{'linalg.transpose' op permutation is not valid}}
  linalg.transpose ins(%x : memref<3x3xf32>) outs(%init : memref<3x3xf32>) permutation = [1, 1]
  return
}

// -----

func.func @negative_axis(%x: tensor<3x3xf32>, %init: tensor<3x3xf32>) {
  // expected-error@+1 {{'linalg.transpose' op permutation is not valid}}
  %0 = linalg.transpose ins(%x : tensor<3x3xf32>) outs(%init : tensor<3x3xf32>) permutation = [0, -1]
  return
}

// -----

!rows = !quant.uniform<i8:f32:0, {0.5,0.25,1.0}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25,1.0}>
func.func @moved_to_other_elements(%x: tensor<3x3x!rows>, %init: tensor<3x3x!columns>) {
  // expected-error-re @+1 {{'linalg.yield' op type of yield operand 1 ('{{.*}}:0, {{.*}}') doesn't match the element type of the enclosing linalg.generic op ('{{.*}}:1, {{.*}}')}}
  %0 = linalg.transpose ins(%x : tensor<3x3x!rows>) outs(%init : tensor<3x3x!columns>) permutation = [1, 0]
  return
}

// -----

!rows = !quant.uniform<i8:f32:0, {0.5,0.25}>
func.func @collapsed_to_other_elements(%x: tensor<2x1x!rows>) {
  // expected-error-re @+1 {{'tensor.collapse_shape' op expected collapsed type to be 'tensor<2x!quant{{.*}}', but got 'tensor<2xi8>'}}
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<2x1x!rows> into tensor<2xi8>
  return
}

// -----

// CHECK: sym_name = "twice"
// expected-note@+1 {{see existing symbol definition here}}
func.func @twice() {
  return
}
// expected-error@+1 {{redefinition of symbol named 'twice'}}
func.func @twice() {
  return
}

// -----

// expected-error@+1 {{Alignment attribute 3 : i64 is not a power of 2 of i64}}
memref.global "private" @aligned : memref<2xf32> = dense<1.0> {alignment = 3 : i64}

// -----

// expected-error@+1 {{Expected a static tensor<?xf32> as initial value, not unit}}
memref.global "private" @unknown_length : memref<?xf32>

// -----

// expected-error@+1 {{Expected a static tensor<2xf32> as initial value, not dense<1.000000e+00> : tensor<3xf32>}}
"memref.global"() <{sym_name = "longer", type = memref<2xf32>, initial_value = dense<1.0> : tensor<3xf32>}> : () -> ()

// -----

// expected-error@+1 {{Expected a static tensor<2xf32> as initial value, not 3 : i32}}
"memref.global"() <{sym_name = "number", type = memref<2xf32>, initial_value = 3 : i32}> : () -> ()

// -----

func.func @offset_too_many(%x: memref<8xf32>, %i: index) {
  // expected-error@+1 {{The number of dynamic positions passed as values (1) does not match the number of dynamic position markers (0) in the offset arguments.}}
  %0 = "memref.reinterpret_cast"(%x, %i) <{static_offsets = array<i64: 0>, static_sizes = array<i64: 2>, static_strides = array<i64: 1>, operandSegmentSizes = array<i32: 1, 1, 0, 0>}> : (memref<8xf32>, index) -> memref<2xf32, strided<[1], offset: ?>>
  return
}

// -----

func.func @other_rank(%x: memref<8xf32>) {
  // expected-error@+1 {{Expected 1 size values but got 2}}
  %0 = memref.reinterpret_cast %x to offset: [0], sizes: [2, 1], strides: [1, 1] : memref<8xf32> to memref<2xf32>
  return
}

// -----

func.func @other_length(%x: memref<*xf32>, %n: index) {
  // This length may be unknown.
  %0 = memref.reinterpret_cast %x to offset: [0], sizes: [3], strides: [1] : memref<*xf32> to memref<?xf32>
  // expected-error@+1 {{Expected result type with size = 3 instead of 2 in dim = 0}}
  %1 = memref.reinterpret_cast %x to offset: [0], sizes: [3], strides: [1] : memref<*xf32> to memref<2xf32>
  return
}

// -----

func.func @unknown_length(%x: memref<*xf32>, %n: index) {
  // expected-error@+1 {{Expected result type with dynamic size instead of 2 in dim = 0}}
  %0 = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1] : memref<*xf32> to memref<2xf32>
  return
}
