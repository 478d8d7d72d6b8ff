// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes=verify=values | filecheck %s

// Dequantize ops of others, with their own constants and shape ops: nothing registers these.

// An attribute that is the type of the result stays that.
// CHECK-LABEL: @tfl
// CHECK-NEXT: %w = "tfl.pseudo_qconst"() <{qtype = tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:1}>>, value = dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xi8>}>
// CHECK-NEXT: %w_1 = "tfl.pseudo_qconst"() <{qtype = tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:1}>>, value = dense<{{\[\[}}1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}>
// CHECK-NEXT: %d = "tfl.dequantize"(%w_1)
// CHECK-NEXT: return %d, %w
func.func @tfl() -> (tensor<2x3xf32>, tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.25:1}>>) {
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25:1}>>, value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>}> : () -> tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25:1}>>
  %p = "tfl.pseudo_const"() <{value = dense<[1, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %t = "tfl.transpose"(%w, %p) : (tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25:1}>>, tensor<2xi32>) -> tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.25:1}>>
  %d = "tfl.dequantize"(%t) : (tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.25:1}>>) -> tensor<3x2xf32>
  %r = "tfl.transpose"(%d, %p) : (tensor<3x2xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  return %r, %t : tensor<2x3xf32>, tensor<3x2x!quant.uniform<i8:f32:1, {0.5,0.25:1}>>
}

