// RUN: qdialect-opt %s --fold-batch-normalization | filecheck %s

// Numbers of a narrower type stay: those computed from them would take more memory.
// CHECK-LABEL: @narrow
// CHECK:         stablehlo.convert
// CHECK-NEXT:    stablehlo.multiply
func.func @narrow(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [-3.0, 4.0]]> : tensor<2x2xf8E4M3FN>
  %row = stablehlo.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %scales = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
  %floats = stablehlo.convert %w : (tensor<2x2xf8E4M3FN>) -> tensor<2x2xf32>
  %scaled = stablehlo.multiply %floats, %scales : tensor<2x2xf32>
  %0 = stablehlo.dot_general %x, %scaled, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// So do those of a wider type.
// CHECK-LABEL: @wide
// CHECK:         stablehlo.convert
func.func @wide(%x: tensor<3x2xbf16>) -> tensor<3x2xbf16> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %floats = stablehlo.convert %w : (tensor<3x2xf32>) -> tensor<3x2xbf16>
  %0 = stablehlo.add %x, %floats : tensor<3x2xbf16>
  return %0 : tensor<3x2xbf16>
}

// One number of another type is read.
// CHECK-LABEL: @single
// CHECK-NEXT:    stablehlo.constant dense<[2.000000e+00, 4.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    stablehlo.add
func.func @single(%x: tensor<2xf32>) -> tensor<2xf32> {
  %n = stablehlo.constant dense<2.0> : tensor<1xf16>
  %w = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %f = stablehlo.convert %n : (tensor<1xf16>) -> tensor<1xf32>
  %b = stablehlo.broadcast_in_dim %f, dims = [0] : (tensor<1xf32>) -> tensor<2xf32>
  %s = stablehlo.multiply %b, %w : tensor<2xf32>
  %0 = stablehlo.add %x, %s : tensor<2xf32>
  return %0 : tensor<2xf32>
}
