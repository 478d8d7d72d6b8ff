// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

// CHECK-LABEL: @along_the_axis
// CHECK-NEXT:    %w = quant.constant dense<[{{\[}}1], [5]]> : tensor<2x1x!quant.uniform<i8:f32:0, {1.000000e+00,3.000000e+00:2}>>
!a = !quant.uniform<i8:f32:0, {1.0,2.0,3.0:2}>
!b = !quant.uniform<i8:f32:0, {1.0,3.0:2}>
func.func @along_the_axis() -> tensor<2x1x!b> {
  %w = quant.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2x!a>
  %s = quant.slice %w [0, 0] [2, 1] [2, 1] : tensor<3x2x!a> to tensor<2x1x!b>
  return %s : tensor<2x1x!b>
}

// A slice that starts inside a block halves the blocks.
// CHECK-LABEL: @inside_a_block
// CHECK-NEXT:    %w = quant.constant dense<[2, 3, 4, 5, 6, 7]> : tensor<6x!quant.uniform<i8:f32:{0:2}, {1.000000e+00, 2.000000e+00:1, 2.000000e+00:1}>>
!c = !quant.uniform<i8:f32:{0:4}, {1.0, 2.0:1}>
!d = !quant.uniform<i8:f32:{0:2}, {1.0, 2.0:1, 2.0:1}>
func.func @inside_a_block() -> tensor<6x!d> {
  %w = quant.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8x!c>
  %s = quant.slice %w [2] [6] [1] : tensor<8x!c> to tensor<6x!d>
  return %s : tensor<6x!d>
}

// What is left reads one slot.
// CHECK-LABEL: @one_slot
// CHECK-NEXT:    %w = quant.constant dense<[5, 6]> : tensor<2x!quant.uniform<i8:f32, 2.000000e+00:1>>
!e = !quant.uniform<i8:f32, 2.0:1>
func.func @one_slot() -> tensor<2x!e> {
  %w = quant.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8x!c>
  %s = quant.slice %w [5] [2] [1] : tensor<8x!c> to tensor<2x!e>
  return %s : tensor<2x!e>
}

// CHECK-LABEL: @nothing
// CHECK-NEXT:    %w = quant.constant dense<> : tensor<0x!quant.uniform<i8:f32, 2.000000e+00:1>>
func.func @nothing() -> tensor<0x!e> {
  %w = quant.constant dense<[0, 1, 2, 3, 4, 5, 6, 7]> : tensor<8x!c>
  %s = quant.slice %w [8] [0] [1] : tensor<8x!c> to tensor<0x!e>
  return %s : tensor<0x!e>
}
