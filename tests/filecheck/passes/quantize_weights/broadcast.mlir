// RUN: qdialect-opt %s --quantize-weights --remarks --verify-diagnostics | filecheck %s

// A matrix that is broadcast to a batch is quantized before, along its own axis.
// CHECK-LABEL: @batch
// CHECK:         %w_1 = quant.dcast %w : tensor<4x2x!quant.uniform<i8:f32:1, {0.054901961237192154,0.062745101749897003}>> to tensor<4x2xf32>
// CHECK:         linalg.broadcast ins(%w_1
func.func @batch(%x: tensor<5x3x4xf32>, %init: tensor<5x3x2xf32>) -> tensor<5x3x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %e = tensor.empty() : tensor<5x4x2xf32>
  %b = linalg.broadcast ins(%w : tensor<4x2xf32>) outs(%e : tensor<5x4x2xf32>) dimensions = [0]
  // expected-remark @+1 {{quantized 'linalg.batch_matmul': its weights are 'i8', per channel}}
  %0 = linalg.batch_matmul ins(%x, %b : tensor<5x3x4xf32>, tensor<5x4x2xf32>) outs(%init : tensor<5x3x2xf32>) -> tensor<5x3x2xf32>
  return %0 : tensor<5x3x2xf32>
}

// What is no sum of products is no layer, and has no remark.
// CHECK-LABEL: @elementwise
func.func @elementwise(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
