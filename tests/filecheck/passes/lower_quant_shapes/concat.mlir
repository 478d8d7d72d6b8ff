// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-op-generic | qdialect-opt | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>
!a = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!joined = !quant.uniform<i8:f32:0, {0.5:3,0.25,0.5:3,0.25}>

// CHECK-LABEL: @along_the_axis(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>> to tensor<2x3xi8>
// CHECK-NEXT:      %c = tensor.concat dim(0) %0, %0 : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<4x3xi8>
// CHECK-NEXT:      %1 = quant.scast %c : tensor<4x3xi8> to tensor<4x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01,5.000000e-01:3,2.500000e-01}>>
// CHECK-NEXT:      func.return %1 : tensor<4x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01,5.000000e-01:3,2.500000e-01}>>
func.func @along_the_axis(%x: tensor<2x3x!a>) -> tensor<4x3x!joined> {
  %c = quant.concat dim(0) %x, %x : (tensor<2x3x!a>, tensor<2x3x!a>) -> tensor<4x3x!joined>
  return %c : tensor<4x3x!joined>
}

// CHECK-LABEL: @dynamic(
// CHECK-NEXT:      %0 = quant.scast %y : tensor<?x3x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x3xi8>
// CHECK-NEXT:      %1 = quant.scast %x : tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<2x?xi8>
// CHECK-NEXT:      %2 = tensor.concat dim(0) %1, %0 : (tensor<2x?xi8>, tensor<?x3xi8>) -> tensor<?x3xi8>
// CHECK-NEXT:      %c = tensor.cast %2 : tensor<?x3xi8> to tensor<?x?xi8>
// CHECK-NEXT:      %3 = quant.scast %c : tensor<?x?xi8> to tensor<?x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %3 : tensor<?x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @dynamic(%x: tensor<2x?x!p>, %y: tensor<?x3x!p>) -> tensor<?x?x!p> {
  %c = quant.concat dim(0) %x, %y : (tensor<2x?x!p>, tensor<?x3x!p>) -> tensor<?x?x!p>
  return %c : tensor<?x?x!p>
}
