// RUN: qdialect-opt %s --fold-constant-shapes=max-repetition=1024 | filecheck %s
// RUN: qdialect-opt %s --fold-constant-shapes=max-repetition=1024 --fold-report=%t.json -o /dev/null && filecheck %s --check-prefix=REPORT --input-file=%t.json

// Floats are moved bit for bit, and the constant keeps its name and its attributes.
// CHECK-LABEL: @named
// CHECK-NEXT: %conv1_weight = arith.constant {profile = "conv1"} dense<{{\[\[}}1.000000e+00, 0x7FC00001], [-0.000000e+00, 2.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT: return %conv1_weight
// REPORT: "outcome": "folded"
// REPORT: "op": "linalg.transpose"
// REPORT: "sources": [
// REPORT-NEXT: "%conv1_weight"
// REPORT: "constant": "%conv1_weight"
// REPORT: "range": "same"
func.func @named() -> tensor<2x2xf32> {
  %conv1_weight = arith.constant {profile = "conv1"} dense<[[1.0, -0.0], [0x7FC00001, 2.0]]> : tensor<2x2xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %t = linalg.transpose ins(%conv1_weight : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) permutation = [1, 0]
  return %t : tensor<2x2xf32>
}

// What is known of the range of a slice, of what is repeated, joined or padded.
// CHECK-LABEL: @ranges
// CHECK: %bias = arith.constant dense<[2, 3]> : tensor<2xi32>
// CHECK: %bias_1 = arith.constant dense<{{\[\[}}1, 2, 3], [1, 2, 3]]> : tensor<2x3xi32>
// CHECK: %bias_2 = arith.constant dense<[1, 2, 3, 9]> : tensor<4xi32>
// CHECK: %bias_3 = arith.constant dense<[0, 1, 2, 3]> : tensor<4xi32>
// REPORT: "tensor.extract_slice"
// REPORT: "range": "superset"
// REPORT: "linalg.broadcast"
// REPORT: "constant": "%bias_1"
// REPORT: "range": "superset"
// REPORT: "tensor.concat"
// REPORT: "sources": [
// REPORT-NEXT: "%bias",
// REPORT-NEXT: "%more"
// REPORT: "constant": "%bias_2"
// REPORT: "range": "union"
// REPORT: "tensor.pad"
// REPORT: "constant": "%bias_3"
// REPORT: "range": "padded"
func.func @ranges() -> (tensor<2xi32>, tensor<2x3xi32>, tensor<4xi32>, tensor<4xi32>) {
  %bias = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
  %more = arith.constant dense<9> : tensor<1xi32>
  %zero = arith.constant 0 : i32
  %s = tensor.extract_slice %bias[1] [2] [1] : tensor<3xi32> to tensor<2xi32>
  %e = tensor.empty() : tensor<2x3xi32>
  %b = linalg.broadcast ins(%bias : tensor<3xi32>) outs(%e : tensor<2x3xi32>) dimensions = [0]
  %c = tensor.concat dim(0) %bias, %more : (tensor<3xi32>, tensor<1xi32>) -> tensor<4xi32>
  %p = tensor.pad %bias low[1] high[0] {
  ^bb0(%i: index):
    tensor.yield %zero : i32
  } : tensor<3xi32> to tensor<4xi32>
  return %s, %b, %c, %p : tensor<2xi32>, tensor<2x3xi32>, tensor<4xi32>, tensor<4xi32>
}

// What is quantized is for fold-quant-shapes.
// CHECK-LABEL: @quantized
// CHECK: quant.reverse
// REPORT: "outcome": "refused"
// REPORT: "op": "quant.reverse"
// REPORT: "code": "quantized"
func.func @quantized() -> tensor<2x!quant.uniform<i8:f32, 0.5>> {
  %w = quant.constant dense<[1, 2]> : tensor<2x!quant.uniform<i8:f32, 0.5>>
  %r = quant.reverse %w dims = [0] : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2x!quant.uniform<i8:f32, 0.5>>
  return %r : tensor<2x!quant.uniform<i8:f32, 0.5>>
}

// Every value that is gone, and what now stands for it.
// REPORT: "values": [
// REPORT: "vanished": "%t"
// REPORT-NEXT: constants.mlir:{{[0-9]+}}:8"
// REPORT-NEXT: "stands": "%conv1_weight"
// REPORT: "vanished": "%conv1_weight"
// REPORT: "stands": "%conv1_weight"
