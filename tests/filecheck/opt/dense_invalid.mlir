// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{integer constant out of range for type}}
"test.op"() {a = dense<300> : tensor<4xi8>} : () -> ()

// -----

// expected-error@+1 {{expected integer elements, but parsed floating-point}}
"test.op"() {a = dense<1.5> : tensor<4xi8>} : () -> ()

// -----

// expected-error@+1 {{inferred shape of elements literal ([2]) does not match type ([4])}}
"test.op"() {a = dense<[1, 2]> : tensor<4xi8>} : () -> ()

// -----

// expected-error@+1 {{elements hex data size is invalid for provided type: 'tensor<4xi8>'}}
"test.op"() {a = dense<"0x010203"> : tensor<4xi8>} : () -> ()

// -----

// expected-error@+1 {{Dense literal attribute should have a static shape.}}
"test.op"() {a = dense<1> : tensor<?xi8>} : () -> ()

// -----

// expected-error@+1 {{expected floating point literal}}
"test.op"() {a = dense<[1.0, true]> : tensor<2xf32>} : () -> ()

// -----

// expected-error@+1 {{hexadecimal float constant out of range for type}}
"test.op"() {a = dense<0x1FFFF> : tensor<2xf16>} : () -> ()

// -----

// expected-error@+1 {{elements of type 'f80' are not supported}}
"test.op"() {a = dense<1.0> : tensor<2xf80>} : () -> ()
