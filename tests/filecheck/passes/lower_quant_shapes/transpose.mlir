// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-op-generic | qdialect-opt | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>
!a = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!b = !quant.uniform<i8:f32:1, {0.5:3,0.25}>

// Both results are used, and the second is made of integers.
// CHECK-LABEL: @chain(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>> to tensor<2x3xi8>
// CHECK-NEXT:      %1 = tensor.empty() : tensor<3x2xi8>
// CHECK-NEXT:      %t = linalg.transpose ins(%0:tensor<2x3xi8>) outs(%1:tensor<3x2xi8>) permutation = [1, 0]
// CHECK-NEXT:      %2 = quant.scast %t : tensor<3x2xi8> to tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01}>>
// CHECK-NEXT:      %3 = tensor.empty() : tensor<2x3xi8>
// CHECK-NEXT:      %u = linalg.transpose ins(%t:tensor<3x2xi8>) outs(%3:tensor<2x3xi8>) permutation = [1, 0]
// CHECK-NEXT:      %4 = quant.scast %u : tensor<2x3xi8> to tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>>
// CHECK-NEXT:      func.return %2, %4 : tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01}>>, tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>>
func.func @chain(%x: tensor<2x3x!a>) -> (tensor<3x2x!b>, tensor<2x3x!a>) {
  %t = quant.transpose %x permutation = [1, 0] : tensor<2x3x!a> to tensor<3x2x!b>
  %u = quant.transpose %t permutation = [1, 0] : tensor<3x2x!b> to tensor<2x3x!a>
  return %t, %u : tensor<3x2x!b>, tensor<2x3x!a>
}

// CHECK-LABEL: @dynamic(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<?x3x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x3xi8>
// CHECK-NEXT:      %1 = arith.constant 0 : index
// CHECK-NEXT:      %2 = tensor.dim %0, %1 : tensor<?x3xi8>
// CHECK-NEXT:      %3 = tensor.empty(%2) : tensor<3x?xi8>
// CHECK-NEXT:      %t = linalg.transpose ins(%0:tensor<?x3xi8>) outs(%3:tensor<3x?xi8>) permutation = [1, 0]
// CHECK-NEXT:      %4 = quant.scast %t : tensor<3x?xi8> to tensor<3x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %4 : tensor<3x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @dynamic(%x: tensor<?x3x!p>) -> tensor<3x?x!p> {
  %t = quant.transpose %x permutation = [1, 0] : tensor<?x3x!p> to tensor<3x?x!p>
  return %t : tensor<3x?x!p>
}

// A length that only the result knows, and one that it does not.
// CHECK-LABEL: @lengths(
// CHECK-NEXT:      %0 = quant.scast %x : tensor<?x3x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<?x3xi8>
// CHECK-NEXT:      %1 = arith.constant 0 : index
// CHECK-NEXT:      %2 = tensor.dim %0, %1 : tensor<?x3xi8>
// CHECK-NEXT:      %3 = tensor.empty(%2) : tensor<3x?xi8>
// CHECK-NEXT:      %4 = linalg.transpose ins(%0:tensor<?x3xi8>) outs(%3:tensor<3x?xi8>) permutation = [1, 0]
// CHECK-NEXT:      %t = tensor.cast %4 : tensor<3x?xi8> to tensor<?x2xi8>
// CHECK-NEXT:      %5 = quant.scast %t : tensor<?x2xi8> to tensor<?x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:      func.return %5 : tensor<?x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @lengths(%x: tensor<?x3x!p>) -> tensor<?x2x!p> {
  %t = quant.transpose %x permutation = [1, 0] : tensor<?x3x!p> to tensor<?x2x!p>
  return %t : tensor<?x2x!p>
}
