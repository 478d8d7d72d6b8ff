// RUN: qdialect-opt %s --quantize-dequantize-weights="scheme=one storage=u8" --remarks 2>&1 | filecheck %s
// RUN: qdialect-opt %s --quantize-dequantize-weights="scheme=one storage=u8 granularity=layer" | filecheck %s --check-prefix LAYER
// RUN: qdialect-opt %s --fold-constant-shapes --quantize-dequantize-weights="scheme=one storage=u8" | filecheck %s --check-prefix FOLDED

// The weights are floats again, as the codes and scales of their channels stand for them. Shape ops
// before the layer are folded, and the name and the attributes of the constant stay.
// CHECK-LABEL: @dense
// CHECK-NEXT:    %w = arith.constant {profile = "fc"} dense<{{\[}}[1.000000e+00, -0.203921571], [0.396078467, 4.99607849]]> : tensor<2x2xf32>
// CHECK-NEXT:    linalg.matmul ins(%x, %w : tensor<4x2xf32>, tensor<2x2xf32>)
// LAYER-LABEL: @dense
// LAYER-NEXT:    dense<{{\[}}[0.999215722, -0.203921571], [3.874510e-01, 4.99607849]]>
// FOLDED-LABEL: @dense
// FOLDED-NEXT:    dense<{{\[}}[1.000000e+00, -0.203921571], [0.396078467, 4.99607849]]>
func.func @dense(%x: tensor<4x2xf32>, %init: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %w = arith.constant {profile = "fc"} dense<[[1.0, 0.395], [-0.2, 5.0]]> : tensor<2x2xf32>
  %t = tosa.transpose %w {perms = array<i32: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = linalg.matmul ins(%x, %t : tensor<4x2xf32>, tensor<2x2xf32>) outs(%init : tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// What `quantize-weights` leaves is left.
// CHECK-LABEL: @not_constant
// CHECK-NEXT:    linalg.matmul ins(%x, %w
func.func @not_constant(%x: tensor<4x2xf32>, %w: tensor<2x2xf32>, %init: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %0 = linalg.matmul ins(%x, %w : tensor<4x2xf32>, tensor<2x2xf32>) outs(%init : tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
