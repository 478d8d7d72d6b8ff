// RUN: qdialect-opt %s --fold-batch-normalization --verify-diagnostics --remarks | filecheck %s

// (x * [2, 0.5] + [1, -1]) w is x ([2, 0.5] * w) + [1, -1] w, where w is [[1, 2], [3, 4]].
// CHECK-LABEL: @behind
// CHECK-DAG:     %w = stablehlo.constant dense<[[2.000000e+00, 4.000000e+00], [1.500000e+00, 2.000000e+00]]>
// CHECK-DAG:     %fc = stablehlo.dot_general %x, %w
// CHECK-DAG:     stablehlo.constant dense<-2.000000e+00> : tensor<2xf32>
// CHECK:         %fc_1 = stablehlo.add %fc, %{{.*}} {quant.key = "fc"}
// CHECK-NOT:     stablehlo.multiply
// CHECK-LABEL: @beside
func.func @behind(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %scale = stablehlo.constant dense<[2.0, 0.5]> : tensor<2xf32>
  %offset = stablehlo.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %scales = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
  %offsets = stablehlo.broadcast_in_dim %offset, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
  %scaled = stablehlo.multiply %x, %scales : tensor<3x2xf32>
  %bn = stablehlo.add %scaled, %offsets : tensor<3x2xf32>
  // expected-remark @+1 {{merged 'stablehlo.dot_general': its weights and its bias have 1 'stablehlo.multiply', 1 'stablehlo.add'}}
  %fc = stablehlo.dot_general %bn, %w, contracting_dims = [1] x [0] {quant.key = "fc"} : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %fc : tensor<3x2xf32>
}

// A bias of another layer, and the end of a layer normalization, are parts of these.
// CHECK:           stablehlo.add
// CHECK:           stablehlo.dot_general
// CHECK:           stablehlo.multiply
// CHECK-NEXT:      stablehlo.multiply
// CHECK-NEXT:      stablehlo.dot_general
func.func @beside(%x: tensor<3x2xf32>, %y: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %row = stablehlo.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %rows = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
  %first = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %biased = stablehlo.add %first, %rows : tensor<3x2xf32>
  %second = stablehlo.dot_general %biased, %w, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %product = stablehlo.multiply %x, %y : tensor<3x2xf32>
  // expected-remark @+1 {{not merged: 'stablehlo.multiply' before it is no sum of products with constant weights [unknown-op]}}
  %scaled = stablehlo.multiply %product, %rows : tensor<3x2xf32>
  %third = stablehlo.dot_general %scaled, %w, contracting_dims = [1] x [0] : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %second, %third : tensor<3x2xf32>, tensor<3x2xf32>
}

// Zeros that windows read beside the image have no offset.
// CHECK-LABEL: @padded
// CHECK:           tosa.add
func.func @padded(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %w = "tosa.const"() <{values = dense<0.5> : tensor<2x3x3x2xf32>}> : () -> tensor<2x3x3x2xf32>
  %b = "tosa.const"() <{values = dense<0.0> : tensor<2xf32>}> : () -> tensor<2xf32>
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %row = "tosa.const"() <{values = dense<[[[[1.0, 2.0]]]]> : tensor<1x1x1x2xf32>}> : () -> tensor<1x1x1x2xf32>
  %zp = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-remark @+1 {{not merged: offsets are not added to the zeros that 'tosa.conv2d' pads with [arithmetic]}}
  %scaled = tosa.mul %x, %row, %zp : (tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32>, tensor<1xi8>) -> tensor<1x4x4x2xf32>
  %bn = tosa.add %scaled, %row : (tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x4x4x2xf32>
  %y = "tosa.conv2d"(%bn, %w, %b, %zero, %zero) <{acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>}> : (tensor<1x4x4x2xf32>, tensor<2x3x3x2xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x4x2xf32>
  return %y : tensor<1x4x4x2xf32>
}
