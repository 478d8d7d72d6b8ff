// RUN: qdialect-opt %s --quantize-with-ranges=scheme=one-u8 --verify-quantization="strict scheme=one-u8 granularity=channel" | filecheck %s
// RUN: qdialect-opt %s --quantize-with-ranges="scheme=one-u8 granularity=layer" --verify-quantization="strict scheme=one-u8 granularity=layer" | filecheck %s
// RUN: qdialect-opt %s --quantize-with-ranges=scheme=one-s16 --verify-quantization="strict scheme=one-s16" | filecheck %s
// RUN: qdialect-opt %s --quantize-with-ranges=scheme=torch-i8 --verify-quantization="strict scheme=torch-i8" | filecheck %s
// RUN: echo '{"layers": [{"name": "z", "dtype": "int16"}]}' > %t.json
// RUN: qdialect-opt %s --quantize-with-ranges=config=%t.json --verify-quantization="strict config=%t.json" | filecheck %s
// RUN: not qdialect-opt %s --quantize-with-ranges --verify-quantization=config=%t.json 2>&1 | filecheck %s --check-prefix CONFIG
// RUN: not qdialect-opt %s --quantize-with-ranges --verify-quantization=scheme=one-s16 2>&1 | filecheck %s --check-prefix S16
// RUN: not qdialect-opt %s --quantize-with-ranges --verify-quantization=granularity=layer 2>&1 | filecheck %s --check-prefix LAYER
// RUN: not qdialect-opt %s --verify-quantization=granularity=row 2>&1 | filecheck %s --check-prefix WORD
// RUN: qdialect-opt %s --quantize-weights --verify-quantization="strict" | filecheck %s

// The module is not changed.
// CHECK: linalg.matmul
// CONFIG: error: 'tosa.tanh' op computes in 'u8', but 'i16' is expected: quantize it again, or give it that precision in the configuration
// S16: error: 'tosa.add' op computes in 'u8', but 'i16' is expected
// S16: error: 'linalg.matmul' op has weights of 'u8', but 'i16' is expected: quantize them again
// LAYER: error: 'linalg.matmul' op has weights with 3 scales, but one is expected: quantize them with granularity=layer
// WORD: granularity must be one of layer, tensor, channel, block, not 'row'
func.func @main(%x: tensor<4x2xf32>, %i: tensor<4x3xf32>) -> tensor<3x4xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<4x2xf32>
  %w = "tosa.const"() {values = dense<[[1.0, 2.0, 0.5], [-0.5, 1.0, 0.25]]> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %b = "tosa.const"() {values = dense<[[-1.0, 3.0, 0.0]]> : tensor<1x3xf32>} : () -> tensor<1x3xf32>
  %p = linalg.matmul ins(%0, %w : tensor<4x2xf32>, tensor<2x3xf32>) outs(%i : tensor<4x3xf32>) -> tensor<4x3xf32>
  %y = tosa.add %p, %b : (tensor<4x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %1 = quant.stats %y {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<4x3xf32>
  %z = tosa.tanh %1 : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = quant.stats %z {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<4x3xf32>
  %t = tosa.transpose %2 {perms = array<i32: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  return %t : tensor<3x4xf32>
}
