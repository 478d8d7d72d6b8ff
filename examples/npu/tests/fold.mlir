// A shape op of the NPU is folded into constants, with their scales.

// RUN: qdialect-opt --fold-quant-shapes --verify-quant-shapes %s | filecheck %s
// RUN: xdsl-opt -p fold-quant-shapes,verify-quant-shapes %s | filecheck %s

// Each channel has a scale. Two of them are left, and a block of pixels has four of these pairs.

!channels = !quant.uniform<i8:f32:3, {1.0, 2.0, 3.0, 4.0, 5.0:1, 6.0, 7.0, 8.0}>

// CHECK-LABEL: func.func @per_axis
// CHECK-NEXT:    %w = quant.constant
// CHECK-SAME{LITERAL}: dense<[[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]]>
// CHECK-SAME{LITERAL}: tensor<1x2x2x2x!quant.uniform<i8:f32:{1:1, 2:1, 3:1}, {{{{1.000000e+00, 2.000000e+00}, {3.000000e+00, 4.000000e+00}}, {{5.000000e+00:1, 6.000000e+00}, {7.000000e+00, 8.000000e+00}}}}>>
// CHECK-NEXT:    %f = quant.dcast %w
// CHECK-NEXT:    func.return %f
func.func @per_axis() -> tensor<1x2x2x2xf32> {
  %w = quant.constant dense<[[[[1, 2, 3, 4, 5, 6, 7, 8]]]]> : tensor<1x1x1x8x!channels>
  %f = quant.dcast %w : tensor<1x1x1x8x!channels> to tensor<1x1x1x8xf32>
  %s = npu.pixel_shuffle %f by 2 : tensor<1x1x1x8xf32> to tensor<1x2x2x2xf32>
  return %s : tensor<1x2x2x2xf32>
}

// A block of scales has four channels of a pixel: these become a row of two pixels.

!groups = !quant.uniform<i8:f32:{2:1, 3:4}, {{{{0.5, 0.25:1}, {2.0, 4.0:-3}}}}>

// CHECK-LABEL: func.func @blocks
// CHECK-NEXT:    %w = quant.constant
// CHECK-SAME{LITERAL}: dense<[[[[1, 2], [3, 4], [9, 10], [11, 12]], [[5, 6], [7, 8], [13, 14], [15, 16]]]]>
// CHECK-SAME{LITERAL}: tensor<1x2x4x2x!quant.uniform<i8:f32:{1:1, 2:2}, {{{{5.000000e-01}, {2.000000e+00}}, {{2.500000e-01:1}, {4.000000e+00:-3}}}}>>
// CHECK-NEXT:    func.return %w
func.func @blocks() -> tensor<1x2x4x2x!quant.uniform<i8:f32:{1:1, 2:2}, {{{{0.5}, {2.0}}, {{0.25:1}, {4.0:-3}}}}>> {
  %w = quant.constant dense<[[[[1, 2, 3, 4, 5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15, 16]]]]> : tensor<1x1x2x8x!groups>
  %s = npu.pixel_shuffle %w by 2 : tensor<1x1x2x8x!groups>
    to tensor<1x2x4x2x!quant.uniform<i8:f32:{1:1, 2:2}, {{{{0.5}, {2.0}}, {{0.25:1}, {4.0:-3}}}}>>
  return %s : tensor<1x2x4x2x!quant.uniform<i8:f32:{1:1, 2:2}, {{{{0.5}, {2.0}}, {{0.25:1}, {4.0:-3}}}}>>
}

// Integers that are not quantized.

// CHECK-LABEL: func.func @plain
// CHECK-NEXT{LITERAL}: %w = arith.constant dense<[[[[1], [2]], [[3], [4]]]]> : tensor<1x2x2x1xi8>
// CHECK-NEXT:    func.return %w
func.func @plain() -> tensor<1x2x2x1xi8> {
  %w = arith.constant dense<[[[[1, 2, 3, 4]]]]> : tensor<1x1x1x4xi8>
  %s = npu.pixel_shuffle %w by 2 : tensor<1x1x1x4xi8> to tensor<1x2x2x1xi8>
  return %s : tensor<1x2x2x1xi8>
}
