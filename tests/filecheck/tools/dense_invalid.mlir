// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{Integer value 300 is out of range for type i8}}
"test.op"() {a = dense<300> : tensor<4xi8>} : () -> ()

// -----

// expected-error@+1 {{Expected integer value}}
"test.op"() {a = dense<1.5> : tensor<4xi8>} : () -> ()

// -----

// expected-error@+1 {{Shape mismatch in dense literal. Expected [4] shape from the type, but got [2] shape.}}
"test.op"() {a = dense<[1, 2]> : tensor<4xi8>} : () -> ()

// -----

// expected-error@+1 {{elements hex data size is invalid for provided type: 'tensor<4xi8>'}}
"test.op"() {a = dense<"0x010203"> : tensor<4xi8>} : () -> ()

// -----

// expected-error@+1 {{Dense literal attribute should have a static shape.}}
"test.op"() {a = dense<1> : tensor<?xi8>} : () -> ()
