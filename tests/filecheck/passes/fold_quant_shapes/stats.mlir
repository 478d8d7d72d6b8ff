// RUN: qdialect-opt %s --fold-quant-shapes=verify=values --allow-unregistered-dialect | filecheck %s
// RUN: qdialect-opt %s --fold-constant-shapes --allow-unregistered-dialect | filecheck %s

// The ranges of an axis move with the elements. The range of all of them stays, and so does the key.
// CHECK-LABEL: @transpose
// CHECK-NEXT:    %w = arith.constant dense<[{{\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT:    %s = quant.stats %w {axis = 0 : i64, axisStats = dense<[{{\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>, key = "w", layerStats = dense<[1.000000e+00, 4.000000e+00]> : tensor<2xf32>} : tensor<2x2xf32>
// CHECK-NEXT:    func.return %s
func.func @transpose() -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %s = quant.stats %w {layerStats = dense<[1.0, 4.0]> : tensor<2xf32>, axisStats = dense<[[1.0, 3.0], [2.0, 4.0]]> : tensor<2x2xf32>, axis = 1 : i64, key = "w"} : tensor<2x2xf32>
  %t = tosa.transpose %s {perms = array<i32: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %t : tensor<2x2xf32>
}

// The ops of TensorFlow are read as the same.
// CHECK-LABEL: @of_tensorflow
// CHECK-NEXT:    %w = arith.constant dense<[2.000000e+00, 1.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    %s = "quantfork.stats"(%w) <{axisStats = dense<[{{\[}}2.000000e+00, 2.000000e+00], [1.000000e+00, 1.000000e+00]]> : tensor<2x2xf32>, axis = 0 : i64, layerStats = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>}>
// CHECK-NEXT:    func.return %s
func.func @of_tensorflow() -> tensor<2xf32> {
  %w = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s = "quantfork.stats"(%w) <{axisStats = dense<[[1.0, 1.0], [2.0, 2.0]]> : tensor<2x2xf32>, axis = 0 : i64, layerStats = dense<[1.0, 2.0]> : tensor<2xf32>}> : (tensor<2xf32>) -> tensor<2xf32>
  %t = tosa.reverse %s {axis = 0 : i32} : (tensor<2xf32>) -> tensor<2xf32>
  return %t : tensor<2xf32>
}
