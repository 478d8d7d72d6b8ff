// A layer is quantized by the recorded ranges of its values.

// RUN: qdialect-opt --quantize-with-ranges="scheme=one-u8 granularity=channel" %s | filecheck %s
// RUN: xdsl-opt -p 'quantize-with-ranges{scheme="one-u8" granularity="channel"}' %s | filecheck %s

// The bias has the products of the scales of the operands. What is added has the range of the
// relu6 behind it, which `npu-fuse-relu6` then drops.

// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %x_1 = quant.qcast %x : {{.*}} to tensor<4x3x!quant.uniform<u8:f32, 0.0078431377187371254>>
// CHECK-NEXT:    %x_2 = quant.dcast %x_1
// CHECK-NEXT:    %w = quant.constant {{.*}} : tensor<3x2x!quant.uniform<u8:f32:1, {0.0058823530562222004:85,0.0078431377187371254:64}>>
// CHECK-NEXT:    %w_1 = quant.dcast %w
// CHECK-NEXT:    %b = quant.constant {{.*}} : tensor<2x!quant.uniform<i32:f32:0, {4.6136105083860457E-5,6.1514809203799814E-5}>>
// CHECK-NEXT:    %b_1 = quant.dcast %b
// CHECK-NEXT:    %p = npu.matmul %x_2, %w_1 bias %b_1 : tensor<4x3xf32>, tensor<3x2xf32>, tensor<2xf32> to tensor<4x2xf32>
// CHECK-NEXT:    %p_1 = quant.qcast %p : {{.*}} to tensor<4x2x!quant.uniform<u8:f32, 0.023529412224888802>>
// CHECK-NEXT:    %p_2 = quant.dcast %p_1
// CHECK-NEXT:    %r = npu.relu6 %p_2
// CHECK-NEXT:    %r_1 = quant.qcast %r : {{.*}} to tensor<4x2x!quant.uniform<u8:f32, 0.023529412224888802>>
func.func @main(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %x_1 = quant.stats %x {layerStats = dense<[0.0, 2.0]> : tensor<2xf32>} : tensor<4x3xf32>
  %w = arith.constant dense<[[1.0, 0.5], [-0.5, 1.5], [0.25, -0.5]]> : tensor<3x2xf32>
  %b = arith.constant dense<[0.5, -1.0]> : tensor<2xf32>
  %p = npu.matmul %x_1, %w bias %b : tensor<4x3xf32>, tensor<3x2xf32>, tensor<2xf32> to tensor<4x2xf32>
  %p_1 = quant.stats %p {layerStats = dense<[-2.0, 8.0]> : tensor<2xf32>} : tensor<4x2xf32>
  %r = npu.relu6 %p_1 : tensor<4x2xf32> to tensor<4x2xf32>
  %r_1 = quant.stats %r {layerStats = dense<[0.0, 6.0]> : tensor<2xf32>} : tensor<4x2xf32>
  return %r_1 : tensor<4x2xf32>
}
