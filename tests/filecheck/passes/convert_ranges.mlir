// RUN: qdialect-opt %s --convert-ranges=to=calibrated --allow-unregistered-dialect | filecheck %s --check-prefix=CALIBRATED
// RUN: qdialect-opt %s --convert-ranges=to=calibrated --convert-ranges=to=stats --allow-unregistered-dialect | filecheck %s --check-prefix=STATS
// RUN: qdialect-opt %s --drop-ranges --allow-unregistered-dialect | filecheck %s --check-prefix=DROPPED
// RUN: qdialect-opt %s --convert-ranges=to=calibrated --remarks --verify-diagnostics --allow-unregistered-dialect

// CALIBRATED-LABEL: @per_tensor
// CALIBRATED-NEXT:    %0 = quant.qcast %x {key = "k", note = 1 : i8} : tensor<2xf32> to tensor<2x!quant.calibrated<f32<-1.000000e+00:2.500000e+00>>>
// CALIBRATED-NEXT:    %s = quant.dcast %0 : tensor<2x!quant.calibrated<f32<-1.000000e+00:2.500000e+00>>> to tensor<2xf32>
// CALIBRATED-NEXT:    func.return %s
// STATS-LABEL: @per_tensor
// STATS-NEXT:    %s = quant.stats %x {key = "k", layerStats = dense<[-1.000000e+00, 2.500000e+00]> : tensor<2xf32>, note = 1 : i8} : tensor<2xf32>
// STATS-NEXT:    func.return %s
// DROPPED-LABEL: @per_tensor
// DROPPED-NEXT:    func.return %x
func.func @per_tensor(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-remark @+1 {{converted 'quant.stats': its range is in 'quant.dcast'}}
  %s = quant.stats %x {layerStats = dense<[-1.0, 2.5]> : tensor<2xf32>, key = "k", note = 1 : i8} : tensor<2xf32>
  return %s : tensor<2xf32>
}

// A number that is no f32 stays what it is.
// CALIBRATED-LABEL: @of_tensorflow
// CALIBRATED-NEXT:    %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.calibrated<f32<0.000000e+00:1.000000e-01>>>
// STATS-LABEL: @of_tensorflow
// STATS-NEXT:    %s = quant.stats %x {layerStats = dense<[0.000000e+00, 1.000000e-01]> : tensor<2xf64>} : tensor<*xf32>
// DROPPED-LABEL: @of_tensorflow
// DROPPED-NEXT:    func.return %x
func.func @of_tensorflow(%x: tensor<*xf32>) -> tensor<*xf32> {
  // expected-remark @+1 {{converted 'quantization.stats': its range is in 'quant.dcast'}}
  %s = "quantization.stats"(%x) {layerStats = dense<[0.0, 0.1]> : tensor<2xf64>} : (tensor<*xf32>) -> tensor<*xf32>
  return %s : tensor<*xf32>
}

// CALIBRATED-LABEL: @what_the_type_cannot_say
// CALIBRATED-NEXT:    quant.stats
// CALIBRATED-NEXT:    quant.stats
// DROPPED-LABEL: @what_the_type_cannot_say
// DROPPED-NEXT:    func.return %x
func.func @what_the_type_cannot_say(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-remark @+1 {{not converted: '!quant.calibrated' has a single range for all elements [granularity]}}
  %0 = quant.stats %x {layerStats = dense<[0.0, 1.0]> : tensor<2xf32>, axisStats = dense<[[0.0, 0.5], [0.5, 1.0]]> : tensor<2x2xf32>, axis = 0 : i64} : tensor<2xf32>
  // expected-remark @+1 {{not converted: '!quant.calibrated' needs a minimum that is less than the maximum, not 1.0 [illegal-type]}}
  %1 = quant.stats %0 {layerStats = dense<1.0> : tensor<2xf32>} : tensor<2xf32>
  return %1 : tensor<2xf32>
}
