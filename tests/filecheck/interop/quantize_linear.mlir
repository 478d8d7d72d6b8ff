// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes -o %t
// RUN: filecheck %s --input-file %t
// RUN: qdialect-check --allow-unregistered-dialect %s %t

// The floats are moved, and are rounded along another axis.
// CHECK-LABEL: @f
// CHECK: [[w:%[^ ]+]] = "onnx.Constant"() {value = dense<{{\[\[}}1.000000e+00, 4.000000e+00], [2.000000e+00, 5.000000e+00], [3.000000e+00, 6.000000e+00]]>
// CHECK: [[q:%[^ ]+]] = "onnx.QuantizeLinear"([[w]], {{.*}}) {axis = 1 : si64}
// CHECK: [[d:%[^ ]+]] = "onnx.DequantizeLinear"([[q]], {{.*}}) {axis = 1 : si64}
// CHECK-NEXT: return [[d]] : tensor<3x2xf32>
func.func @f() -> tensor<3x2xf32> {
  %w = "onnx.Constant"() {value = dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>} : () -> tensor<2x3xf32>
  %s = "onnx.Constant"() {value = dense<[0.5, 0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  %z = "onnx.Constant"() {value = dense<[1, 2]> : tensor<2xi8>} : () -> tensor<2xi8>
  %q = "onnx.QuantizeLinear"(%w, %s, %z) {axis = 0 : si64} : (tensor<2x3xf32>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x3xi8>
  %d = "onnx.DequantizeLinear"(%q, %s, %z) {axis = 0 : si64} : (tensor<2x3xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x3xf32>
  %t = "onnx.Transpose"(%d) {perm = [1 : si64, 0 : si64]} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %t : tensor<3x2xf32>
}
