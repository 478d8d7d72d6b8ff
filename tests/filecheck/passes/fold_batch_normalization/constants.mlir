// RUN: qdialect-opt %s --fold-batch-normalization --remarks 2>&1 | filecheck %s

// The exponent of a root is one number, as StableHLO's form of torch writes it.
// CHECK:       remark: merged 'stablehlo.power': an operand was computed from constants
// CHECK-LABEL: @root
// CHECK-NEXT:    %half = stablehlo.constant dense<5.000000e-01> : tensor<2x4xf32>
// CHECK-NEXT:    %root = stablehlo.power %x, %half : tensor<2x4xf32>
// CHECK-NEXT:    return
func.func @root(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %two = arith.constant dense<2> : tensor<1xi64>
  %number = stablehlo.convert %two : (tensor<1xi64>) -> tensor<1xf32>
  %scalar = stablehlo.reshape %number : (tensor<1xf32>) -> tensor<f32>
  %quotient = stablehlo.divide %one, %scalar : tensor<f32>
  %half = stablehlo.broadcast_in_dim %quotient, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
  %root = stablehlo.power %x, %half : tensor<2x4xf32>
  return %root : tensor<2x4xf32>
}

// Codes that arithmetic dequantizes stay codes, and moved or repeated constants stay as they are. A table that would be
// larger than its rows and columns stays computed.
// CHECK-LABEL: @kept
// CHECK:         %codes = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi8>
// CHECK:         stablehlo.convert %codes
// CHECK:         stablehlo.transpose
// CHECK:         %table = stablehlo.add
func.func @kept(%x: tensor<4xf32>, %y: tensor<2x4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %codes = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi8>
  %scale = stablehlo.constant dense<0.5> : tensor<4xf32>
  %floats = stablehlo.convert %codes : (tensor<4xi8>) -> tensor<4xf32>
  %numbers = stablehlo.multiply %floats, %scale : tensor<4xf32>
  %sum = stablehlo.add %x, %numbers : tensor<4xf32>
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %moved = stablehlo.transpose %w, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
  %product = stablehlo.multiply %y, %moved : tensor<2x4xf32>
  %row = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %column = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %rows = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
  %columns = stablehlo.broadcast_in_dim %column, dims = [0] : (tensor<2xf32>) -> tensor<2x4xf32>
  %table = stablehlo.add %rows, %columns : tensor<2x4xf32>
  %other = stablehlo.subtract %y, %table : tensor<2x4xf32>
  return %sum, %product, %other : tensor<4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}
