// RUN: qdialect-opt %s | qdialect-opt | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s

// CHECK-LABEL: @ranges
// CHECK-NEXT:    %0 = quant.stats %x {layerStats = dense<[-1.000000e+00, 2.000000e+00]> : tensor<2xf32>} : tensor<2x3xf32>
// CHECK-NEXT:    %1 = quant.stats %0 {axis = 1 : i64, axisStats = dense<[{{\[}}-1.000000e+00, 2.000000e+00], [0.000000e+00, 0.000000e+00], [5.000000e-01, 1.000000e+00]]> : tensor<3x2xf32>, count = 4 : i64, key = "conv", layerStats = dense<[-1.000000e+00, 2.000000e+00]> : tensor<2xf32>, other = "kept"} : tensor<2x3xf32>
// CHECK-NEXT:    func.return %1
func.func @ranges(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>} : tensor<2x3xf32>
  %1 = quant.stats %0 {
    layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>,
    axisStats = dense<[[-1.0, 2.0], [0.0, 0.0], [0.5, 1.0]]> : tensor<3x2xf32>, axis = 1 : i64,
    key = "conv", count = 4 : i64, other = "kept"
  } : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// A minimum may be the maximum. A length may be unknown, also that of the axis, and so may the rank.
// CHECK-LABEL: @shapes
// CHECK-NEXT:    %0 = quant.stats %x {layerStats = dense<0.000000e+00> : tensor<2xf64>} : tensor<*xbf16>
// CHECK-NEXT:    %1 = quant.stats %y {axis = 0 : i64, axisStats = dense<1.000000e+00> : tensor<7x2xf16>, layerStats = dense<1.000000e+00> : tensor<2xf16>} : tensor<?x3xf16>
func.func @shapes(%x: tensor<*xbf16>, %y: tensor<?x3xf16>) -> (tensor<*xbf16>, tensor<?x3xf16>) {
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf64>} : tensor<*xbf16>
  %1 = quant.stats %y {layerStats = dense<1.0> : tensor<2xf16>, axisStats = dense<1.0> : tensor<7x2xf16>, axis = 0 : i64} : tensor<?x3xf16>
  return %0, %1 : tensor<*xbf16>, tensor<?x3xf16>
}

// A record is not dropped with the last use of a value.
// CHECK-LABEL: @unused
// CHECK-NEXT:    %0 = quant.stats %x {layerStats = dense<0.000000e+00> : tensor<2xf32>} : tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @unused(%x: tensor<4xf32>) {
  %0 = quant.stats %x {layerStats = dense<0.0> : tensor<2xf32>} : tensor<4xf32>
  return
}
