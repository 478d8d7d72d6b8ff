// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes -o %t
// RUN: filecheck %s --input-file %t
// RUN: qdialect-check --allow-unregistered-dialect %s %t

// What a slice cuts off is said by lists of integers.
// CHECK-LABEL: @f
// CHECK: "onnx.Constant"() {value = dense<[[2], [5]]> : tensor<2x1xi8>}
// CHECK-NOT: onnx.Slice
func.func @f() -> tensor<2x1xi8> {
  %w = "onnx.Constant"() {value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi8>} : () -> tensor<2x3xi8>
  %starts = "onnx.Constant"() {value_ints = [1 : si64]} : () -> tensor<1xi64>
  %ends = "onnx.Constant"() {value_ints = [2 : si64]} : () -> tensor<1xi64>
  %axes = "onnx.Constant"() {value_ints = [1]} : () -> tensor<1xi64>
  %0 = "onnx.Slice"(%w, %starts, %ends, %axes) : (tensor<2x3xi8>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2x1xi8>
  return %0 : tensor<2x1xi8>
}

// CHECK-LABEL: @in_torch
// CHECK-NOT: onnx.Slice
func.func @in_torch() -> !torch.vtensor<[2,1],si8> {
  %w = "torch.operator"() {name = "onnx.Constant", torch.onnx.value = dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xsi8>} : () -> !torch.vtensor<[2,3],si8>
  %starts = "torch.operator"() {name = "onnx.Constant", torch.onnx.value_ints = [1 : si64]} : () -> !torch.vtensor<[1],si64>
  %ends = "torch.operator"() {name = "onnx.Constant", torch.onnx.value_ints = [2 : si64]} : () -> !torch.vtensor<[1],si64>
  %axes = "torch.operator"() {name = "onnx.Constant", torch.onnx.value_ints = [1 : si64]} : () -> !torch.vtensor<[1],si64>
  %0 = "torch.operator"(%w, %starts, %ends, %axes) {name = "onnx.Slice"} : (!torch.vtensor<[2,3],si8>, !torch.vtensor<[1],si64>, !torch.vtensor<[1],si64>, !torch.vtensor<[1],si64>) -> !torch.vtensor<[2,1],si8>
  return %0 : !torch.vtensor<[2,1],si8>
}

// Scales, and what is moved, may be a number or a list.
// CHECK-LABEL: @numbers
// CHECK: %w = "onnx.Constant"() {value = dense<[[1], [2]]> : tensor<2x1xi8>}
// CHECK: value = dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK: "onnx.DequantizeLinear"({{.*}}) <{axis = 0 : si64}>
// CHECK: value = dense<5.000000e-01> : tensor<f32>
// CHECK: "onnx.Constant"() {value = dense<{{\[\[}}5.000000e-01, 3.000000e+00]]> : tensor<1x2xf32>}
// CHECK-NOT: onnx.Transpose
// CHECK-NOT: onnx.Reshape
func.func @numbers() -> (tensor<2x1xf32>, tensor<2x1xf32>, tensor<1x2xf32>) {
  %w = "onnx.Constant"() {value = dense<[[1, 2]]> : tensor<1x2xi8>} : () -> tensor<1x2xi8>
  %scales = "onnx.Constant"() {value_floats = [0.5 : f32, 0.25 : f32]} : () -> tensor<2xf32>
  %real = "onnx.DequantizeLinear"(%w, %scales) <{axis = 1 : si64}> : (tensor<1x2xi8>, tensor<2xf32>) -> tensor<1x2xf32>
  %columns = "onnx.Transpose"(%real) : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %v = "onnx.Constant"() {value = dense<[[3, 4]]> : tensor<1x2xi8>} : () -> tensor<1x2xi8>
  %scale = "onnx.Constant"() {value_float = 0.5 : f32} : () -> tensor<f32>
  %other = "onnx.DequantizeLinear"(%v, %scale) : (tensor<1x2xi8>, tensor<f32>) -> tensor<1x2xf32>
  %transposed = "onnx.Transpose"(%other) : (tensor<1x2xf32>) -> tensor<2x1xf32>
  %list = "onnx.Constant"() {value_floats = [0.5 : f32, 3.0 : f32]} : () -> tensor<2xf32>
  %shape = "onnx.Constant"() {value_ints = [1, 2]} : () -> tensor<2xi64>
  %row = "onnx.Reshape"(%list, %shape) : (tensor<2xf32>, tensor<2xi64>) -> tensor<1x2xf32>
  return %columns, %transposed, %row : tensor<2x1xf32>, tensor<2x1xf32>, tensor<1x2xf32>
}
