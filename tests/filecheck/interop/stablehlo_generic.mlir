// REQUIRES: iree-opt
// RUN: iree-opt %s | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect --print-op-generic | iree-opt | filecheck %s
// RUN: iree-opt %s --mlir-print-op-generic | qdialect-opt --allow-unregistered-dialect --print-op-generic | iree-opt | filecheck %s

// Without a stablehlo dialect, its ops are read in generic form, with properties or attributes.
!tensor = !quant.uniform<i8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>

// CHECK: @per_tensor([[A:%.*]]: tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, [[AT:%.*]]: tensor<2x1xi32>)
func.func @per_tensor(%a: tensor<2x3x!tensor>, %at: tensor<2x1xi32>) {
  // CHECK-NEXT: stablehlo.constant() <{value = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %0 = "stablehlo.constant"() <{value = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2x!tensor>
  // CHECK-NEXT: stablehlo.transpose [[A]], dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = "stablehlo.transpose"(%a) <{permutation = array<i64: 1, 0>}> : (tensor<2x3x!tensor>) -> tensor<3x2x!tensor>
  // CHECK-NEXT: stablehlo.reshape [[A]] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<6x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %2 = "stablehlo.reshape"(%a) : (tensor<2x3x!tensor>) -> tensor<6x!tensor>
  // CHECK-NEXT: stablehlo.slice [[A]] [1:2, 0:3:2] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<1x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %3 = "stablehlo.slice"(%a) <{limit_indices = array<i64: 2, 3>, start_indices = array<i64: 1, 0>, strides = array<i64: 1, 2>}> : (tensor<2x3x!tensor>) -> tensor<1x2x!tensor>
  // CHECK-NEXT: stablehlo.concatenate [[A]], [[A]], dim = 1 :
  %4 = "stablehlo.concatenate"(%a, %a) <{dimension = 1 : i64}> : (tensor<2x3x!tensor>, tensor<2x3x!tensor>) -> tensor<2x6x!tensor>
  // CHECK-NEXT: stablehlo.broadcast_in_dim [[A]], dims = [0, 2] :
  %5 = "stablehlo.broadcast_in_dim"(%a) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<2x3x!tensor>) -> tensor<2x4x3x!tensor>
  // CHECK-NEXT: stablehlo.reverse [[A]], dims = [1] : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %6 = "stablehlo.reverse"(%a) <{dimensions = array<i64: 1>}> : (tensor<2x3x!tensor>) -> tensor<2x3x!tensor>
  // CHECK-NEXT: "stablehlo.gather"([[A]], [[AT]]) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 2, 1>}>
  %7 = "stablehlo.gather"(%a, %at) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 2, 1>}> : (tensor<2x3x!tensor>, tensor<2x1xi32>) -> tensor<2x2x!tensor>
  // CHECK-NEXT: stablehlo.uniform_dequantize [[A]] : (tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x3xf32>
  %8 = "stablehlo.uniform_dequantize"(%a) : (tensor<2x3x!tensor>) -> tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.uniform_quantize {{%.*}} : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %9 = "stablehlo.uniform_quantize"(%8) : (tensor<2x3xf32>) -> tensor<2x3x!tensor>
  // CHECK-NEXT: stablehlo.convert {{%.*}} : (tensor<2x1xi32>) -> tensor<2x1xf32>
  %10 = "stablehlo.convert"(%at) : (tensor<2x1xi32>) -> tensor<2x1xf32>
  return
}

// CHECK: @per_axis([[A:%.*]]: tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>)
func.func @per_axis(%a: tensor<2x3x!rows>) {
  // CHECK-NEXT: stablehlo.constant() <{value = dense<[1, -2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
  %0 = "stablehlo.constant"() {value = dense<[1, -2]> : tensor<2xi8>} : () -> tensor<2x!rows>
  // CHECK-NEXT: stablehlo.transpose [[A]], dims = [1, 0] : (tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
  %1 = "stablehlo.transpose"(%a) {permutation = array<i64: 1, 0>} : (tensor<2x3x!rows>) -> tensor<3x2x!columns>
  // CHECK-NEXT: stablehlo.reshape [[A]] : (tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<2x1x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
  %2 = "stablehlo.reshape"(%a) : (tensor<2x3x!rows>) -> tensor<2x1x3x!rows>
  // CHECK-NEXT: stablehlo.uniform_dequantize [[A]] : (tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>) -> tensor<2x3xf32>
  %3 = "stablehlo.uniform_dequantize"(%a) : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  // CHECK-NEXT: stablehlo.uniform_quantize {{%.*}} : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
  %4 = "stablehlo.uniform_quantize"(%3) : (tensor<2x3xf32>) -> tensor<2x3x!rows>
  return
}
