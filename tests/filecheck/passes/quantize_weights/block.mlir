// RUN: qdialect-opt %s --quantize-weights="granularity=block block-size=2 storage=u4 scheme=glow-asymmetric" --verify-diagnostics --remarks | filecheck %s
// RUN: qdialect-opt %s --quantize-weights="granularity=block block-size=2 storage=u4 scheme=glow-asymmetric otherwise=coarser" | filecheck %s --check-prefix=COARSER

// Blocks are of the axis that is summed over, one column of them for each channel.
// CHECK-LABEL: @blocks
// CHECK-NEXT:    quant.constant dense<[{{\[}}0, 15], [15, 0], [0, 0], [15, 15]]> : tensor<4x2x!quant.uniform<u4:f32:{0:2, 1:1}, {{.*}}0.0666666701:-1, 0.13333334}, {2.000000e-01, 0.266666681}
func.func @blocks(%x: tensor<3x4xf32>, %init: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = arith.constant dense<[[-1.0, 2.0], [0.0, 0.0], [0.0, 0.0], [3.0, 4.0]]> : tensor<4x2xf32>
  // expected-remark @+1 {{quantized 'linalg.matmul': its weights are 'u4', per block}}
  %0 = linalg.matmul ins(%x, %w : tensor<3x4xf32>, tensor<4x2xf32>) outs(%init : tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// CHECK-LABEL: @not_divided
// CHECK-NEXT:    arith.constant
// COARSER-LABEL: @not_divided
// COARSER-NEXT:    quant.constant dense<[{{\[}}0, 0], [7, 8], [15, 15]]> : tensor<3x2x!quant.uniform<u4:f32:1, {0.066666670143604279,0.13333334028720856}>>
func.func @not_divided(%x: tensor<3x3xf32>, %init: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = arith.constant dense<[[0.0, 0.0], [0.5, 1.1], [1.0, 2.0]]> : tensor<3x2xf32>
  // expected-warning @+2 {{'linalg.matmul' op stays float: blocks of 2 do not divide axis 0 of its weights, of length 3; 2 more, see --remarks}}
  // expected-remark @+1 {{not quantized: blocks of 2 do not divide axis 0 of its weights, of length 3 [granularity]}}
  %0 = linalg.matmul ins(%x, %w : tensor<3x3xf32>, tensor<3x2xf32>) outs(%init : tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// Two layers read one tensor along other axes.
// COARSER-LABEL: @two_layers
// COARSER-NEXT:    quant.constant dense<[{{\[}}0, 4], [8, 15]]> : tensor<2x2x!quant.uniform<u4:f32, 0.20000000298023224>>
func.func @two_layers(%x: tensor<2x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[0.0, 0.8], [1.6, 3.0]]> : tensor<2x2xf32>
  // expected-remark @+1 {{not quantized: its weights are read along other axes by others [granularity]}}
  %0 = linalg.matmul ins(%x, %w : tensor<2x2xf32>, tensor<2x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  // expected-remark @+1 {{not quantized: its weights are read along other axes by others [granularity]}}
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%0, %w : tensor<2x2xf32>, tensor<2x2xf32>) outs(%init : tensor<2x2xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %c, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}
