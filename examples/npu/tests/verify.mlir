// RUN: qdialect-opt --split-input-file --verify-diagnostics --verify-quant-shapes %s

// The scale of a channel must be that of the pixels which the channel becomes.

!channels = !quant.uniform<i8:f32:3, {1.0, 2.0, 3.0, 4.0}>
!pixels = !quant.uniform<i8:f32:{1:1, 2:1}, {{{{1.0}, {3.0}}, {{2.0}, {4.0}}}}>

func.func @moved_without_scales(%x: tensor<1x1x1x4x!channels>) -> tensor<1x2x2x1x!pixels> {
  // expected-error @below {{reads slot}}
  %s = npu.pixel_shuffle %x by 2 : tensor<1x1x1x4x!channels> to tensor<1x2x2x1x!pixels>
  return %s : tensor<1x2x2x1x!pixels>
}

// -----

func.func @channels(%x: tensor<1x1x1x6xf32>) -> tensor<1x2x2x1xf32> {
  // expected-error @below {{blocks of 2x2 pixels do not divide its channels}}
  %s = npu.pixel_shuffle %x by 2 : tensor<1x1x1x6xf32> to tensor<1x2x2x1xf32>
  return %s : tensor<1x2x2x1xf32>
}

// -----

func.func @result(%x: tensor<1x1x1x8xf32>) -> tensor<1x2x2x1xf32> {
  // expected-error @below {{its result has the shape [1, 2, 2, 1], not [1, 2, 2, 2]}}
  %s = npu.pixel_shuffle %x by 2 : tensor<1x1x1x8xf32> to tensor<1x2x2x1xf32>
  return %s : tensor<1x2x2x1xf32>
}

// -----

func.func @product(%x: tensor<2x3xf32>, %w: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{[2, 3] and [2, 4] are not the shapes of a product}}
  %p = npu.matmul %x, %w : tensor<2x3xf32>, tensor<2x4xf32> to tensor<2x4xf32>
  return %p : tensor<2x4xf32>
}

// -----

func.func @bias(%x: tensor<2x3xf32>, %w: tensor<3x4xf32>, %b: tensor<2xf32>) -> tensor<2x4xf32> {
  // expected-error @below {{its bias does not have a number for each column}}
  %p = npu.matmul %x, %w bias %b : tensor<2x3xf32>, tensor<3x4xf32>, tensor<2xf32> to tensor<2x4xf32>
  return %p : tensor<2x4xf32>
}

// -----

func.func @length(%x: tensor<?x3xf32>, %w: tensor<3x4xf32>) -> tensor<?x4xf32> {
  // expected-error @below {{it has a length that is only known at run time}}
  %p = npu.matmul %x, %w : tensor<?x3xf32>, tensor<3x4xf32> to tensor<?x4xf32>
  return %p : tensor<?x4xf32>
}

// -----

func.func @types(%x: tensor<2xf32>) -> tensor<2xf16> {
  // expected-error @below {{its operand and its result differ in type}}
  %r = npu.relu6 %x : tensor<2xf32> to tensor<2xf16>
  return %r : tensor<2xf16>
}
