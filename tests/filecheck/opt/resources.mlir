// RUN: qdialect-opt %s --split-input-file --allow-unregistered-dialect | filecheck %s
// RUN: qdialect-opt %s --split-input-file --allow-unregistered-dialect --print-op-generic | qdialect-opt --split-input-file --allow-unregistered-dialect | filecheck %s

// Blobs stay as they are, and belong to one module: the next has others by the same keys.

// CHECK:      %i = arith.constant dense_resource<weights> : tensor<2xi8>
// CHECK-NEXT: %f = arith.constant dense_resource<scale> : tensor<1xf32>
// CHECK-NEXT: {{"?}}stablehlo.constant{{.*}}dense_resource<weights> : tensor<2xi8>
// CHECK-NEXT: %elided = arith.constant dense_resource<__elided__> : tensor<1024xi8>
// CHECK:      builtin: {
// CHECK-NEXT:   scale: "0x040000000000C07F",
// CHECK-NEXT:   weights: "0x1000000001FF"
// CHECK-NEXT: }
// CHECK-NOT:  unused
%i = arith.constant dense_resource<weights> : tensor<2xi8>
%f = arith.constant dense_resource<scale> : tensor<1xf32>
%s = "stablehlo.constant"() <{value = dense_resource<weights> : tensor<2xi8>}> : () -> tensor<2xi8>
%elided = arith.constant dense_resource<__elided__> : tensor<1024xi8>

{-#
  dialect_resources: {
    builtin: {
      scale: "0x040000000000C07F",
      unused: "0x0100000007",
      weights: "0x1000000001FF"
    }
  }
#-}

// -----

// CHECK:      // {{-+}}
// CHECK:      arith.constant dense_resource<weights> : tensor<3xi8>
// CHECK:      builtin: {
// CHECK-NEXT:   weights: "0x01000000030405"
// CHECK-NEXT: }
%i = arith.constant dense_resource<weights> : tensor<3xi8>

{-# dialect_resources: { builtin: { weights: "0x01000000030405" } } #-}

// -----

// CHECK:      // {{-+}}
// CHECK:      arith.constant dense_resource<weights> : tensor<3xi8>
// CHECK-NOT:  dialect_resources
%i = arith.constant dense_resource<weights> : tensor<3xi8>

// -----

// A key that is no identifier is a string.

// CHECK:      // {{-+}}
// CHECK:      %k = arith.constant dense_resource<"layer/0:k \\\22"> : tensor<1xi8>
// CHECK-NEXT: arith.constant dense_resource<quoted> : tensor<1xi8>
// CHECK-NEXT: {{.*}}#unknown.attribute<dense_resource<"in text\22"> : tensor<1xi8>>
// CHECK:      builtin: {
// CHECK-NEXT:   "in text\22": "0x0100000009",
// CHECK-NEXT:   "layer/0:k \\\22": "0x0100000007",
// CHECK-NEXT:   quoted: "0x0100000008"
%k = arith.constant dense_resource<"layer/0:k \\\""> : tensor<1xi8>
%l = arith.constant dense_resource<"quoted"> : tensor<1xi8>
"test.op"() {a = #unknown.attribute<dense_resource<"in text\22"> : tensor<1xi8>>} : () -> ()

{-#
  dialect_resources: {
    builtin: {
      "in text\"": "0x0100000009",
      "layer/0:k \5C\22": "0x0100000007",
      "quoted": "0x0100000008"
    }
  }
#-}

// -----

// What other tools have written for themselves is skipped.

// CHECK:      // {{-+}}
// CHECK:      arith.constant dense_resource<weights> : tensor<1xi8>
// CHECK-NEXT: }
// CHECK-NOT:  reproducer
// CHECK:      weights: "0x0100000007"
%i = arith.constant dense_resource<weights> : tensor<1xi8>

{-#
  external_resources: {
    mlir_reproducer: {
      pipeline: "builtin.module(canonicalize{ max-iterations=10 })",
      disable_threading: true
    }
  },
  dialect_resources: { builtin: { weights: "0x0100000007" } }
#-}

// -----

// Bytes that are no UTF-8 name no blob that can be read.

// CHECK:      // {{-+}}
// CHECK:      #unknown.attribute<dense_resource<"\FF"> : tensor<1xi8>>
"test.op"() {a = #unknown.attribute<dense_resource<"\FF"> : tensor<1xi8>>} : () -> ()
