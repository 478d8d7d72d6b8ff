// RUN: not qdialect-opt %s --quantize-with-ranges="scheme=one-s16 granularity=layer" 2>&1 | filecheck %s --check-prefix LAYER
// RUN: qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges="scheme=torch-i8 granularity=layer" -o /dev/null
// RUN: echo '{"default_granularity": "layer", "layers": [{"name": "p", "dtype": "int16"}]}' > %t.json
// RUN: not qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges=config=%t.json 2>&1 | filecheck %s --check-prefix OF-LAYER
// RUN: echo '{"layers": [{"name": "o", "dtype": "int16"}]}' > %t.json
// RUN: not qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges=config=%t.json 2>&1 | filecheck %s --check-prefix UNKNOWN
// RUN: echo '{"layers": [{"name": "u", "dtype": "int16"}]}' > %t.json
// RUN: not qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges=config=%t.json 2>&1 | filecheck %s --check-prefix ARGUMENT
// RUN: not qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges=input-types=u8,u8 2>&1 | filecheck %s --check-prefix COUNT
// RUN: not qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges=input-types=u8,u8,u8,u8 2>&1 | filecheck %s --check-prefix INTEGERS
// RUN: not qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges=input-types=u4 2>&1 | filecheck %s --check-prefix WORD
// RUN: qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges="input-types=u8" | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect --quantize-with-ranges --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix REMARKS

// LAYER: error: {{.*}}scheme one-s16 has no granularity=layer: ONE's 16-bit kernels read a scale for each channel; use granularity=channel
// OF-LAYER: error: {{.*}}.json:1:45: layer 'p': scheme one-s16 has no granularity=layer
// UNKNOWN: error: {{.*}}.json:1:13: layer 'o' cannot have a precision of its own: it is a result of 'other.op', and no quantization rule for it is known
// ARGUMENT: error: {{.*}}.json:1:13: layer 'u' cannot have a precision of its own: it is an argument
// COUNT: error: input-types has 2 types, but the function has 4
// INTEGERS: error: input-types cannot change number 2, 'tensor<4xi32>'
// WORD: error: {{.*}}'u4' is not one of f32, float32, u8, uint8, i8, int8, i16, int16

// What ONE refuses, and can be said, is quantized as far as it can be, and a remark has the reason:
// weights that are no constants are activations, and a bias that is none stays in floats.
// CHECK: func.func @main(%x: tensor<4x2x!quant.uniform<u8:f32, {{.*}}>>, %w: tensor<2x3x!quant.uniform<u8:f32, {{.*}}>>, %n: tensor<4xi32>, %u: tensor<4x2xf32>)
// REMARKS: remark: quantized 'linalg.matmul': {{.*}}; its bias stays in floats: operand 2 of 'linalg.matmul' is not a constant
func.func @main(%x: tensor<4x2xf32>, %w: tensor<2x3xf32>, %n: tensor<4xi32>, %u: tensor<4x2xf32>) -> (tensor<4x3xf32>, tensor<4x2xf32>) {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<4x2xf32>
  %1 = quant.stats %w {layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>} : tensor<2x3xf32>
  %e = "other.op"() : () -> tensor<4x3xf32>
  %p = linalg.matmul ins(%0, %1 : tensor<4x2xf32>, tensor<2x3xf32>) outs(%e : tensor<4x3xf32>) -> tensor<4x3xf32>
  %2 = quant.stats %p {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<4x3xf32>
  %o = "other.op"(%0, %u) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  return %2, %o : tensor<4x3xf32>, tensor<4x2xf32>
}
