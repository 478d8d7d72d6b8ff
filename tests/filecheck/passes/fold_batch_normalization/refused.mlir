// RUN: qdialect-opt %s --fold-batch-normalization --verify-diagnostics --remarks | filecheck %s

// What is a normalization and stays is told, once.
// CHECK-LABEL: @refused
func.func @refused(%x: tensor<3x2xf32>, %v: tensor<2x2xf32>, %q: tensor<2x2x!quant.uniform<i8:f32, 0.5>>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %row = stablehlo.constant dense<[[0.5, 4.0]]> : tensor<1x2xf32>
  %huge = stablehlo.constant dense<1.0e38> : tensor<3x2xf32>
  %rows = stablehlo.broadcast_in_dim %row, dims = [0, 1] : (tensor<1x2xf32>) -> tensor<3x2xf32>

  // expected-remark @+1 {{not merged: it reads an argument [not-constant]}}
  %first = stablehlo.multiply %x, %rows : tensor<3x2xf32>
  %second = stablehlo.add %first, %rows : tensor<3x2xf32>

  %shared = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  // expected-remark @+1 {{not merged: the result of 'stablehlo.dot_general' has other readers, or a recorded range [uses]}}
  %third = stablehlo.multiply %shared, %rows : tensor<3x2xf32>

  %variable = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  // expected-remark @+1 {{not merged: the weights of 'stablehlo.dot_general' are not constant [not-constant]}}
  %fourth = stablehlo.multiply %variable, %rows : tensor<3x2xf32>

  %c = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  %d = quant.dcast %c : tensor<2x2x!quant.uniform<i8:f32, 0.5>> to tensor<2x2xf32>
  %quantized = stablehlo.dot_general %x, %d, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  // expected-remark @+1 {{not merged: the weights of 'stablehlo.dot_general' are quantized [quantized]}}
  %fifth = stablehlo.multiply %quantized, %rows : tensor<3x2xf32>

  %fc = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %sine = stablehlo.sine %fc : tensor<3x2xf32>
  // expected-remark @+1 {{not merged: 'stablehlo.sine' before it is no sum of products with constant weights [unknown-op]}}
  %sixth = stablehlo.multiply %sine, %rows : tensor<3x2xf32>

  %last = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %large = stablehlo.multiply %last, %huge : tensor<3x2xf32>
  // expected-remark @+1 {{not merged: weights would not be finite [numerics]}}
  %seventh = stablehlo.multiply %large, %rows : tensor<3x2xf32>
  return %second, %third, %fourth, %fifth, %shared, %sixth, %seventh : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}
