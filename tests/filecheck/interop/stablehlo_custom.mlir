// REQUIRES: iree-opt
// RUN: iree-opt %s | filecheck %s
// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s | iree-opt | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | iree-opt | filecheck %s
// RUN: iree-opt %s --mlir-print-op-generic | qdialect-opt | iree-opt | filecheck %s

// All ops that have a custom form, with quantized elements.
!tensor = !quant.uniform<i8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>

// CHECK-LABEL: @transpose
// CHECK: stablehlo.transpose {{%.*}}, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.transpose {{%.*}}, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK: stablehlo.transpose {{%.*}}, dims = [1, 0] {note} : (tensor<?x2xf32>) -> tensor<2x3xf32>
func.func @transpose(%a: tensor<2x3x!tensor>, %b: tensor<2x3x!rows>, %c: tensor<?x2xf32>) -> (tensor<3x2x!tensor>, tensor<3x2x!columns>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!tensor>) -> tensor<3x2x!tensor>
  %1 = stablehlo.transpose %b, dims = [1, 0] : (tensor<2x3x!rows>) -> tensor<3x2x!columns>
  %2 = stablehlo.transpose %c, dims = [1, 0] {note} : (tensor<?x2xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<3x2x!tensor>, tensor<3x2x!columns>
}

// CHECK-LABEL: @reshape
// CHECK: stablehlo.reshape {{%.*}} : (tensor<2x6x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.reshape {{%.*}} : (tensor<2x6x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<2x2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
// CHECK: stablehlo.reshape {{%.*}} : (tensor<2x6x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<1x2x6x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
func.func @reshape(%a: tensor<2x6x!tensor>, %b: tensor<2x6x!rows>) -> (tensor<4x3x!tensor>, tensor<2x2x3x!rows>) {
  %0 = stablehlo.reshape %a : (tensor<2x6x!tensor>) -> tensor<4x3x!tensor>
  %1 = stablehlo.reshape %b : (tensor<2x6x!rows>) -> tensor<2x2x3x!rows>
  %2 = stablehlo.reshape %b : (tensor<2x6x!rows>) -> tensor<1x2x6x!columns>
  return %0, %1 : tensor<4x3x!tensor>, tensor<2x2x3x!rows>
}

// CHECK-LABEL: @compare
// CHECK: stablehlo.compare LT, {{%.*}}, {{%.*}}, TOTALORDER :
// CHECK: stablehlo.compare LT, {{%.*}}, {{%.*}} :
func.func @compare(%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xi1>, tensor<2xi1>) {
  %0 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  %1 = stablehlo.compare LT, %a, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return %0, %1 : tensor<2xi1>, tensor<2xi1>
}

// The arguments of a reducer stand in pairs.
// CHECK-LABEL: @reduce
// CHECK: reducer([[P:%[a-z0-9]+]]: tensor<i64>, [[Q:%[a-z0-9]+]]: tensor<i64>) ([[R:%[a-z0-9]+]]: tensor<i64>, [[S:%[a-z0-9]+]]: tensor<i64>)
// CHECK: stablehlo.add [[P]], [[Q]] :
// CHECK: stablehlo.multiply [[R]], [[S]] :
func.func @reduce(%x: tensor<4xi64>, %y: tensor<4xi64>) -> (tensor<i64>, tensor<i64>) {
  %c = stablehlo.constant dense<0> : tensor<i64>
  %1:2 = stablehlo.reduce(%x init: %c), (%y init: %c) across dimensions = [0] : (tensor<4xi64>, tensor<4xi64>, tensor<i64>, tensor<i64>) -> (tensor<i64>, tensor<i64>)
   reducer(%p: tensor<i64>, %q: tensor<i64>) (%r: tensor<i64>, %s: tensor<i64>)  {
    %2 = stablehlo.add %p, %q : tensor<i64>
    %3 = stablehlo.multiply %r, %s : tensor<i64>
    stablehlo.return %2, %3 : tensor<i64>, tensor<i64>
  }
  return %1#0, %1#1 : tensor<i64>, tensor<i64>
}

