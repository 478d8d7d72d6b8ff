// RUN: qdialect-opt %s --fake-quantize --remarks --verify-diagnostics | filecheck %s
// RUN: qdialect-opt %s --fake-quantize | qdialect-opt --fake-quantize | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8:f32:0, {0.5,0.25}>
!bias = !quant.uniform<i32:f32:0, {0.25,0.125}>
!sum = !quant.uniform<i32:f32:3, {0.25,0.125}>

// Zero points and accumulators of integers become those of floats. Constants are read where they are.
// CHECK-LABEL: @conv2d
// CHECK-NEXT:    %0 = quant.dcast %x
// CHECK-NEXT:    %w = "tosa.const"() <{values = dense<1> : tensor<2x1x1x1xi8>}>
// CHECK-NEXT:    %1 = quant.dcast %w
// CHECK-NEXT:    %b = "tosa.const"()
// CHECK-NEXT:    %2 = quant.dcast %b : {{.*}} to tensor<2xf32>
// CHECK-NEXT:    %[[ZX:.*]] = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
// CHECK-NEXT:    %[[ZW:.*]] = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
// CHECK-NEXT:    %c = tosa.conv2d %0, %1, %2, %[[ZX]], %[[ZW]] {acc_type = f32, {{.*}} -> tensor<1x4x4x2xf32>
// CHECK-NEXT:    %{{.*}} = quant.qcast %c : tensor<1x4x4x2xf32> to tensor<1x4x4x2x!quant.uniform<i32:f32:3, {2.500000e-01,1.250000e-01}>>
func.func @conv2d(%x: tensor<1x4x4x1x!q>) -> tensor<1x4x4x2x!sum> {
  %w = "tosa.const"() <{values = dense<1> : tensor<2x1x1x1xi8>}> : () -> tensor<2x1x1x1x!w>
  %b = "tosa.const"() <{values = dense<[5, 6]> : tensor<2xi32>}> : () -> tensor<2x!bias>
  %zx = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zw = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-remark @below {{made float 'tosa.conv2d': it is between casts, and computes on floats}}
  %c = tosa.conv2d %x, %w, %b, %zx, %zw {acc_type = i32, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>} : (tensor<1x4x4x1x!q>, tensor<2x1x1x1x!w>, tensor<2x!bias>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x4x2x!sum>
  return %c : tensor<1x4x4x2x!sum>
}

// What only moves values stays, and so do casts. A value that is computed with twice is read once.
// CHECK-LABEL: @moved
// CHECK-NEXT:    %t = quant.transpose %x
// CHECK-NEXT:    %r = quant.requantize %t
// CHECK-NEXT:    %0 = quant.dcast %r
// CHECK-NEXT:    %c = tensor.concat dim(0) %r, %r
// CHECK-NEXT:    %a = tosa.add %0, %0 : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:    %1 = quant.qcast %a
// CHECK-NEXT:    %2 = quant.dcast %1
// CHECK-NEXT:    %s = tosa.sigmoid %2 : (tensor<3x2xf32>) -> tensor<3x2xf32>
// CHECK-NEXT:    %3 = quant.qcast %s
// CHECK-NEXT:    func.return %3, %c
func.func @moved(%x: tensor<2x3x!q>) -> (tensor<3x2x!q>, tensor<6x2x!q>) {
  %t = quant.transpose %x permutation = [1, 0] : tensor<2x3x!q> to tensor<3x2x!q>
  %r = quant.requantize %t : tensor<3x2x!q> to tensor<3x2x!q>
  %c = tensor.concat dim(0) %r, %r : (tensor<3x2x!q>, tensor<3x2x!q>) -> tensor<6x2x!q>
  // expected-remark @below {{made float 'tosa.add'}}
  %a = tosa.add %r, %r : (tensor<3x2x!q>, tensor<3x2x!q>) -> tensor<3x2x!q>
  // expected-remark @below {{made float 'tosa.sigmoid'}}
  %s = tosa.sigmoid %a : (tensor<3x2x!q>) -> tensor<3x2x!q>
  return %s, %c : tensor<3x2x!q>, tensor<6x2x!q>
}

// A region changes with its op.
// CHECK-LABEL: @reduce
// CHECK-NEXT:    %0 = quant.dcast %x
// CHECK-NEXT:    %i = stablehlo.constant()
// CHECK-NEXT:    %1 = quant.dcast %i : {{.*}} to tensor<f32>
// CHECK-NEXT:    %m = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
// CHECK-NEXT:    %2 = quant.qcast %m
func.func @reduce(%x: tensor<2x3x!q>) -> tensor<2x!q> {
  %i = "stablehlo.constant"() <{value = dense<-128> : tensor<i8>}> : () -> tensor<!q>
  // expected-remark @below {{made float 'stablehlo.reduce'}}
  %m = "stablehlo.reduce"(%x, %i) <{dimensions = array<i64: 1>}> ({
  ^bb0(%a: tensor<!q>, %b: tensor<!q>):
    %k = "stablehlo.maximum"(%a, %b) : (tensor<!q>, tensor<!q>) -> tensor<!q>
    "stablehlo.return"(%k) : (tensor<!q>) -> ()
  }) : (tensor<2x3x!q>, tensor<!q>) -> tensor<2x!q>
  return %m : tensor<2x!q>
}
