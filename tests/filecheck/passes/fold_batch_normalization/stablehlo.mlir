// RUN: qdialect-opt %s --fold-batch-normalization | filecheck %s

// One op, behind a transpose. The value has the name and the key of what it is now.
// CHECK-LABEL: @one_op
// CHECK:         %w = stablehlo.constant dense<{{\[\[}}1.000000e+00, 4.000000e+00], [3.000000e+00, 8.000000e+00]]>
// CHECK:         %[[FC:.*]] = stablehlo.dot_general %x, %w
// CHECK:         %[[B:.*]] = stablehlo.constant dense<[-5.000000e-01, 1.000000e+00]> : tensor<2xf32>
// CHECK:         %[[ROWS:.*]] = stablehlo.broadcast_in_dim %[[B]], dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
// CHECK:         %[[SUM:.*]] = stablehlo.add %[[FC]], %[[ROWS]] : tensor<3x2xf32>
// CHECK:         %bn = stablehlo.transpose %[[SUM]], dims = [1, 0] {quant.key = "normal"} : (tensor<3x2xf32>) -> tensor<2x3xf32>
// CHECK-NEXT:    return %bn
func.func @one_op(%x: tensor<3x2xf32>) -> tensor<2x3xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %mean = stablehlo.constant dense<[0.5, 1.0]> : tensor<2xf32>
  %variance = stablehlo.constant dense<[3.0, 0.0]> : tensor<2xf32>
  %scale = stablehlo.constant dense<[2.0, 2.0]> : tensor<2xf32>
  %offset = stablehlo.constant dense<[0.0, 3.0]> : tensor<2xf32>
  %fc = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %t = stablehlo.transpose %fc, dims = [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %bn = "stablehlo.batch_norm_inference"(%t, %scale, %offset, %mean, %variance) <{epsilon = 1.0 : f32, feature_index = 0 : i64}> {quant.key = "normal"} : (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return %bn : tensor<2x3xf32>
}

// As JAX writes it, with a batch of any length. The weights are the left operand.
// CHECK-LABEL: @weights_on_the_left
// CHECK:         stablehlo.constant dense<{{\[\[}}1.000000e+01, 2.000000e+01], [3.000000e+02, 4.000000e+02]]>
// CHECK:         stablehlo.dot_general
// CHECK-NOT:     stablehlo.multiply
func.func @weights_on_the_left(%x: tensor<2x?xf32>) -> tensor<2x?xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %c = stablehlo.constant dense<[10.0, 100.0]> : tensor<2xf32>
  %fc = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x?xf32>) -> tensor<2x?xf32>
  %shape = stablehlo.constant dense<[2, 1]> : tensor<2xi32>
  %rows = stablehlo.dynamic_broadcast_in_dim %c, %shape, dims = [0] : (tensor<2xf32>, tensor<2xi32>) -> tensor<2x?xf32>
  %product = stablehlo.multiply %fc, %rows : tensor<2x?xf32>
  return %product : tensor<2x?xf32>
}
