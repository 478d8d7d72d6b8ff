// RUN: qdialect-opt %s --lower-quant-ops | filecheck %s

// CHECK-LABEL: @one
// CHECK-NEXT:    %0 = arith.constant 5.000000e-01 : f64
// CHECK-NEXT:    %1 = arith.sitofp %x : tensor<2xi64> to tensor<2xf64>
// CHECK-NEXT:    %2 = tensor.splat %0 : tensor<2xf64>
// CHECK-NEXT:    %3 = arith.mulf %1, %2 : tensor<2xf64>
// CHECK-NEXT:    %b = arith.truncf %3 : tensor<2xf64> to tensor<2xf32>
// CHECK-NEXT:    func.return %b
func.func @one(%x: tensor<2xi64>) -> tensor<2xf32> {
  %b = quant.dequantize_bias %x {scales = dense<0.5> : tensor<1xf32>} : tensor<2xi64> to tensor<2xf32>
  return %b : tensor<2xf32>
}

// CHECK-LABEL: @axis
// CHECK-NEXT:    %0 = arith.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf64>
// CHECK-NEXT:    %1 = arith.constant 0 : index
// CHECK-NEXT:    %2 = tensor.dim %x, %1 : tensor<?x2xi48>
// CHECK-NEXT:    %3 = tensor.empty(%2) : tensor<?x2xf64>
// CHECK-NEXT:    %b = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %0 : tensor<?x2xi48>, tensor<2xf64>) outs(%3 : tensor<?x2xf64>) {
// CHECK-NEXT:    ^bb0(%4: i48, %5: f64, %6: f64):
// CHECK-NEXT:      %7 = arith.sitofp %4 : i48 to f64
// CHECK-NEXT:      %8 = arith.mulf %7, %5 : f64
// CHECK-NEXT:      linalg.yield %8 : f64
// CHECK-NEXT:    } -> tensor<?x2xf64>
func.func @axis(%x: tensor<?x2xi48>) -> tensor<?x2xf64> {
  %b = quant.dequantize_bias %x {scales = dense<[0.5, 0.25]> : tensor<2xf32>, axis = 1 : i64} : tensor<?x2xi48> to tensor<?x2xf64>
  return %b : tensor<?x2xf64>
}
