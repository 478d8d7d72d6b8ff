// RUN: qdialect-opt %s --allow-unregistered-dialect | filecheck %s --strict-whitespace
// RUN: qdialect-opt %s --allow-unregistered-dialect --print-op-generic | filecheck %s --check-prefix=GENERIC --strict-whitespace
// RUN: qdialect-opt %s --allow-unregistered-dialect > %t.once
// RUN: qdialect-opt %t.once --allow-unregistered-dialect | diff %t.once -
// RUN: not qdialect-opt %s 2>&1 | filecheck %s --check-prefix=UNREGISTERED

// Attributes and types of which only the text is known have all of it, at any depth.

// CHECK:      builtin.module {
// CHECK-NEXT:   "test.op"() {a = #other.dot<>, b = !foo.bar<>, c = #foo.bar, d = !foo<bar>, e = #foo<bar<1>>} : () -> ()
// UNREGISTERED: opaque.mlir:{{[0-9]+}}:25: error: #"other"<"dot<>"> : none attribute created with unregistered dialect
"test.op"() {a = #other.dot<>, b = !foo.bar<>, c = #foo.bar, d = !foo<bar>, e = #foo<bar<1>>} : () -> ()

// CHECK-NEXT:   "test.op"() {a = #foo<"x y">, b = !foo<5 -> 6>, c = #foo< bar>, d = #foo<()>} : () -> ()
"test.op"() {a = #foo<"x y">, b = !foo<5 -> 6>, c = #foo< bar>, d = #foo<()>} : () -> ()

// CHECK-NEXT:   "test.op"() {a = #foo.bar<1> : i32, b = [#foo<bar> : tensor<2x!foo.bar<>>]} : () -> ()
"test.op"() {a = #foo.bar<1> : i32, b = [#foo<bar> : tensor<2x!foo.bar<>>]} : () -> ()

// CHECK-NEXT:   "test.op"() {a = dense<"hello"> : tensor<!tf_type.string>, b = dense<["a", "b\22"]> : tensor<2x!tf_type.string>} : () -> ()
"test.op"() {a = dense<"hello"> : tensor<!tf_type.string>, b = dense<["a", "b\22"]> : tensor<2x!tf_type.string>} : () -> ()

// Line breaks stay as they are, those of strings too.
// CHECK-NEXT:   %0 = "test.op"() ({
// CHECK-NEXT:     %1 = "test.op"() {a = #sparse_tensor.encoding<{
// CHECK-NEXT:{{^    map = \(d0\) -> \(d0 : compressed\)$}}
// CHECK-NEXT:{{^  }>}}, b = #foo.bar<"\22>">} : () -> tensor<2x!foo.bar<a
// CHECK-NEXT:{{^ b>>$}}
// CHECK-NEXT:     "test.termop"(%1) : (tensor<2x!foo.bar<a
// CHECK-NEXT:{{^ b>>\) -> \(\)$}}
// CHECK-NEXT:   }) : () -> tensor<2x!foo.bar<a
// CHECK-NEXT:{{^ b>>$}}
// CHECK-NEXT:   "test.op"(%0) : (tensor<2x!foo.bar<a
%0 = "test.op"() ({
  %1 = "test.op"() {a = #sparse_tensor.encoding<{
    map = (d0) -> (d0 : compressed)
  }>, b = #foo.bar<"\22>">} : () -> tensor<2x!foo.bar<a
 b>>
  "test.termop"(%1) : (tensor<2x!foo.bar<a
 b>>) -> ()
}) : () -> tensor<2x!foo.bar<a
 b>>
"test.op"(%0) : (tensor<2x!foo.bar<a
 b>>) -> ()

// GENERIC:      "builtin.module"() ({
// GENERIC-NEXT:   "test.op"() {a = #other.dot<>, b = !foo.bar<>, c = #foo.bar, d = !foo<bar>, e = #foo<bar<1>>} : () -> ()
