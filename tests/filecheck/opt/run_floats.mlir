// RUN: qdialect-run %s --allow-unregistered-dialect --symbol convolution --args "dense<[[[1.0, 2.0], [3.0, 1.0], [2.0, 3.0]]]> : tensor<1x3x2xf32>, dense<[[[1.0], [1.0]], [[2.0], [2.0]]]> : tensor<2x2x1xf32>" | filecheck %s --check-prefix=CONVOLUTION
// RUN: qdialect-run %s --allow-unregistered-dialect --symbol pool --args 'dense<[[1.0, 5.0, 2.0, -3.0]]> : tensor<1x4xf32>' | filecheck %s --check-prefix=POOL
// RUN: qdialect-run %s --allow-unregistered-dialect --symbol softmax --args 'dense<[[0.0, 0.0], [1.0, 0x7FC00000]]> : tensor<2x2xf32>' | filecheck %s --check-prefix=SOFTMAX
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol unfit --random-inputs=1 2>&1 | filecheck %s --check-prefix=UNFIT
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol numbers --random-inputs=1 2>&1 | filecheck %s --check-prefix=NUMBERS
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol quantized --random-inputs=1 2>&1 | filecheck %s --check-prefix=QUANTIZED
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol large --random-inputs=1 2>&1 | filecheck %s --check-prefix=LARGE

// CONVOLUTION: dense<{{\[\[}}[1.100000e+01], [1.400000e+01], [5.000000e+00]]]> : tensor<1x3x1xf32>
func.func @convolution(%x: tensor<1x3x2xf32>, %w: tensor<2x2x1xf32>) -> tensor<1x3x1xf32> {
  %0 = "stablehlo.convolution"(%x, %w) <{batch_group_count = 1 : i64, feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, padding = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<1x3x2xf32>, tensor<2x2x1xf32>) -> tensor<1x3x1xf32>
  return %0 : tensor<1x3x1xf32>
}

// POOL: dense<{{\[\[}}5.000000e+00, 2.000000e+00]]> : tensor<1x2xf32>
func.func @pool(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %i = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = "stablehlo.maximum"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%m) : (tensor<f32>) -> ()
  }) : (tensor<1x4xf32>, tensor<f32>) -> tensor<1x2xf32>
  return %0 : tensor<1x2xf32>
}

// SOFTMAX: dense<{{\[\[}}5.000000e-01, 5.000000e-01], [0x7FC00000, 0x7FC00000]]> : tensor<2x2xf32>
func.func @softmax(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %m = "tosa.reduce_max"(%x) <{axis = 1 : i32}> : (tensor<2x2xf32>) -> tensor<2x1xf32>
  %d = "tosa.sub"(%x, %m) : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %e = "tosa.exp"(%d) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = "tosa.reduce_sum"(%e) <{axis = 1 : i32}> : (tensor<2x2xf32>) -> tensor<2x1xf32>
  %r = "tosa.reciprocal"(%s) : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.mul"(%e, %r, %z) : (tensor<2x2xf32>, tensor<2x1xf32>, tensor<1xi8>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// UNFIT: error: 'stablehlo.dot' op cannot be run: the shapes of its operands do not match: 3 is not 4
func.func @unfit(%x: tensor<2x3xf32>, %y: tensor<4x2xf32>) -> tensor<2x2xf32> {
  %0 = "stablehlo.dot"(%x, %y) : (tensor<2x3xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// NUMBERS: error: 'stablehlo.convolution' op cannot be run: its dimension numbers cannot be parsed
func.func @numbers(%x: tensor<1x3x2xf32>, %w: tensor<2x2x1xf32>) -> tensor<1x3x1xf32> {
  %0 = "stablehlo.convolution"(%x, %w) <{dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, 0, o]->[b, 0, f]>}> : (tensor<1x3x2xf32>, tensor<2x2x1xf32>) -> tensor<1x3x1xf32>
  return %0 : tensor<1x3x1xf32>
}

// QUANTIZED: error: 'stablehlo.tanh' op cannot be run: quantized values are not supported
func.func @quantized(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>> {
  %0 = "stablehlo.tanh"(%x) : (tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  return %0 : tensor<2x!quant.uniform<i8:f32, 0.5>>
}

// LARGE: error: 'stablehlo.reduce_window' op is not run: it would take {{[0-9]+}} more bytes
func.func @large(%x: tensor<2x2xf32>) -> tensor<?x2xf32> {
  %i = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 1>, padding = dense<[[0, 1000000000000], [0, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%m) : (tensor<f32>) -> ()
  }) : (tensor<2x2xf32>, tensor<f32>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}
