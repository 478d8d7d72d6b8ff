// RUN: qdialect-opt %s --quantize-weights --remarks --verify-diagnostics | filecheck %s

// CHECK-LABEL: @argument
func.func @argument(%x: tensor<3x2xf32>, %w: tensor<2x2xf32>, %init: tensor<3x2xf32>) -> tensor<3x2xf32> {
  // expected-remark @+1 {{not quantized: operand #1 is an argument [not-constant]}}
  %0 = linalg.matmul ins(%x, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%init : tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// The floats would stay as well.
// CHECK-LABEL: @other_use
// CHECK-NEXT:    arith.constant
func.func @other_use(%x: tensor<3x2xf32>, %init: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<2x2xf32>) {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  // expected-remark @+1 {{not quantized: its weights are used by 'func.return' too [uses]}}
  %0 = linalg.matmul ins(%x, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%init : tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0, %w : tensor<3x2xf32>, tensor<2x2xf32>
}

// CHECK-LABEL: @nan
// CHECK-NEXT:    arith.constant
func.func @nan(%x: tensor<3x2xf32>, %init: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 0x7FC00000]]> : tensor<2x2xf32>
  // expected-warning @+2 {{'linalg.matmul' op stays float: its weights: element [1, 1] is NaN, which has no code}}
  // expected-remark @+1 {{not quantized: its weights: element [1, 1] is NaN, which has no code [illegal-type]}}
  %0 = linalg.matmul ins(%x, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%init : tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// What is quantized already stays as it is.
// CHECK-LABEL: @quantized
// CHECK-NEXT:    quant.constant dense<1>
!q = !quant.uniform<i8:f32, 0.5>
func.func @quantized(%x: tensor<3x2xf32>, %init: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %c = quant.constant dense<1> : tensor<2x2x!q>
  %w = quant.dcast %c : tensor<2x2x!q> to tensor<2x2xf32>
  // expected-remark @+1 {{not quantized: its weights are quantized [quantized]}}
  %0 = linalg.matmul ins(%x, %w : tensor<3x2xf32>, tensor<2x2xf32>) outs(%init : tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// A repetition of an axis repeats what would be stored.
// CHECK-LABEL: @repeated
// CHECK:         arith.constant
func.func @repeated(%x: tensor<5x3x4xf32>, %init: tensor<5x3x2xf32>) -> tensor<5x3x2xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %m = "tosa.const_shape"() <{values = dense<[5, 2, 1]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %w = arith.constant dense<[[[1.0, 2.0], [3.0, 4.0]]]> : tensor<1x2x2xf32>
  %b = tosa.tile %w, %m : (tensor<1x2x2xf32>, !tosa.shape<3>) -> tensor<5x4x2xf32>
  // expected-remark @+1 {{not quantized: its weights are repeated by a shape op [growth]}}
  %0 = tosa.matmul %x, %b, %z, %z : (tensor<5x3x4xf32>, tensor<5x4x2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<5x3x2xf32>
  return %0 : tensor<5x3x2xf32>
}

// What is broadcast is quantized before, unless something else reads the broadcast.
// CHECK-LABEL: @broadcast
// CHECK-NOT:     quant.constant
func.func @broadcast(%x: tensor<5x3x4xf32>, %init: tensor<5x3x2xf32>) -> (tensor<5x3x2xf32>, tensor<5x4x2xf32>) {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %e = tensor.empty() : tensor<5x4x2xf32>
  %b = linalg.broadcast ins(%w : tensor<4x2xf32>) outs(%e : tensor<5x4x2xf32>) dimensions = [0]
  // expected-remark @+1 {{not quantized: its weights are}}
  %0 = linalg.batch_matmul ins(%x, %b : tensor<5x3x4xf32>, tensor<5x4x2xf32>) outs(%init : tensor<5x3x2xf32>) -> tensor<5x3x2xf32>
  return %0, %b : tensor<5x3x2xf32>, tensor<5x4x2xf32>
}
