// RUN: qdialect-opt %s | filecheck %s --check-prefix=CUSTOM
// RUN: xdsl-opt %s | filecheck %s --check-prefix=CUSTOM
// RUN: qdialect-opt --op-form=as-read %s | filecheck %s --check-prefix=READ
// RUN: qdialect-opt --op-form=llvm24 %s | filecheck %s --check-prefix=LLVM24
// RUN: qdialect-opt --op-form=generic %s | filecheck %s --check-prefix=GENERIC

ml_program.global private @g(dense<4> : tensor<4xi32>) : tensor<4xi32>
func.func @f(%a: i8, %t: tensor<2xf32>) {
  %c = ml_program.global_load_const @g : tensor<4xi32>
  %b = mod_arith.add %a, %a {modulus = 17 : i64} : i8
  %m = "memref.alloc"() <{alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<4xi32>
  %d = memref.alloc() {alignment = 64 : i64} : memref<4xi32>
  %r = tosa.reduce_sum %t {axis = 0 : i32} : (tensor<2xf32>) -> tensor<1xf32>
  "test.op"() {b, a = 1 : i8} : () -> ()
  func.return
}

// CUSTOM:      %c = ml_program.global_load_const @g : tensor<4xi32>
// CUSTOM-NEXT: %b = mod_arith.add %a, %a {modulus = 17 : i64} : i8
// CUSTOM-NEXT: %m = memref.alloc() {alignment = 64 : i64} : memref<4xi32>
// CUSTOM-NEXT: %d = memref.alloc() {alignment = 64 : i64} : memref<4xi32>
// CUSTOM-NEXT: %r = tosa.reduce_sum %t {axis = 0 : i32} : (tensor<2xf32>) -> tensor<1xf32>
// CUSTOM-NEXT: "test.op"() {b, a = 1 : i8} : () -> ()

// READ:      %b = mod_arith.add %a, %a {modulus = 17 : i64} : i8
// READ-NEXT: %m = "memref.alloc"() <{alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>}>
// READ-NEXT: %d = memref.alloc() {alignment = 64 : i64} : memref<4xi32>

// LLVM24:      %c = ml_program.global_load_const @g : tensor<4xi32>
// LLVM24-NEXT: %b = mod_arith.add %a, %a {modulus = 17 : i64} : i8
// LLVM24-NEXT: %m = "memref.alloc"() <{alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>}>
// LLVM24-NEXT: %d = "memref.alloc"() <{alignment = 64 : i64, operandSegmentSizes = array<i32: 0, 0>}>
// LLVM24-NEXT: %r = "tosa.reduce_sum"(%t) <{axis = 0 : i32}> : (tensor<2xf32>) -> tensor<1xf32>

// GENERIC: "ml_program.global_load_const"() <{global = @g}>
// GENERIC: "mod_arith.add"(%a, %a) <{modulus = 17 : i64}>