// The scales follow an axis of the result.
// CHECK-LABEL: @onnx
// CHECK-NEXT: %w = "onnx.Constant"() {value = dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xui8>}
// CHECK-NEXT: %s = "onnx.Constant"() {value = dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>}
// CHECK-NEXT: %z = "onnx.Constant"() {value = dense<128> : tensor<2xui8>}
// CHECK-NEXT: %d = "onnx.DequantizeLinear"(%w, %s, %z) {axis = 1 : si64, block_size = 0 : si64}
// CHECK-NEXT: return %d
func.func @onnx() -> (tensor<3x2xf32>) {
  %w = "onnx.Constant"() {value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xui8>} : () -> tensor<2x3xui8>
  %s = "onnx.Constant"() {value = dense<[0.5, 0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  %z = "onnx.Constant"() {value = dense<128> : tensor<2xui8>} : () -> tensor<2xui8>
  %d = "onnx.DequantizeLinear"(%w, %s, %z) {axis = 0 : si64, block_size = 0 : si64} : (tensor<2x3xui8>, tensor<2xf32>, tensor<2xui8>) -> tensor<2x3xf32>
  %t = "onnx.Transpose"(%d) {perm = [1, 0]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %t : tensor<3x2xf32>
}

// CHECK-LABEL: @mhlo
// CHECK-NEXT: %w = "mhlo.constant"() {value = dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xi8>} : () -> tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:1}>>
// CHECK-NEXT: %d = "mhlo.uniform_dequantize"(%w)
// CHECK-NEXT: return %d
func.func @mhlo() -> (tensor<3x2xf32>) {
  %w = "mhlo.constant"() {value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>} : () -> tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25:1}>>
  %d = "mhlo.uniform_dequantize"(%w) : (tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25:1}>>) -> tensor<2x3xf32>
  %t = "mhlo.transpose"(%d) {permutation = dense<[1, 0]> : tensor<2xi64>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %t : tensor<3x2xf32>
}

// CHECK-LABEL: @quantfork
// CHECK-NEXT: %w = arith.constant dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xi8>
// CHECK-NEXT: %q = "quantfork.scast"(%w) : (tensor<3x2xi8>) -> tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:1}>>
// CHECK-NEXT: %d = "quantization.dcast"(%q)
// CHECK-NEXT: return %d
func.func @quantfork() -> (tensor<3x2xf32>) {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>
  %q = "quantfork.scast"(%w) : (tensor<2x3xi8>) -> tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25:1}>>
  %d = "quantization.dcast"(%q) : (tensor<2x3x!quant.uniform<i8:f32:0, {0.5,0.25:1}>>) -> tensor<2x3xf32>
  %t = "ttir.permute"(%d) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %t : tensor<3x2xf32>
}

// Per tensor, with a scale of one element; and shape ops that say their axes in operands.
// CHECK-LABEL: @operands
// CHECK-NEXT: %w = "onnx.Constant"() {value = dense<{{\[\[}}2, 3], [6, 7]]> : tensor<2x2xi8>}
// CHECK-NEXT: %s = "onnx.Constant"() {value = dense<5.000000e-01> : tensor<f32>}
// CHECK-NEXT: %d = "onnx.DequantizeLinear"(%w, %s, %none)
// CHECK-NEXT: return %d
func.func @operands(%none: none) -> tensor<2x2xf32> {
  %w = "onnx.Constant"() {value = dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8>} : () -> tensor<2x4xi8>
  %s = "onnx.Constant"() {value = dense<[0.5]> : tensor<1xf32>} : () -> tensor<1xf32>
  %d = "onnx.DequantizeLinear"(%w, %s, %none) {axis = 1 : si64} : (tensor<2x4xi8>, tensor<1xf32>, none) -> tensor<2x4xf32>
  %from = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %to = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %r = "onnx.Slice"(%d, %from, %to, %from, %from) : (tensor<2x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// CHECK-LABEL: @tfl_shape_ops
// CHECK-NEXT: %w = "tfl.pseudo_qconst"() <{qtype = tensor<3x1x4x!quant.uniform<i8:f32, 5.000000e-01:1>>, value = dense<{{\[\[\[}}1, 2, 1, 1]], {{\[\[}}3, 4, 1, 1]], {{\[\[}}1, 2, 1, 1]]]> : tensor<3x1x4xi8>}>
// CHECK-NEXT: return %w
func.func @tfl_shape_ops() -> tensor<3x1x4x!quant.uniform<i8:f32, 0.5:1>> {
  %w = "tfl.pseudo_qconst"() <{qtype = tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>, value = dense<[[3, 4], [1, 2]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>
  %indices = "tfl.pseudo_const"() <{value = dense<[1, 0, 1]> : tensor<3xi32>}> : () -> tensor<3xi32>
  %rows = "tfl.gather"(%w, %indices) <{axis = 0 : i32, batch_dims = 0 : i32}> : (tensor<2x2x!quant.uniform<i8:f32, 0.5:1>>, tensor<3xi32>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5:1>>
  %widths = "tfl.pseudo_const"() <{value = dense<[[0, 0], [0, 2]]> : tensor<2x2xi32>}> : () -> tensor<2x2xi32>
  %padded = "tfl.pad"(%rows, %widths) : (tensor<3x2x!quant.uniform<i8:f32, 0.5:1>>, tensor<2x2xi32>) -> tensor<3x4x!quant.uniform<i8:f32, 0.5:1>>
  %shape = "tfl.pseudo_const"() <{value = dense<[3, 1, 4]> : tensor<3xi32>}> : () -> tensor<3xi32>
  %r = "tfl.reshape"(%padded, %shape) : (tensor<3x4x!quant.uniform<i8:f32, 0.5:1>>, tensor<3xi32>) -> tensor<3x1x4x!quant.uniform<i8:f32, 0.5:1>>
  return %r : tensor<3x1x4x!quant.uniform<i8:f32, 0.5:1>>
}

// Text of older tools has no properties.
// CHECK-LABEL: @attributes
// CHECK-NEXT: %w = "tfl.pseudo_qconst"() {qtype = tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01>>, value = dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xi8>}
func.func @attributes() -> tensor<3x2x!quant.uniform<i8:f32, 0.5>> {
  %w = "tfl.pseudo_qconst"() {qtype = tensor<2x3x!quant.uniform<i8:f32, 0.5>>, value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>} : () -> tensor<2x3x!quant.uniform<i8:f32, 0.5>>
  %p = "tfl.pseudo_const"() {value = dense<[1, 0]> : tensor<2xi32>} : () -> tensor<2xi32>
  %t = "tfl.transpose"(%w, %p) : (tensor<2x3x!quant.uniform<i8:f32, 0.5>>, tensor<2xi32>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  return %t : tensor<3x2x!quant.uniform<i8:f32, 0.5>>
}
