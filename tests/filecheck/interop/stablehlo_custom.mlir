// REQUIRES: iree-opt, xdsl-jax
// RUN: iree-opt %s | filecheck %s
// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s | iree-opt | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | iree-opt | filecheck %s
// RUN: iree-opt %s --mlir-print-op-generic | qdialect-opt | iree-opt | filecheck %s

// The ops that xdsl-jax reads in custom form, with quantized elements.
!tensor = !quant.uniform<i8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>

// CHECK-LABEL: @transpose
// CHECK: stablehlo.transpose {{%.*}}, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.transpose {{%.*}}, dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
func.func @transpose(%a: tensor<2x3x!tensor>, %b: tensor<2x3x!rows>) -> (tensor<3x2x!tensor>, tensor<3x2x!columns>) {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3x!tensor>) -> tensor<3x2x!tensor>
  %1 = stablehlo.transpose %b, dims = [1, 0] : (tensor<2x3x!rows>) -> tensor<3x2x!columns>
  return %0, %1 : tensor<3x2x!tensor>, tensor<3x2x!columns>
}

// CHECK-LABEL: @reshape
// CHECK: stablehlo.reshape {{%.*}} : (tensor<2x6x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.reshape {{%.*}} : (tensor<2x6x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<2x2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
func.func @reshape(%a: tensor<2x6x!tensor>, %b: tensor<2x6x!rows>) -> (tensor<4x3x!tensor>, tensor<2x2x3x!rows>) {
  %0 = stablehlo.reshape %a : (tensor<2x6x!tensor>) -> tensor<4x3x!tensor>
  %1 = stablehlo.reshape %b : (tensor<2x6x!rows>) -> tensor<2x2x3x!rows>
  return %0, %1 : tensor<4x3x!tensor>, tensor<2x2x3x!rows>
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

// CHECK-LABEL: @broadcast_in_dim
// CHECK: stablehlo.broadcast_in_dim {{%.*}}, dims = [1] : (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @broadcast_in_dim(%a: tensor<3x!tensor>) -> tensor<2x3x!tensor> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<3x!tensor>) -> tensor<2x3x!tensor>
  return %0 : tensor<2x3x!tensor>
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

// The custom form with one type is for a constant that is not quantized.
// CHECK-LABEL: @constant
// CHECK: stablehlo.constant dense<[1, 2]> : tensor<2xi32>
// CHECK: stablehlo.constant{{"?}}() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK: stablehlo.constant{{"?}}() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
func.func @constant() -> (tensor<2xi32>, tensor<2x!tensor>, tensor<2x!rows>) {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %1 = "stablehlo.constant"() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!tensor>
  %2 = "stablehlo.constant"() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!rows>
  return %0, %1, %2 : tensor<2xi32>, tensor<2x!tensor>, tensor<2x!rows>
}
