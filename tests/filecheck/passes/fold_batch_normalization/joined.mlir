// RUN: qdialect-opt %s --fold-batch-normalization --verify-diagnostics --remarks | filecheck %s

// Arithmetic behind a concat of layers is merged into each. TOSA has no convolutions in groups: their
// channels are slices. ([1, 2] x + 1) * 10 + 1 and ([3, 4] x + 2) * 100 + 2, with weights of [1, 2; 3, 4].
// CHECK-LABEL: @in_groups
// CHECK-DAG:     %{{.*}} = "tosa.const"() <{values = dense<{{\[\[\[\[}}1.000000e+01, 2.000000e+01]]]]> : tensor<1x1x1x2xf32>}>
// CHECK-DAG:     %{{.*}} = "tosa.const"() <{values = dense<{{\[\[\[\[}}3.000000e+02, 4.000000e+02]]]]> : tensor<1x1x1x2xf32>}>
// CHECK-DAG:     %{{.*}} = "tosa.const"() <{values = dense<1.100000e+01> : tensor<1xf32>}>
// CHECK-DAG:     %{{.*}} = "tosa.const"() <{values = dense<2.020000e+02> : tensor<1xf32>}>
// CHECK:         %bn = tosa.concat
// CHECK-NEXT:    tosa.clamp %bn
func.func @in_groups(%x: tensor<1x4x4x4xf32>) -> tensor<1x4x4x2xf32> {
  %w = "tosa.const"() <{values = dense<[[[[1.0, 2.0]]], [[[3.0, 4.0]]]]> : tensor<2x1x1x2xf32>}> : () -> tensor<2x1x1x2xf32>
  %b = "tosa.const"() <{values = dense<[1.0, 2.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %factors = "tosa.const"() <{values = dense<[[[[10.0, 100.0]]]]> : tensor<1x1x1x2xf32>}> : () -> tensor<1x1x1x2xf32>
  %offsets = "tosa.const"() <{values = dense<[[[[1.0, 2.0]]]]> : tensor<1x1x1x2xf32>}> : () -> tensor<1x1x1x2xf32>
  %shift = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %first = tosa.const_shape {values = dense<0> : tensor<4xindex>} : () -> !tosa.shape<4>
  %second = tosa.const_shape {values = dense<[0, 0, 0, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %second_row = tosa.const_shape {values = dense<[1, 0, 0, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %part = tosa.const_shape {values = dense<[1, 4, 4, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %row = tosa.const_shape {values = dense<[1, 1, 1, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %start = tosa.const_shape {values = dense<0> : tensor<1xindex>} : () -> !tosa.shape<1>
  %next = tosa.const_shape {values = dense<1> : tensor<1xindex>} : () -> !tosa.shape<1>
  %x0 = tosa.slice %x, %first, %part : (tensor<1x4x4x4xf32>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x4x4x2xf32>
  %w0 = tosa.slice %w, %first, %row : (tensor<2x1x1x2xf32>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x1x2xf32>
  %b0 = tosa.slice %b, %start, %next : (tensor<2xf32>, !tosa.shape<1>, !tosa.shape<1>) -> tensor<1xf32>
  // expected-remark @+1 {{merged 'tosa.conv2d': its weights and its bias have 1 'tosa.mul', 1 'tosa.add'}}
  %y0 = tosa.conv2d %x0, %w0, %b0, %zero, %zero {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x4x1xf32>
  %x1 = tosa.slice %x, %second, %part : (tensor<1x4x4x4xf32>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x4x4x2xf32>
  %w1 = tosa.slice %w, %second_row, %row : (tensor<2x1x1x2xf32>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x1x1x2xf32>
  %b1 = tosa.slice %b, %next, %next : (tensor<2xf32>, !tosa.shape<1>, !tosa.shape<1>) -> tensor<1xf32>
  // expected-remark @+1 {{merged 'tosa.conv2d': its weights and its bias have 1 'tosa.mul', 1 'tosa.add'}}
  %y1 = tosa.conv2d %x1, %w1, %b1, %zero, %zero {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x4x1xf32>
  %y = tosa.concat %y0, %y1 {axis = 3 : i32} : (tensor<1x4x4x1xf32>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x2xf32>
  %scaled = tosa.mul %y, %factors, %shift : (tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32>, tensor<1xi8>) -> tensor<1x4x4x2xf32>
  %bn = tosa.add %scaled, %offsets : (tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32>) -> tensor<1x4x4x2xf32>
  %relu = tosa.clamp %bn {max_val = 6.0 : f32, min_val = 0.0 : f32} : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32>
  return %relu : tensor<1x4x4x2xf32>
}

// Shape ops may be before the concat and behind it. Without an operand for a bias, each sum is added.
// CHECK-LABEL: @moved
// CHECK-DAG:     stablehlo.constant dense<{{\[\[}}1.000000e+01, 2.000000e+02], [3.000000e+01, 4.000000e+02]]>
// CHECK-DAG:     stablehlo.constant dense<{{\[\[}}1.000000e+03], [2.000000e+03]]>
// CHECK-DAG:     stablehlo.constant dense<[1.000000e+00, 2.000000e+00]>
// CHECK-DAG:     stablehlo.constant dense<3.000000e+00>
// CHECK:         stablehlo.concatenate
// CHECK-NEXT:    stablehlo.reshape
// CHECK-NEXT:    return
func.func @moved(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<3x2x1xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %v = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %factor = stablehlo.constant dense<[10.0, 100.0, 1000.0]> : tensor<3xf32>
  %offset = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %factors = stablehlo.broadcast_in_dim %factor, dims = [0] : (tensor<3xf32>) -> tensor<3x2x1xf32>
  %offsets = stablehlo.broadcast_in_dim %offset, dims = [0] : (tensor<3xf32>) -> tensor<3x2x1xf32>
  // expected-remark @+1 {{merged 'stablehlo.dot_general': its weights and its bias have 1 'stablehlo.multiply', 1 'stablehlo.add'}}
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %at = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @+1 {{merged 'stablehlo.dot_general': its weights and its bias have 1 'stablehlo.multiply', 1 'stablehlo.add'}}
  %b = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %bt = stablehlo.transpose %b, dims = [1, 0] : (tensor<2x1xf32>) -> tensor<1x2xf32>
  %both = stablehlo.concatenate %at, %bt, dim = 0 : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  %image = stablehlo.reshape %both : (tensor<3x2xf32>) -> tensor<3x2x1xf32>
  %scaled = stablehlo.multiply %image, %factors : tensor<3x2x1xf32>
  %bn = stablehlo.add %scaled, %offsets : tensor<3x2x1xf32>
  return %bn : tensor<3x2x1xf32>
}

// Batches that are joined have the factors of the channels.
// CHECK-LABEL: @in_batches
// CHECK-COUNT-2: stablehlo.constant dense<{{\[\[}}1.000000e+01, 2.000000e+02], [3.000000e+01, 4.000000e+02]]>
// CHECK-NOT:     stablehlo.multiply
func.func @in_batches(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>) -> tensor<4x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %factor = stablehlo.constant dense<[10.0, 100.0]> : tensor<2xf32>
  %factors = stablehlo.broadcast_in_dim %factor, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
  // expected-remark @+1 {{merged}}
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @+1 {{merged}}
  %b = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %both = stablehlo.concatenate %a, %b, dim = 0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  %scaled = stablehlo.multiply %both, %factors : tensor<4x2xf32>
  return %scaled : tensor<4x2xf32>
}

// None is merged unless all can be: weights that are an argument, ...
// CHECK-LABEL: @argument
// CHECK-NEXT:    %w = stablehlo.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]>
// CHECK-NEXT:    %factor = stablehlo.constant
// CHECK-NEXT:    %factors = stablehlo.broadcast_in_dim
// CHECK-NEXT:    %a = stablehlo.dot_general %x, %w,
// CHECK-NEXT:    %b = stablehlo.dot_general
// CHECK-NEXT:    %both = stablehlo.concatenate
// CHECK-NEXT:    stablehlo.multiply
func.func @argument(%x: tensor<2x2xf32>, %v: tensor<2x2xf32>) -> tensor<2x4xf32> {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %factor = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %factors = stablehlo.broadcast_in_dim %factor, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %b = stablehlo.dot_general %x, %v, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %both = stablehlo.concatenate %a, %b, dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  // expected-remark @+1 {{not merged: the weights of 'stablehlo.dot_general' are not constant [not-constant]}}
  %scaled = stablehlo.multiply %both, %factors : tensor<2x4xf32>
  return %scaled : tensor<2x4xf32>
}

// ... a part that is no layer, and a layer that has another reader.
// CHECK-LABEL: @parts
// CHECK-NEXT:    %w = stablehlo.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]>
// CHECK-COUNT-2: stablehlo.multiply
func.func @parts(%x: tensor<2x2xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x2xf32>) {
  %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %factor = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %factors = stablehlo.broadcast_in_dim %factor, dims = [1] : (tensor<4xf32>) -> tensor<2x4xf32>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %both = stablehlo.concatenate %a, %x, dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  // expected-remark @+1 {{not merged: 'stablehlo.concatenate' before it is no sum of products with constant weights [unknown-op]}}
  %scaled = stablehlo.multiply %both, %factors : tensor<2x4xf32>
  %b = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %c = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %others = stablehlo.concatenate %b, %c, dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
  // expected-remark @+1 {{not merged: 'stablehlo.concatenate' before it is no sum of products with constant weights [unknown-op]}}
  %rest = stablehlo.multiply %others, %factors : tensor<2x4xf32>
  return %scaled, %rest, %b : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x2xf32>
}
