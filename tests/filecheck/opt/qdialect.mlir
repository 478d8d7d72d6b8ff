// RUN: qdialect --help | filecheck %s --check-prefix=HELP
// RUN: qdialect | filecheck %s --check-prefix=HELP
// RUN: qdialect --version | filecheck %s --check-prefix=VERSION
// RUN: not qdialect quantise 2>&1 | filecheck %s --check-prefix=TYPO
// RUN: not qdialect fold 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: qdialect opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect run %s --symbol f | filecheck %s --check-prefix=RESULT
// RUN: not qdialect import %s 2>&1 | filecheck %s --check-prefix=IMPORT
// RUN: not qdialect import %t.none.onnx 2>&1 | filecheck %s --check-prefix=NONE

// HELP:      usage: qdialect SUBCOMMAND ...
// HELP:      Quantize a model:
// HELP-NEXT:   quantize   from a model and records to a quantized model
// VERSION: qdialect-opt {{.*}}xDSL
// TYPO: qdialect: error: there is no subcommand 'quantise'; did you mean 'quantize'?
// UNKNOWN: qdialect: error: there is no subcommand 'fold'; there are quantize, import, calibrate
// CHECK: quant.constant dense<{{\[\[}}1, 3], [2, 4]]>
// RESULT: dense<{{\[\[}}1.0{{.*}}, 3.0
// IMPORT: qdialect-import: error: '{{.*}}qdialect.mlir' must end in .onnx, .tflite, .pt2
// NONE: qdialect-import: error: cannot open '{{.*}}.none.onnx': there is no such file

func.func @f() -> tensor<2x2xf32> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!quant.uniform<i8:f32, 1.0>>
  %t = quant.transpose %w permutation = [1, 0] : tensor<2x2x!quant.uniform<i8:f32, 1.0>> to tensor<2x2x!quant.uniform<i8:f32, 1.0>>
  %r = quant.dcast %t : tensor<2x2x!quant.uniform<i8:f32, 1.0>> to tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}
