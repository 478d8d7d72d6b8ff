// RUN: qdialect-opt %s --hoist-quant-shapes --remarks --verify-diagnostics | filecheck %s
// RUN: xdsl-opt %s -p hoist-quant-shapes | filecheck %s

!q = !quant.uniform<i8:f32, 0.5>

// A sum of constants is no dequantization: a shape op becomes one for each operand, above all
// arithmetic.
// CHECK-LABEL: @nested
// CHECK:         %[[A:.*]] = tensor.extract_slice %a
// CHECK-NEXT:    %[[B:.*]] = tensor.extract_slice %b
// CHECK-NEXT:    %[[S:.*]] = arith.addf %[[A]], %[[B]] : tensor<1x3xf32>
// CHECK-NEXT:    %[[C:.*]] = tensor.extract_slice %b
// CHECK-NEXT:    %[[R:.*]] = arith.mulf %[[S]], %[[C]] : tensor<1x3xf32>
// CHECK-NEXT:    func.return %[[R]]
func.func @nested() -> tensor<1x3xf32> {
  %codes = quant.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3x!q>
  %a = quant.dcast %codes : tensor<2x3x!q> to tensor<2x3xf32>
  %b = arith.constant dense<[[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]> : tensor<2x3xf32>
  %sum = arith.addf %a, %b : tensor<2x3xf32>
  %product = arith.mulf %sum, %b : tensor<2x3xf32>
  // expected-remark @below {{hoisted 'tensor.extract_slice': it is now above 'arith.mulf'}}
  %r = tensor.extract_slice %product[1, 0] [1, 3] [1, 1] : tensor<2x3xf32> to tensor<1x3xf32>
  return %r : tensor<1x3xf32>
}

// Arithmetic with other uses would be computed twice.
// CHECK-LABEL: @used
// CHECK:         %s = arith.addf
// CHECK-NEXT:    %r = tensor.collapse_shape %s
// CHECK-NEXT:    func.return %s, %r
func.func @used() -> (tensor<2x2xf32>, tensor<4xf32>) {
  %codes = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!q>
  %a = quant.dcast %codes : tensor<2x2x!q> to tensor<2x2xf32>
  %s = arith.addf %a, %a : tensor<2x2xf32>
  // expected-remark @below {{not hoisted: the arithmetic before it has other uses [uses]}}
  %r = tensor.collapse_shape %s [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  return %s, %r : tensor<2x2xf32>, tensor<4xf32>
}
