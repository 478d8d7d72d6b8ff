// RUN: qdialect-opt %s --allow-unregistered-dialect --fake-quantize --remarks --verify-diagnostics | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!any = !quant.any<i8:f32>

// CHECK-LABEL: @unknown
// CHECK-NEXT:    %0 = "test.op"(%x) : (tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @unknown(%x: tensor<2x!q>) -> tensor<2x!q> {
  // expected-remark @below {{not made float: the function that it computes is not known [unknown-op]}}
  %0 = "test.op"(%x) : (tensor<2x!q>) -> tensor<2x!q>
  return %0 : tensor<2x!q>
}

// CHECK-LABEL: @kept
// CHECK-NEXT:    %0 = stablehlo.tanh %x {{.*}} : tensor<2x!quant.uniform
func.func @kept(%x: tensor<2x!q>) -> tensor<2x!q> {
  // expected-remark @below {{not made float: its attribute 'sdy.sharding' says that it stays [kept]}}
  %0 = "stablehlo.tanh"(%x) {sdy.sharding = "here"} : (tensor<2x!q>) -> tensor<2x!q>
  return %0 : tensor<2x!q>
}

// CHECK-LABEL: @no_scale
// CHECK-NEXT:    tosa.tanh %x : (tensor<2x!quant.any<i8:f32>>)
func.func @no_scale(%x: tensor<2x!any>) -> tensor<2x!any> {
  // expected-remark @below {{not made float: the parameters of a type are not known [unknown-op]}}
  %0 = tosa.tanh %x : (tensor<2x!any>) -> tensor<2x!any>
  return %0 : tensor<2x!any>
}

// Bounds of stored integers, sums of them, and a zero point that is not that of the type.
// CHECK-LABEL: @integers
// CHECK-NOT:     quant.dcast
func.func @integers(%x: tensor<1x2x3x!q>, %y: tensor<1x3x2x!q>, %z: tensor<1xi8>) -> (tensor<1x2x3x!q>, tensor<1x2x2xi32>, tensor<1x2x2x!q>, tensor<1x2x2x!q>) {
  // expected-remark @below {{not made float: its attribute 'min_val' may be a storage value [unknown-op]}}
  %0 = "tosa.clamp"(%x) <{min_val = -3 : i8, max_val = 5 : i8}> : (tensor<1x2x3x!q>) -> tensor<1x2x3x!q>
  %three = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %four = "tosa.const"() <{values = dense<4> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-remark @below {{not made float: its integers of type 'i32' may be storage values [unknown-op]}}
  %1 = tosa.matmul %x, %y, %three, %three : (tensor<1x2x3x!q>, tensor<1x3x2x!q>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2xi32>
  // expected-remark @below {{not made float: operand #3 differs from the zero point of the type [stale-type]}}
  %2 = tosa.matmul %x, %y, %three, %four : (tensor<1x2x3x!q>, tensor<1x3x2x!q>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x!q>
  // expected-remark @below {{not made float: operand #2 is not a constant zero point [not-constant]}}
  %3 = tosa.matmul %x, %y, %z, %three : (tensor<1x2x3x!q>, tensor<1x3x2x!q>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x!q>
  return %0, %1, %2, %3 : tensor<1x2x3x!q>, tensor<1x2x2xi32>, tensor<1x2x2x!q>, tensor<1x2x2x!q>
}
