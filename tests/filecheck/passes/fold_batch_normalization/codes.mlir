// RUN: qdialect-opt %s --fold-batch-normalization=of-codes=true --split-input-file --remarks 2>&1 | filecheck %s
// RUN: qdialect-opt %s --fold-batch-normalization=of-codes=true --split-input-file --remarks 2>&1 >%t | filecheck %s --check-prefix=TOLD
// RUN: qdialect-opt %s --fold-batch-normalization --split-input-file | filecheck %s --check-prefix=KEPT

// Weights that arithmetic makes of integers are floats, with a factor behind the layer in them.
// CHECK:       remark: merged 'stablehlo.dot_general'
// CHECK-LABEL: @weights
// CHECK-NEXT:    %weight = stablehlo.constant dense<{{\[\[}}2.000000e+00, -1.000000e+01], [6.000000e+00, 2.000000e+01]]> : tensor<2x2xf32>
// CHECK-NEXT:    %result = stablehlo.dot_general %x, %weight
// CHECK-NEXT:    return %result
// KEPT-LABEL:  @weights
// KEPT:          stablehlo.convert
func.func @weights(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %codes = stablehlo.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>
  %scale = stablehlo.constant dense<[0.5, 1.25]> : tensor<2xf32>
  %floats = stablehlo.convert %codes : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %scales = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
  %weight = stablehlo.multiply %floats, %scales : tensor<2x2xf32>
  %sums = stablehlo.dot_general %x, %weight, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %factor = stablehlo.constant dense<4.0> : tensor<2xf32>
  %factors = stablehlo.broadcast_in_dim %factor, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
  %result = stablehlo.multiply %sums, %factors : tensor<3x2xf32>
  return %result : tensor<3x2xf32>
}

// -----

// The model has parameters of activations, too: all stay as they are.
// CHECK-LABEL: @activations
// CHECK:         %codes = stablehlo.constant dense<[
// CHECK:         stablehlo.multiply %floats, %scales
// KEPT-LABEL:  @activations
func.func @activations(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %codes = stablehlo.constant dense<[[1, -2], [3, 4]]> : tensor<2x2xi8>
  %scale = stablehlo.constant dense<[0.5, 1.25]> : tensor<2xf32>
  %floats = stablehlo.convert %codes : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %scales = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
  %weight = stablehlo.multiply %floats, %scales : tensor<2x2xf32>
  %q = stablehlo.convert %x : (tensor<3x2xf32>) -> tensor<3x2xi8>
  %d = stablehlo.convert %q : (tensor<3x2xi8>) -> tensor<3x2xf32>
  %sums = stablehlo.dot_general %d, %weight, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %sums : tensor<3x2xf32>
}

// -----

// Codes of the smaller channel would be too coarse before the factors.
// TOLD:        remark: not merged: codes of the input of 'stablehlo.dot_general' would be coarse for some channels [numerics]
// CHECK-LABEL: @ranges_that_differ
// CHECK:         stablehlo.multiply %x
// KEPT-LABEL:  @ranges_that_differ
// KEPT-NOT:      stablehlo.multiply
func.func @ranges_that_differ(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %factor = stablehlo.constant dense<[1.0, 8.0]> : tensor<2xf32>
  %factors = stablehlo.broadcast_in_dim %factor, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
  %scaled = stablehlo.multiply %x, %factors : tensor<3x2xf32>
  %weight = stablehlo.constant dense<[[1.0, -2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %sums = stablehlo.dot_general %scaled, %weight, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %sums : tensor<3x2xf32>
}

// -----

// CHECK-LABEL: @ranges_that_are_alike
// CHECK-NOT:     stablehlo.multiply
// KEPT-LABEL:  @ranges_that_are_alike
func.func @ranges_that_are_alike(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %factor = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %factors = stablehlo.broadcast_in_dim %factor, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
  %scaled = stablehlo.multiply %x, %factors : tensor<3x2xf32>
  %weight = stablehlo.constant dense<[[1.0, -2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %sums = stablehlo.dot_general %scaled, %weight, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %sums : tensor<3x2xf32>
}
