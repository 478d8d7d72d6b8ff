// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes="verify=values" | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: qdialect-opt %s --allow-unregistered-dialect --fold-quant-shapes --fold-stats -o /dev/null 2>&1 | filecheck %s --check-prefix=STATS

// REMARK: remark: folded operands #1 to #2 of 'tosa.concat' into one constant, of %a, %b
// REMARK: remark: not folded: operand #0 is an argument [not-constant]
// STATS:      constants folded    4
// STATS-NEXT: shape ops removed   1

// CHECK-LABEL: @plain
// CHECK-NEXT:    %a = arith.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:    %r = tosa.concat %x, %a {axis = 0 : i32} : (tensor<1xf32>, tensor<3xf32>) -> tensor<4xf32>
func.func @plain(%x: tensor<1xf32>) -> tensor<4xf32> {
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = arith.constant dense<3.0> : tensor<1xf32>
  %r = tosa.concat %x, %a, %b {axis = 0 : i32} : (tensor<1xf32>, tensor<2xf32>, tensor<1xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Two groups, one of them behind a shape op.
// CHECK-LABEL: @groups
// CHECK-NEXT:    %a = "onnx.Constant"() {value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>} : () -> tensor<2x2xi8>
// CHECK-NEXT:    %c = "onnx.Constant"() {value = dense<[[5, 6], [7, 8]]> : tensor<2x2xi8>} : () -> tensor<2x2xi8>
// CHECK-NEXT:    %r = "onnx.Concat"(%a, %x, %c) {axis = 0 : si64} : (tensor<2x2xi8>, tensor<1x2xi8>, tensor<2x2xi8>) -> tensor<5x2xi8>
func.func @groups(%x: tensor<1x2xi8>) -> tensor<5x2xi8> {
  %a = "onnx.Constant"() {value = dense<[[1], [2]]> : tensor<2x1xi8>} : () -> tensor<2x1xi8>
  %t = "onnx.Transpose"(%a) {perm = [1, 0]} : (tensor<2x1xi8>) -> tensor<1x2xi8>
  %b = "onnx.Constant"() {value = dense<[[3, 4]]> : tensor<1x2xi8>} : () -> tensor<1x2xi8>
  %c = "onnx.Constant"() {value = dense<[[5, 6]]> : tensor<1x2xi8>} : () -> tensor<1x2xi8>
  %d = "onnx.Constant"() {value = dense<[[7, 8]]> : tensor<1x2xi8>} : () -> tensor<1x2xi8>
  %r = "onnx.Concat"(%t, %b, %x, %c, %d) {axis = 0 : si64} : (tensor<1x2xi8>, tensor<1x2xi8>, tensor<1x2xi8>, tensor<1x2xi8>, tensor<1x2xi8>) -> tensor<5x2xi8>
  return %r : tensor<5x2xi8>
}

// CHECK-LABEL: @quantized
// CHECK-NEXT:    %a = quant.constant dense<[1, 2, 3]> : tensor<3x!quant.uniform<i8:f32:0, {5.000000e-01,5.000000e-01,2.500000e-01}>>
// CHECK-NEXT:    %r = quant.concat dim(0) %x, %a
!half = !quant.uniform<i8:f32:0, {0.5,0.5}>
!quarter = !quant.uniform<i8:f32:0, {0.25}>
!all = !quant.uniform<i8:f32:0, {0.5,0.5,0.5,0.5,0.25}>
func.func @quantized(%x: tensor<2x!half>) -> tensor<5x!all> {
  %a = quant.constant dense<[1, 2]> : tensor<2x!half>
  %b = quant.constant dense<[3]> : tensor<1x!quarter>
  %r = quant.concat dim(0) %x, %a, %b : (tensor<2x!half>, tensor<2x!half>, tensor<1x!quarter>) -> tensor<5x!all>
  return %r : tensor<5x!all>
}

// It would take more bytes, or another op needs what it is made of.
// CHECK-LABEL: @left
// CHECK:         "mhlo.concatenate"(%x, %a, %b) {dimension = 0 : i64}
// CHECK:         "mhlo.concatenate"(%a, %c, %x) {dimension = 0 : i64}
func.func @left(%x: tensor<1xi8>) -> (tensor<7xi8>, tensor<4xi8>) {
  %a = arith.constant dense<[1, 2]> : tensor<2xi8>
  %b = arith.constant dense<0> : tensor<4xi8>
  %c = arith.constant dense<3> : tensor<1xi8>
  %r = "mhlo.concatenate"(%x, %a, %b) {dimension = 0 : i64} : (tensor<1xi8>, tensor<2xi8>, tensor<4xi8>) -> tensor<7xi8>
  %s = "mhlo.concatenate"(%a, %c, %x) {dimension = 0 : i64} : (tensor<2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
  return %r, %s : tensor<7xi8>, tensor<4xi8>
}