// CHECK-LABEL: @reduce_by_an_op
// It is also printed as a region.
// CHECK: stablehlo.and
func.func @reduce_by_an_op(%x: tensor<4x8xi1>, %c: tensor<i1>) -> tensor<i1> {
  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.and across dimensions = [0, 1] : (tensor<4x8xi1>, tensor<i1>) -> tensor<i1>
  return %0 : tensor<i1>
}

// CHECK-LABEL: @dynamic_broadcast_in_dim
// CHECK: stablehlo.dynamic_broadcast_in_dim {{%.*}}, {{%.*}}, dims = [0] : (tensor<2xf32>, tensor<1xi64>) -> tensor<?xf32>
func.func @dynamic_broadcast_in_dim(%x: tensor<2xf32>, %s: tensor<1xi64>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0] : (tensor<2xf32>, tensor<1xi64>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: @broadcast_in_dim
// CHECK: stablehlo.broadcast_in_dim {{%.*}}, dims = [1] : (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.broadcast_in_dim {{%.*}}, dims = [1] {note} : (tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK: stablehlo.broadcast_in_dim {{%.*}}, dims = [] : (tensor<f32>) -> tensor<2xf32>
func.func @broadcast_in_dim(%a: tensor<3x!tensor>, %b: tensor<2x!rows>, %c: tensor<f32>) {
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3x!tensor>) -> tensor<2x3x!tensor>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] {note} : (tensor<2x!rows>) -> tensor<3x2x!columns>
  %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<2xf32>
  return
}

// CHECK-LABEL: @uniform_casts
// CHECK: [[Q:%.*]] = stablehlo.uniform_quantize {{%.*}} {note} : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: [[A:%.*]] = stablehlo.uniform_quantize [[Q]] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: [[B:%.*]] = stablehlo.uniform_quantize [[A]] : tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: stablehlo.uniform_dequantize [[Q]] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3xf32>
// CHECK-NEXT: stablehlo.uniform_dequantize [[B]] {note} : (tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<?x3xf32>
func.func @uniform_casts(%a: tensor<2x3xf32>) {
  %0 = stablehlo.uniform_quantize %a {note} : (tensor<2x3xf32>) -> tensor<2x3x!tensor>
  %1 = stablehlo.uniform_quantize %0 : (tensor<2x3x!tensor>) -> tensor<2x3x!rows>
  %2 = stablehlo.uniform_quantize %1 : tensor<2x3x!rows>
  %3 = stablehlo.uniform_dequantize %0 : (tensor<2x3x!tensor>) -> tensor<2x3xf32>
  %4 = stablehlo.uniform_dequantize %2 {note} : (tensor<2x3x!rows>) -> tensor<?x3xf32>
  return
}

// StableHLO types the others per tensor only.

// CHECK-LABEL: @slice
// CHECK: stablehlo.slice {{%.*}} [1:2, 0:6:2] : (tensor<2x6x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<1x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @slice(%a: tensor<2x6x!tensor>) -> tensor<1x3x!tensor> {
  %0 = stablehlo.slice %a [1:2, 0:6:2] : (tensor<2x6x!tensor>) -> tensor<1x3x!tensor>
  return %0 : tensor<1x3x!tensor>
}

// CHECK-LABEL: @concatenate
// CHECK: stablehlo.concatenate {{%.*}}, {{%.*}}, dim = 1 : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x1x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @concatenate(%a: tensor<2x3x!tensor>, %b: tensor<2x1x!tensor>) -> tensor<2x4x!tensor> {
  %0 = stablehlo.concatenate %a, %b, dim = 1 : (tensor<2x3x!tensor>, tensor<2x1x!tensor>) -> tensor<2x4x!tensor>
  return %0 : tensor<2x4x!tensor>
}

