// RUN: qdialect-opt %s --quantize-weights="scheme=mxfp8 storage=f8E5M2 exponent=rceil block-size=2" | filecheck %s --check-prefix=MX
// RUN: qdialect-opt %s --quantize-weights=scheme=f8e4m3fn --fold-quant-shapes | filecheck %s --check-prefix=F8
// RUN: qdialect-opt %s --quantize-weights="scheme=nf4 block-size=4" --lower-quant-ops --lower-quant-shapes --canonicalize | filecheck %s --check-prefix=NF4

// 57344 * 2^-15 is 1.75, and 57344 * 2^-14 is 3.5.
// MX: quant.constant dense<{{\[\[}}5.734400e+04, -4.915200e+04], [3.276800e+04, 5.734400e+04], [0.000000e+00, 3.276800e+04], [3.276800e+04, 0.000000e+00]]> : tensor<4x2x!quant.uniform<f8E5M2:f32:{0:2, 1:1},
// MX-SAME: {3.05175781E-5, 6.10351563E-5}, {3.05175781E-5, 1.52587891E-5}

// F8: quant.constant dense<{{\[\[}}4.480000e+02, -3.840000e+02], [2.560000e+02, 4.480000e+02], {{.*}} : tensor<4x2x!quant.uniform<f8E4M3FN:f32:1, {3.906250e-03,7.812500e-03}>>

// NF4: %[[CODES:.*]] = arith.constant dense<{{\[\[}}15, 0], [13, 15], [7, 9], [13, 7]]> : tensor<4x2xi8>
// NF4: ins(%[[CODES]] : tensor<4x2xi8>)
func.func @main(%x: tensor<1x4xf32>, %init: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = arith.constant dense<[[1.75, -3.0], [1.0, 3.5], [0.0, 0.5], [1.0, 0.0]]> : tensor<4x2xf32>
  %y = linalg.matmul ins(%x, %w : tensor<1x4xf32>, tensor<4x2xf32>) outs(%init : tensor<1x2xf32>) -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}
