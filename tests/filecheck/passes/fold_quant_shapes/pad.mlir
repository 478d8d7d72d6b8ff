// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

// Real zero is another integer in every slot.
// CHECK-LABEL: @across_the_axis
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}3, 1, 2], [-4, 3, 4]]> : tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01:-4}>>
!a = !quant.uniform<i8:f32:0, {0.5:3,0.25:-4}>
func.func @across_the_axis() -> tensor<2x3x!a> {
  %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!a>
  %p = quant.pad %w low = [0, 1] high = [0, 0] : tensor<2x2x!a> to tensor<2x3x!a>
  return %p : tensor<2x3x!a>
}

// New positions on the quantized axis read the slot of the nearest edge.
// CHECK-LABEL: @along_the_axis
// CHECK-NEXT:    %w = quant.constant dense<[3, 1, 2, -4, -4]> : tensor<5x!quant.uniform<i8:f32:0, {5.000000e-01:3,5.000000e-01:3,2.500000e-01:-4,2.500000e-01:-4,2.500000e-01:-4}>>
!b = !quant.uniform<i8:f32:0, {0.5:3,0.5:3,0.25:-4,0.25:-4,0.25:-4}>
func.func @along_the_axis() -> tensor<5x!b> {
  %w = quant.constant dense<[1, 2]> : tensor<2x!a>
  %p = quant.pad %w low = [1] high = [2] : tensor<2x!a> to tensor<5x!b>
  return %p : tensor<5x!b>
}

// The zero point of unsigned sub-channel types is written with a sign, and is not -56.
// CHECK-LABEL: @unsigned
// CHECK-NEXT:    %w = quant.constant dense<[1, 2, 3, 4, 200]> : tensor<5x!quant.uniform<u8:f32:{}, {1.000000e+00:-56}>>
!u = !quant.uniform<u8:f32:{}, {1.0:200}>
func.func @unsigned() -> tensor<5x!u> {
  %w = quant.constant dense<[1, 2, 3, 4]> : tensor<4x!u>
  %p = quant.pad %w low = [0] high = [1] : tensor<4x!u> to tensor<5x!u>
  return %p : tensor<5x!u>
}