// CHECK-LABEL: @pad
// CHECK: stablehlo.pad {{%.*}}, {{%.*}}, low = [1, 0], high = [-1, 2], interior = [0, 3] {note} : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x11x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.pad {{%.*}}, {{%.*}}, low = [1], high = [0], interior = [0] : (tensor<?xi8>, tensor<i8>) -> tensor<4xi8>
func.func @pad(%a: tensor<2x3x!tensor>, %b: tensor<!tensor>, %c: tensor<?xi8>, %d: tensor<i8>) {
  %0 = stablehlo.pad %a, %b, low = [1, 0], high = [-1, 2], interior = [0, 3] {note} : (tensor<2x3x!tensor>, tensor<!tensor>) -> tensor<2x11x!tensor>
  %1 = stablehlo.pad %c, %d, low = [1], high = [0], interior = [0] : (tensor<?xi8>, tensor<i8>) -> tensor<4xi8>
  return
}

// CHECK-LABEL: @reverse
// CHECK: stablehlo.reverse {{%.*}}, dims = [1, 0] {note} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.reverse {{%.*}}, dims = [0] : (tensor<2xf32>) -> tensor<?xf32>
func.func @reverse(%a: tensor<2x3x!tensor>, %b: tensor<2xf32>) {
  %0 = stablehlo.reverse %a, dims = [1, 0] {note} : tensor<2x3x!tensor>
  %1 = stablehlo.reverse %b, dims = [0] : (tensor<2xf32>) -> tensor<?xf32>
  return
}

// It has no custom form.
// CHECK-LABEL: @gather
// CHECK: "stablehlo.gather"({{%.*}}, {{%.*}}) <{
// CHECK-SAME: dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>
// CHECK-SAME: : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x1xi32>) -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @gather(%a: tensor<2x3x!tensor>, %at: tensor<2x1xi32>) -> tensor<2x2x!tensor> {
  %0 = "stablehlo.gather"(%a, %at) <{
    dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>,
    indices_are_sorted = false, slice_sizes = array<i64: 2, 1>
  }> : (tensor<2x3x!tensor>, tensor<2x1xi32>) -> tensor<2x2x!tensor>
  return %0 : tensor<2x2x!tensor>
}

// The custom form with one type is for a constant that is not quantized. Integers of unsigned storage
// have no sign.
// CHECK-LABEL: @constant
// CHECK: stablehlo.constant dense<[1, 2]> : tensor<2xi32>
// CHECK: stablehlo.constant {note} dense<1.500000e+00> : tensor<bf16>
// CHECK: stablehlo.constant() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.constant() <{value = dense<[1, 2]> : tensor<2xi8>}> {note} : () -> tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
// CHECK: stablehlo.constant() <{value = dense<[1, -56]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<u8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.constant() <{value = dense<7> : tensor<i4>}> : () -> tensor<!quant.uniform<i4:f32, 5.000000e-01>>
// CHECK: stablehlo.constant dense_resource<weights> : tensor<2xi8>
// CHECK: stablehlo.constant() <{value = dense_resource<weights> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @constant() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = stablehlo.constant {note} dense<1.5> : tensor<bf16>
  %2 = stablehlo.constant() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!tensor>
  %3 = stablehlo.constant() {note, value = dense<[1, 2]> : tensor<2xi8>} : () -> tensor<2x!rows>
  %4 = stablehlo.constant() <{value = dense<[1, 200]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<u8:f32, 0.5:3>>
  %5 = "stablehlo.constant"() <{value = dense<7> : tensor<i4>}> : () -> tensor<!quant.uniform<i4:f32, 0.5>>
  %6 = stablehlo.constant dense_resource<weights> : tensor<2xi8>
  %7 = stablehlo.constant() <{value = dense_resource<weights> : tensor<2xi8>}> : () -> tensor<2x!tensor>
  return
}

// CHECK: weights: "0x010000000102"
{-# dialect_resources: { builtin: { weights: "0x010000000102" } } #-}
