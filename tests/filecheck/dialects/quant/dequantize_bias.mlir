// RUN: qdialect-opt %s | qdialect-opt | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt | filecheck %s

// CHECK-LABEL: @biases
// CHECK-NEXT:    %0 = quant.dequantize_bias %x {axis = 0 : i64, scales = dense<[5.000000e-01, 9.99999993E-9]> : tensor<2xf32>} : tensor<2xi64> to tensor<2xf32>
// CHECK-NEXT:    %1 = quant.dequantize_bias %y {other = 1 : i64, scales = dense<1.000000e-01> : tensor<1xf64>} : tensor<?x3xi48> to tensor<?x3xbf16>
// CHECK-NEXT:    %2 = quant.dequantize_bias %y {axis = 0 : i64, scales = dense<2.500000e-01> : tensor<7xf16>} : tensor<?x3xi48> to tensor<?x3xf64>
func.func @biases(%x: tensor<2xi64>, %y: tensor<?x3xi48>) {
  %0 = quant.dequantize_bias %x {scales = dense<[0.5, 1.0e-8]> : tensor<2xf32>, axis = 0 : i64} : tensor<2xi64> to tensor<2xf32>
  %1 = quant.dequantize_bias %y {scales = dense<0.1> : tensor<1xf64>, other = 1 : i64} : tensor<?x3xi48> to tensor<?x3xbf16>
  %2 = quant.dequantize_bias %y {scales = dense<0.25> : tensor<7xf16>, axis = 0 : i64} : tensor<?x3xi48> to tensor<?x3xf64>
  return
}
