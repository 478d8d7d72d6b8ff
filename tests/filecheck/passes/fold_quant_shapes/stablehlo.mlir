// In generic form, with properties, and with attributes as older text has them. What is printed is
// in custom form where there is a dialect.
// RUN: qdialect-opt %s --fold-quant-shapes --allow-unregistered-dialect | filecheck %s
// RUN: sed -e 's/<{/{/' -e 's/}> :/} :/' %s | qdialect-opt --fold-quant-shapes --allow-unregistered-dialect | sed -e 's/() {value/() <{value/' -e 's/} : ()/}> : ()/' | filecheck %s

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>

// CHECK-LABEL: @chain
// CHECK-NEXT: %w = {{"?}}stablehlo.constant{{"?}}() <{value = dense<{{\[\[}}6, 3], [5, 2], [4, 1]]> : tensor<3x2xi8>}> : () -> tensor<3x2x!quant.uniform<i8:f32:1, {2.500000e-01:3,5.000000e-01}>>
// CHECK-NEXT: {{"?}}stablehlo.uniform_dequantize{{"?[( ]}}%w{{\)?}} : (tensor<3x2x{{.*}}) -> tensor<3x2xf32>
// CHECK-NEXT: return
func.func @chain() -> tensor<3x2xf32> {
  %w = "stablehlo.constant"() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = "stablehlo.uniform_dequantize"(%w) : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %t = "stablehlo.transpose"(%f) <{permutation = array<i64: 1, 0>}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %r = "stablehlo.reverse"(%t) <{dimensions = array<i64: 0, 1>}> : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %r : tensor<3x2xf32>
}

