// RUN: qdialect-opt %s --quantize-with-ranges --quantization-table --quantization-report=%t.json --allow-unregistered-dialect -o /dev/null 2>&1 | filecheck %s
// RUN: filecheck %s --check-prefix JSON < %t.json
// RUN: qdialect-opt %s --quantize-weights --quantization-table --allow-unregistered-dialect -o /dev/null 2>&1 | filecheck %s --check-prefix WEIGHTS
// RUN: not qdialect-opt %s --quantize-with-ranges --quantization-report=%s --allow-unregistered-dialect 2>&1 | filecheck %s --check-prefix INPUT

// CHECK:      quantization:
// CHECK-NEXT:   value  is          stored as  follows from
// CHECK-NEXT:   x      argument    u8         own {{ +}}-1 to 1 {{ +}}0.0078431:128 {{ +}}0.00 % {{ +}}48.13
// CHECK-NEXT:   init   argument    f32        no quantized op makes or reads it
// CHECK-NEXT:   p      activation  f32        it is quantized only after the bias is added
// CHECK-NEXT:   y      activation  u8         own {{ +}}-4 to 4
// CHECK-NEXT:   o      activation  f32        no quantization rule for 'other.op' is known
// CHECK-NEXT:   w      weight      u8         given {{ +}}-0.5 to 2 {{ +}}2 of 0.0058824 to 0.0078431:0 to 85 {{ +}}0
// CHECK-NEXT:   b      bias        i32        derived (y) {{ +}}-1 to 3 {{ +}}2 of 4.6136e-05 to 6.1515e-05:0 {{ +}}0

// JSON:      "format": "qdialect-quantization-report"
// JSON:        "key": "x"
// JSON-NEXT:   "name": "%x"
// JSON:        "key": "o"
// JSON:        "code": "unknown-op"
// JSON-NEXT:   "reason": "no quantization rule for 'other.op' is known"
// JSON:        "key": "w"
// JSON:        "role": "weight"
// JSON:        "basis": "measured"

// WEIGHTS:      value  is      stored as
// WEIGHTS-NEXT: w      weight  i8         given {{ +}}-0.5 to 2 {{ +}}2 of {{.*}}:0 {{ +}}0

// INPUT: the quantization report would be written over the input file
func.func @main(%x: tensor<4x2xf32>, %init: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = quant.stats %x {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : tensor<4x2xf32>
  %w = "tosa.const"() {values = dense<[[1.0, 2.0], [-0.5, 1.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %b = "tosa.const"() {values = dense<[[-1.0, 3.0]]> : tensor<1x2xf32>} : () -> tensor<1x2xf32>
  %p = linalg.matmul ins(%0, %w : tensor<4x2xf32>, tensor<2x2xf32>) outs(%init : tensor<4x2xf32>) -> tensor<4x2xf32>
  %y = tosa.add %p, %b : (tensor<4x2xf32>, tensor<1x2xf32>) -> tensor<4x2xf32>
  %1 = quant.stats %y {layerStats = dense<[-4.0, 4.0]> : tensor<2xf32>} : tensor<4x2xf32>
  %o = "other.op"(%1) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %o : tensor<4x2xf32>
}
