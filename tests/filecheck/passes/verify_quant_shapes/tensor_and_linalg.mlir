// RUN: qdialect-opt %s --verify-quant-shapes --split-input-file --verify-diagnostics

!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3,0.125,2.0}>

func.func @tensor(%w: tensor<4x4x!columns>) {
  // expected-error @+1 {{'tensor.extract_slice' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 1 of length 2, 4 scales); the element type of the result should be '!quant.uniform<i8:f32:1, {2.500000e-01:3,1.250000e-01}>'}}
  %0 = tensor.extract_slice %w[0, 1] [4, 2] [1, 1] : tensor<4x4x!columns> to tensor<4x2x!columns>
  // expected-error @+1 {{'tensor.expand_shape' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 1 of length 2, 4 scales); the element type of the result should be '!quant.uniform<i8:f32:{1:1, 2:1}, {{{5.000000e-01, 2.500000e-01:3}, {1.250000e-01, 2.000000e+00}}}>'}}
  %1 = tensor.expand_shape %w [[0], [1, 2]] output_shape [4, 2, 2] : tensor<4x4x!columns> into tensor<4x2x2x!columns>
  // expected-error @+1 {{'tensor.collapse_shape' op result type does not fit its shape: quantized dimension must be less than tensor rank (axis 1 of rank 1, 4 scales)}}
  %2 = tensor.collapse_shape %w [[0, 1]] : tensor<4x4x!columns> into tensor<16x!columns>
  // expected-error @+1 {{'tensor.concat' op result type does not fit its shape: quantized dimension size does not match number of scales (axis 1 of length 8, 4 scales)}}
  %3 = tensor.concat dim(1) %w, %w : (tensor<4x4x!columns>, tensor<4x4x!columns>) -> tensor<4x8x!columns>
  return
}

// The same scales, of other elements: as many are there, so that only their meaning tells.
func.func @slice_of_the_same_length(%w: tensor<4x4x!quant.uniform<i8:f32:{1:2}, {{0.5,0.25}}>>) {
  // expected-error @+1 {{'tensor.extract_slice' op result element [0, 1] reads slot [0, 0] (scale 5.000000e-01, zero point 0) in its type, but slot [0, 1] (scale 2.500000e-01, zero point 0) in the type that the operands give it; the element type of the result should be '!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01}>'}}
  %0 = tensor.extract_slice %w[0, 1] [4, 2] [1, 1] : tensor<4x4x!quant.uniform<i8:f32:{1:2}, {{0.5,0.25}}>> to tensor<4x2x!quant.uniform<i8:f32, 0.5>>
  return
}

func.func @other_integers(%w: tensor<2x2x!quant.uniform<i8:f32, 0.5>>) {
  // expected-error @+1 {{'tensor.extract_slice' op operand and result must store the same integers for the same expressed type, but are of 'i8:f32' and 'i4:f32'; the element type of the result should be '!quant.uniform<i8:f32, 5.000000e-01>'}}
  %0 = tensor.extract_slice %w[0, 0] [1, 2] [1, 1] : tensor<2x2x!quant.uniform<i8:f32, 0.5>> to tensor<1x2x!quant.uniform<i4:f32, 0.5>>
  // expected-error @+1 {{'tensor.extract_slice' op operand and result must store the same integers for the same expressed type, but are of 'i8:f32' and 'i8<-127:127>:f32'}}
  %1 = tensor.extract_slice %w[0, 0] [1, 2] [1, 1] : tensor<2x2x!quant.uniform<i8:f32, 0.5>> to tensor<1x2x!quant.uniform<i8<-127:127>:f32, 0.5>>
  return
}

func.func @linalg(%w: tensor<4x4x!columns>, %init: tensor<4x4x!columns>) {
  // expected-error @+1 {{'linalg.transpose' op result element [0, 1] reads slot [0, 1] (scale 2.500000e-01, zero point 3) in its type, but slot [0, 0] (scale 5.000000e-01, zero point 0) in the type that the operands give it}}
  %0 = "linalg.transpose"(%w, %init) <{permutation = array<i64: 1, 0>}> ({
  ^bb0(%a: !columns, %b: !columns):
    "linalg.yield"(%a) : (!columns) -> ()
  }) : (tensor<4x4x!columns>, tensor<4x4x!columns>) -> tensor<4x4x!columns>
  return
}
