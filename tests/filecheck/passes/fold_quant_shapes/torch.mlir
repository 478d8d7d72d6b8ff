// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes=verify=values | filecheck %s

// As torch-mlir prints it in generic form.

// The axis is a constant, and made anew.
// CHECK-LABEL: @per_channel
// CHECK-NEXT: %none = "torch.constant.none"() : () -> !torch.none
// CHECK-NEXT: %zero = "torch.constant.int"() <{value = 0 : i64}> : () -> !torch.int
// CHECK-NEXT: %w = "torch.vtensor.literal"() <{value = dense<{{\[\[}}1, 4], [2, 5], [3, 6]]> : tensor<3x2xsi8>}> : () -> !torch.vtensor<[3,2],si8>
// CHECK-NEXT: %s = "torch.vtensor.literal"() <{value = dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
// CHECK-NEXT: %z = "torch.vtensor.literal"() <{value = dense<[0, 3]> : tensor<2xsi64>}> : () -> !torch.vtensor<[2],si64>
// CHECK-NEXT: %[[AXIS:[a-z0-9]+]] = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
// CHECK-NEXT: %d = "torch.quantized_decomposed.dequantize_per_channel"(%w, %s, %z, %[[AXIS]], %zero, %zero, %zero, %none)
// CHECK-SAME: -> !torch.vtensor<[3,2],f32>
// CHECK-NEXT: return %d
func.func @per_channel() -> !torch.vtensor<[3,2],f32> {
  %w = "torch.vtensor.literal"() <{value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xsi8>}> : () -> !torch.vtensor<[2,3],si8>
  %s = "torch.vtensor.literal"() <{value = dense<[0.5, 0.25]> : tensor<2xf32>}> : () -> !torch.vtensor<[2],f32>
  %z = "torch.vtensor.literal"() <{value = dense<[0, 3]> : tensor<2xsi64>}> : () -> !torch.vtensor<[2],si64>
  %none = "torch.constant.none"() : () -> !torch.none
  %zero = "torch.constant.int"() <{value = 0 : i64}> : () -> !torch.int
  %d = "torch.quantized_decomposed.dequantize_per_channel"(%w, %s, %z, %zero, %zero, %zero, %zero, %none) : (!torch.vtensor<[2,3],si8>, !torch.vtensor<[2],f32>, !torch.vtensor<[2],si64>, !torch.int, !torch.int, !torch.int, !torch.int, !torch.none) -> !torch.vtensor<[2,3],f32>
  %one = "torch.constant.int"() <{value = 1 : i64}> : () -> !torch.int
  %l = "torch.prim.ListConstruct"(%one, %zero) : (!torch.int, !torch.int) -> !torch.list<int>
  %t = "torch.aten.permute"(%d, %l) : (!torch.vtensor<[2,3],f32>, !torch.list<int>) -> !torch.vtensor<[3,2],f32>
  return %t : !torch.vtensor<[3,2],f32>
}

// CHECK-LABEL: @onnx
// CHECK-NEXT: %none = "torch.constant.none"() : () -> !torch.none
// CHECK-NEXT: %w = "torch.operator"() <{name = "onnx.Constant"}> {torch.onnx.value = dense<{{\[\[}}1, 4], [2, 5], [3, 6], [4, 7]]> : tensor<4x2xui8>} : () -> !torch.vtensor<[4,2],ui8>
// CHECK-NEXT: %s = "torch.operator"() <{name = "onnx.Constant"}> {torch.onnx.value = dense<{{\[\[}}1.000000e+00, 2.000000e+00], [5.000000e-01, 2.500000e-01]]> : tensor<2x2xf32>} : () -> !torch.vtensor<[2,2],f32>
// CHECK-NEXT: %d = "torch.operator"(%w, %s, %none) <{name = "onnx.DequantizeLinear"}> {torch.onnx.axis = 0 : si64, torch.onnx.block_size = 2 : si64}
// CHECK-NEXT: return %d
func.func @onnx() -> !torch.vtensor<[4,2],f32> {
  %w = "torch.operator"() <{name = "onnx.Constant"}> {torch.onnx.value = dense<[[1, 2, 3, 4], [4, 5, 6, 7]]> : tensor<2x4xui8>} : () -> !torch.vtensor<[2,4],ui8>
  %s = "torch.operator"() <{name = "onnx.Constant"}> {torch.onnx.value = dense<[[1.0, 0.5], [2.0, 0.25]]> : tensor<2x2xf32>} : () -> !torch.vtensor<[2,2],f32>
  %none = "torch.constant.none"() : () -> !torch.none
  %d = "torch.operator"(%w, %s, %none) <{name = "onnx.DequantizeLinear"}> {torch.onnx.axis = 1 : si64, torch.onnx.block_size = 2 : si64} : (!torch.vtensor<[2,4],ui8>, !torch.vtensor<[2,2],f32>, !torch.none) -> !torch.vtensor<[2,4],f32>
  %t = "torch.operator"(%d) <{name = "onnx.Transpose"}> {torch.onnx.perm = [1 : si64, 0 : si64]} : (!torch.vtensor<[2,4],f32>) -> !torch.vtensor<[4,2],f32>
  return %t : !torch.vtensor<[4,2],f32>
}

// What an op that is not known names is not looked at.
// CHECK-LABEL: @others
// CHECK: "torch.operator"(%w) <{name = "tensor.transpose"}>
func.func @others() -> !torch.vtensor<[2],si8> {
  %w = "torch.vtensor.literal"() <{value = dense<[1, 2]> : tensor<2xsi8>}> : () -> !torch.vtensor<[2],si8>
  %t = "torch.operator"(%w) <{name = "tensor.transpose"}> : (!torch.vtensor<[2],si8>) -> !torch.vtensor<[2],si8>
  return %t : !torch.vtensor<[2],si8>
}
