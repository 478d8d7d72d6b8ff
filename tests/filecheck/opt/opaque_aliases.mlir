// RUN: qdialect-opt %s --allow-unregistered-dialect | filecheck %s --strict-whitespace
// RUN: qdialect-opt %s --allow-unregistered-dialect > %t.once
// RUN: qdialect-opt %t.once --allow-unregistered-dialect | diff %t.once -
// RUN: qdialect-check --allow-unregistered-dialect %s %t.once

// The aliases that only opaque texts name are defined again, each after those that it names.

// CHECK:      #w = dense<[1, 2]> : tensor<2xi8>
// CHECK-NEXT: #named = #my.named<#w>
// CHECK-NEXT: !scale = !quant.uniform<i8:f32, 5.000000e-01>
// CHECK-NEXT: builtin.module {
#w = dense<[1, 2]> : tensor<2xi8>
#named = #my.named<#w>
!scale = !quant.uniform<i8:f32, 0.5>
#in_a_string = i8
#unused = i8

// CHECK-NEXT:   func.func @f(%x: tensor<2xf32, #my.encoding<#named>>) attributes {a = distinct[0]<#w>} {
func.func @f(%x: tensor<2xf32, #my.encoding<#named>>) attributes {a = distinct[0]<#w>} {
  // CHECK-NEXT:     "test.op"(%x) {a = !my.type<!scale>, b = #my.text<"#in_a_string">, c = #my.blob<dense_resource<r>>} : (tensor<2xf32, #my.encoding<#named>>) -> ()
  "test.op"(%x) {a = !my.type<!scale>, b = #my.text<"#in_a_string">, c = #my.blob<dense_resource<r>>} : (tensor<2xf32, #my.encoding<#named>>) -> ()
  return
}

// CHECK: r: "0x010000000102"
{-# dialect_resources: { builtin: { r: "0x010000000102" } } #-}