// Blocks along one axis are spelled per-axis, which is all that StableHLO has.
// CHECK-LABEL: @blocks_along_one_axis
// CHECK-NEXT: dense<[1, 2, 3, 4]> : tensor<4xi8>}> : () -> tensor<4x!quant.uniform<i8:f32:0, {5.000000e-01,5.000000e-01,2.500000e-01:3,2.500000e-01:3}>>
func.func @blocks_along_one_axis() -> tensor<4xf32> {
  %w = "stablehlo.constant"() <{value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!rows>
  %f = "stablehlo.uniform_dequantize"(%w) : (tensor<2x2x!rows>) -> tensor<2x2xf32>
  %r = "stablehlo.reshape"(%f) : (tensor<2x2xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Two axes of blocks are not a type of StableHLO. What is behind them may be one: then the chain
// folds, and only what is in between cannot be written.
// CHECK-LABEL: @through_a_type_that_cannot_be_spelled
// CHECK: {{"?}}stablehlo.reshape{{"?}}
// CHECK-NEXT: {{"?}}stablehlo.constant{{"?}}() <{value = dense<{{\[\[}}1], [2]]> : tensor<2x1xi8>}> : () -> tensor<2x1x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
!four = !quant.uniform<i8:f32:0, {0.5,0.25:3,1.0,2.0}>
func.func @through_a_type_that_cannot_be_spelled() -> (tensor<2x1xf32>, tensor<2x2xf32>) {
  %w = "stablehlo.constant"() <{value = dense<[1, 2, 3, 4]> : tensor<4xi8>}> : () -> tensor<4x!four>
  %f = "stablehlo.uniform_dequantize"(%w) : (tensor<4x!four>) -> tensor<4xf32>
  %r = "stablehlo.reshape"(%f) : (tensor<4xf32>) -> tensor<2x2xf32>
  %s = "stablehlo.slice"(%r) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 2>, strides = array<i64: 1, 1>}> : (tensor<2x2xf32>) -> tensor<1x2xf32>
  %t = "stablehlo.transpose"(%s) <{permutation = array<i64: 1, 0>}> : (tensor<1x2xf32>) -> tensor<2x1xf32>
  return %t, %r : tensor<2x1xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: @concatenate
// CHECK-NEXT: dense<[1, 2, 3]> : tensor<3xi8>}> : () -> tensor<3x!quant.uniform<i8:f32:0, {5.000000e-01,5.000000e-01,2.500000e-01:3}>>
func.func @concatenate() -> tensor<3xf32> {
  %w = "stablehlo.constant"() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  %v = "stablehlo.constant"() <{value = dense<3> : tensor<1xi8>}> : () -> tensor<1x!quant.uniform<i8:f32, 0.25:3>>
  %f = "stablehlo.uniform_dequantize"(%w) : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xf32>
  %g = "stablehlo.uniform_dequantize"(%v) : (tensor<1x!quant.uniform<i8:f32, 0.25:3>>) -> tensor<1xf32>
  %c = "stablehlo.concatenate"(%f, %g) <{dimension = 0 : i64}> : (tensor<2xf32>, tensor<1xf32>) -> tensor<3xf32>
  return %c : tensor<3xf32>
}

// CHECK-LABEL: @broadcast_in_dim
// CHECK-NEXT: dense<{{\[\[}}1, 1], [2, 2]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
func.func @broadcast_in_dim() -> tensor<2x2xf32> {
  %w = "stablehlo.constant"() <{value = dense<[1, 2]> : tensor<2xi8>}> : () -> tensor<2x!rows>
  %f = "stablehlo.uniform_dequantize"(%w) : (tensor<2x!rows>) -> tensor<2xf32>
  %b = "stablehlo.broadcast_in_dim"(%f) <{broadcast_dimensions = array<i64: 0>}> : (tensor<2xf32>) -> tensor<2x2xf32>
  return %b : tensor<2x2xf32>
}

// One position before, one between, and one taken away at the end.
// CHECK-LABEL: @pad
// CHECK-NEXT: dense<{{\[\[}}0, 1, 0, 2, 0], [3, 4, 3, 5, 3]]> : tensor<2x5xi8>}> : () -> tensor<2x5x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: dequantize
// CHECK-NEXT: return
func.func @pad() -> tensor<2x5xf32> {
  %w = "stablehlo.constant"() <{value = dense<[[1, 2, 9], [4, 5, 9]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!rows>
  %f = "stablehlo.uniform_dequantize"(%w) : (tensor<2x3x!rows>) -> tensor<2x3xf32>
  %zero = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
  %p = "stablehlo.pad"(%f, %zero) <{edge_padding_low = array<i64: 0, 1>, edge_padding_high = array<i64: 0, -1>, interior_padding = array<i64: 0, 1>}> : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x5xf32>
  return %p : tensor<2x5xf32>
}

// Indices out of range are clamped, as the specification says.
// CHECK-LABEL: @gather
// CHECK-NEXT: dense<{{\[\[}}5, 1], [6, 2]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!quant.uniform<i8:f32:1, {2.000000e+00,5.000000e-01}>>
// CHECK-NEXT: dequantize
// CHECK-NEXT: return
func.func @gather() -> tensor<2x2xf32> {
  %w = "stablehlo.constant"() <{value = dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>}> : () -> tensor<3x2x!quant.uniform<i8:f32:0, {0.5,0.25:3,2.0}>>
  %f = "stablehlo.uniform_dequantize"(%w) : (tensor<3x2x!quant.uniform<i8:f32:0, {0.5,0.25:3,2.0}>>) -> tensor<3x2xf32>
  %i = "stablehlo.constant"() <{value = dense<[7, -1]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %g = "stablehlo.gather"(%f, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>, indices_are_sorted = false}> : (tensor<3x2xf32>, tensor<2xi32>) -> tensor<2x2xf32>
  return %g : tensor<2x2xf32>
}

// The quantized side.
// CHECK-LABEL: @quantized_side
// CHECK-NEXT: dense<{{\[\[}}1, 3], [2, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT: return
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
func.func @quantized_side() -> tensor<2x2x!columns> {
  %w = "stablehlo.constant"() <{value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!rows>
  %t = "stablehlo.transpose"(%w) <{permutation = array<i64: 1, 0>}> : (tensor<2x2x!rows>) -> tensor<2x2x!columns>
  return %t : tensor<2x2x!columns>
}
