// RUN: qdialect-opt %s --quantize-with-ranges | filecheck %s --check-prefix=KNOWN
// RUN: qdialect-opt %s --quantize-with-ranges=narrow-fixed | filecheck %s --check-prefix=RECORDED

// A recorded range that is less than half of the known one counts, if that is asked for.
// KNOWN: quant.qcast %a {{.*}}3.906250e-03
// KNOWN: quant.qcast %b {{.*}}3.906250e-03
// RECORDED: quant.qcast %a {{.*}}9.80
// RECORDED: quant.qcast %b {{.*}}3.906250e-03
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = quant.stats %x {layerStats = dense<[-5.0, 5.0]> : tensor<2xf32>} : tensor<4xf32>
  %a = tosa.sigmoid %0 : (tensor<4xf32>) -> tensor<4xf32>
  %1 = quant.stats %a {layerStats = dense<[0.0, 0.025]> : tensor<2xf32>} : tensor<4xf32>
  %b = tosa.sigmoid %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = quant.stats %b {layerStats = dense<[0.0, 0.75]> : tensor<2xf32>} : tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}
