// RUN: qdialect-opt %s --quantize-weights | filecheck %s
// RUN: qdialect-opt %s --fold-constant-shapes --quantize-weights | filecheck %s
// RUN: qdialect-opt %s --quantize-weights --fold-constant-shapes | filecheck %s

// A convolution that was lowered to a matrix product: the shape ops are folded, and the axis of the
// scales is that of the channels in what the layer reads. The name and the attributes stay.
// CHECK-LABEL: @lowered_convolution
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}127, 42], [-64, 127]]> {profile = "conv"} : tensor<2x2x!quant.uniform<i8:f32:1, {0.0078431377187371254,0.023529412224888802}>>
// CHECK-NEXT:    %w_1 = quant.dcast %w
// CHECK-NEXT:    linalg.matmul ins(%x, %w_1 : tensor<4x2xf32>, tensor<2x2xf32>)
func.func @lowered_convolution(%x: tensor<4x2xf32>, %init: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %w = arith.constant {profile = "conv"} dense<[[[[1.0, -0.5]]], [[[1.0, 3.0]]]]> : tensor<2x1x1x2xf32>
  %r = tensor.collapse_shape %w [[0, 1, 2], [3]] : tensor<2x1x1x2xf32> into tensor<2x2xf32>
  %t = tosa.transpose %r {perms = array<i32: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = linalg.matmul ins(%x, %t : tensor<4x2xf32>, tensor<2x2xf32>) outs(%init : tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// The axes of a depthwise convolution are two, and so the slots are of two axes.
// CHECK-LABEL: @depthwise
// CHECK:         %w = quant.constant dense<127> : tensor<1x1x2x2x!quant.uniform<i8:f32:{2:1, 3:1}, {{.*}}0.00784313772, 0.0156862754}, {0.0235294122, 0.0313725509
func.func @depthwise(%x: tensor<1x4x4x2xf32>, %b: tensor<4xf32>) -> tensor<1x4x4x4xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %w = arith.constant dense<[[[[1.0, 2.0], [3.0, 4.0]]]]> : tensor<1x1x2x2xf32>
  %0 = tosa.depthwise_conv2d %x, %w, %b, %z, %z {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<1x1x2x2xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x4x4xf32>
  return %0 : tensor<1x4x4x4xf32>
}

// A splat stays one element.
// CHECK-LABEL: @splat
// CHECK-NEXT:    quant.constant dense<127> : tensor<65536x65536x!quant.uniform<i8:f32, 0.015686275437474251>>
func.func @splat(%x: tensor<4x65536xf32>, %init: tensor<4x65536xf32>) -> tensor<4x65536xf32> {
  %w = arith.constant dense<2.0> : tensor<65536x65536xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<4x65536xf32>, tensor<65536x65536xf32>) outs(%init : tensor<4x65536xf32>) -> tensor<4x65536xf32>
  return %0 : tensor<4x65536xf32>
}
