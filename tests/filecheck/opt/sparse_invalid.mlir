// RUN: qdialect-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics

// The messages of mlir-opt.
// expected-error @+1 {{sparse index #1 is not contained within the value shape, with index=[1, 4], and type='tensor<3x4xi32>'}}
"test.op"() {a = sparse<[[0, 0], [1, 4]], [1, 5]> : tensor<3x4xi32>} : () -> ()

// -----

// expected-error @+1 {{sparse index #0 is not contained within the value shape, with index=[18446744073709551614, 2], and type='tensor<3x4xi32>'}}
"test.op"() {a = sparse<[[-2, 2], [1, 4]], 5> : tensor<3x4xi32>} : () -> ()

// -----

// expected-error @+1 {{sparse index #0 is not contained within the value shape, with index=[2, 2], and type='tensor<4x2xi32>'}}
"test.op"() {a = sparse<2, 5> : tensor<4x2xi32>} : () -> ()

// -----

// expected-error @+1 {{expected shape ([3, 4]); inferred shape of indices literal ([2, 3]); inferred shape of values literal ([2])}}
"test.op"() {a = sparse<[[0, 0, 0], [1, 2, 0]], [1, 5]> : tensor<3x4xi32>} : () -> ()

// -----

// expected-error @+1 {{expected shape ([3, 4]); inferred shape of indices literal ([2, 2]); inferred shape of values literal ([3])}}
"test.op"() {a = sparse<[[0, 0], [1, 2]], [1, 5, 6]> : tensor<3x4xi32>} : () -> ()

// -----

// expected-error @+1 {{expected 1-d tensor for sparse element values}}
"test.op"() {a = sparse<[[0, 0], [1, 2]], [[1], [5]]> : tensor<3x4xi32>} : () -> ()

// -----

// expected-error @+1 {{elements literal type must have static shape}}
"test.op"() {a = sparse<[[0, 0], [1, 2]], [1, 5]> : tensor<?x4xi32>} : () -> ()

// -----

"test.op"() {
  a = sparse<[[0, 0], [2, 3]], [1.5, 0x7FC00000]> : tensor<3x4xf32>,
  b = sparse<[0, 3], 1> : tensor<4xi32>,
  c = sparse<0, "text"> : tensor<2x2x!tf.string>,
  d = sparse<0, (1, 2)> : tensor<complex<i32>>,
  e = sparse<> : tensor<2xi1>
} : () -> ()
