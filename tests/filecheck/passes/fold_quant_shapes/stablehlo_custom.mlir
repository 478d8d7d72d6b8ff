// REQUIRES: iree-opt
// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --fold-quant-shapes | iree-opt | filecheck %s
// RUN: iree-opt %s | qdialect-opt --fold-quant-shapes | filecheck %s

// In custom form. StableHLO's own tool prints what is folded here, and reads what is folded.
!tensor = !quant.uniform<i8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>

// CHECK-LABEL: @transpose()
// CHECK-NEXT: [[W:%.*]] = stablehlo.constant() <{value = dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xi8>}> : () -> tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: [[F:%.*]] = stablehlo.uniform_dequantize [[W]] : (tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>) -> tensor<3x2xf32>
// CHECK-NEXT: return [[F]]
func.func @transpose() -> tensor<3x2xf32> {
  %w = stablehlo.constant() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = stablehlo.uniform_dequantize %w : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %r = stablehlo.transpose %f, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// 1.0 is stored as 2 and as 7; a new row reads the slot of the nearest one.
// CHECK-LABEL: @pad()
// CHECK-NEXT: [[W:%.*]] = stablehlo.constant() <{value = dense<{{\[\[}}2, 1, 2, 2, 2], [7, 4, 7, 5, 7], [7, 7, 7, 7, 7]]> : tensor<3x5xi8>}> : () -> tensor<3x5x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3,2.500000e-01:3}>>
// CHECK-NEXT: [[F:%.*]] = stablehlo.uniform_dequantize [[W]] : (tensor<3x5x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3,2.500000e-01:3}>>) -> tensor<3x5xf32>
// CHECK-NEXT: return [[F]]
func.func @pad() -> tensor<3x5xf32> {
  %w = stablehlo.constant() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = stablehlo.uniform_dequantize %w : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %r = stablehlo.pad %f, %one, low = [0, 1], high = [1, -1], interior = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}

// With a code, which need not be the zero point.
// CHECK-LABEL: @pad_stored()
// CHECK-NEXT: [[W:%.*]] = stablehlo.constant() <{value = dense<[7, 1, 7, 2]> : tensor<4xi8>}> : () -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: return [[W]]
func.func @pad_stored() -> tensor<4x!tensor> {
  %w = stablehlo.constant() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!tensor>
  %code = stablehlo.constant() <{value = dense<7> : tensor<i8>}> : () -> tensor<!tensor>
  %r = stablehlo.pad %w, %code, low = [1], high = [0], interior = [1] : (tensor<2x!tensor>, tensor<!tensor>) -> tensor<4x!tensor>
  return %r : tensor<4x!tensor>
}

// CHECK-LABEL: @reverse()
// CHECK-NEXT: [[W:%.*]] = stablehlo.constant() <{value = dense<{{\[\[}}6, 5, 4], [3, 2, 1]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!quant.uniform<i8:f32:0, {2.500000e-01:3,5.000000e-01}>>
// CHECK-NEXT: [[F:%.*]] = stablehlo.uniform_dequantize [[W]] : (tensor<2x3x!quant.uniform<i8:f32:0, {2.500000e-01:3,5.000000e-01}>>) -> tensor<2x3xf32>
// CHECK-NEXT: return [[F]]
func.func @reverse() -> tensor<2x3xf32> {
  %w = stablehlo.constant() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = stablehlo.uniform_dequantize %w : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %r = stablehlo.reverse %f, dims = [0, 1] : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: @slice()
// CHECK-NEXT: [[W:%.*]] = stablehlo.constant() <{value = dense<{{\[\[}}4, 6]]> : tensor<1x2xi8>}> : () -> tensor<1x2x!quant.uniform<i8:f32, 2.500000e-01:3>>
// CHECK-NEXT: [[F:%.*]] = stablehlo.uniform_dequantize [[W]] : (tensor<1x2x!quant.uniform<i8:f32, 2.500000e-01:3>>) -> tensor<1x2xf32>
// CHECK-NEXT: return [[F]]
func.func @slice() -> tensor<1x2xf32> {
  %w = stablehlo.constant() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = stablehlo.uniform_dequantize %w : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %r = stablehlo.slice %f [1:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<1x2xf32>
  return %r : tensor<1x2xf32>
}

// CHECK-LABEL: @concatenate()
// CHECK-NEXT: [[W:%.*]] = stablehlo.constant() <{value = dense<{{\[\[}}1, 2, 3], [4, 5, 6], [7, 8, 9]]> : tensor<3x3xi8>}> : () -> tensor<3x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3,5.000000e-01:3}>>
// CHECK-NEXT: [[F:%.*]] = stablehlo.uniform_dequantize [[W]] : (tensor<3x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3,5.000000e-01:3}>>) -> tensor<3x3xf32>
// CHECK-NEXT: return [[F]]
func.func @concatenate() -> tensor<3x3xf32> {
  %w = stablehlo.constant() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = stablehlo.uniform_dequantize %w : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %v = stablehlo.constant() <{value = dense<[[7, 8, 9]]> : tensor<1x3xi8>}> : () -> tensor<1x3x!tensor>
  %g = stablehlo.uniform_dequantize %v : (tensor<1x3x!tensor>) -> tensor<1x3xf32>
  %r = stablehlo.concatenate %f, %g, dim = 0 : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
  return %r : tensor<3x3xf32>
}

// On the quantized side, where the axis gets another number.
// CHECK-LABEL: @broadcast_in_dim()
// CHECK-NEXT: [[W:%.*]] = stablehlo.constant() <{value = dense<{{\[\[}}1, 2], [1, 2], [1, 2]]> : tensor<3x2xi8>}> : () -> tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: return [[W]]
func.func @broadcast_in_dim() -> tensor<3x2x!columns> {
  %w = stablehlo.constant() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!rows>
  %r = stablehlo.broadcast_in_dim %w, dims = [1] : (tensor<2x!rows>) -> tensor<3x2x!columns>
  return %r : tensor<3x2x!columns>
}

// CHECK-LABEL: @reshape()
// CHECK-NEXT: [[W:%.*]] = stablehlo.constant() <{value = dense<{{\[\[}}[1, 2, 3], [4, 5, 6]]]> : tensor<1x2x3xi8>}> : () -> tensor<1x2x3x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: return [[W]]
func.func @reshape() -> tensor<1x2x3x!columns> {
  %w = stablehlo.constant() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %r = stablehlo.reshape %w : (tensor<2x3x!rows>) -> tensor<1x2x3x!columns>
  return %r : tensor<1x2x3x!columns>
}
