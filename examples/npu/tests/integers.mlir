// A quantized layer is computed with integers: no op of the NPU is left, and no float.

// RUN: qdialect-opt --lower-to-integers --lower-quant-shapes --strip-func-quant-types --canonicalize %s | filecheck %s
// RUN: xdsl-opt -p lower-to-integers,lower-quant-shapes,strip-func-quant-types,canonicalize %s | filecheck %s

// Each code is that of the layer in floats, or the next one where the sum is at a tie.

// RUN: qdialect-opt --lower-to-integers %s -o %t
// RUN: qdialect-check --roundings %s %t

!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32:1, {0.25, 0.5, 0.125, 1.0}>
!b = !quant.uniform<i32:f32:0, {0.125, 0.25, 0.0625, 0.5}>
!y = !quant.uniform<i8:f32, 0.03125:-64>

// CHECK-LABEL: func.func @main(%x: tensor<1x3xi8>) -> tensor<1x2x2x1xi8> {
// CHECK-NOT:     {{npu|quant|f32}}
// CHECK:         arith.muli
// CHECK-NOT:     {{npu|quant|f32}}
// CHECK:         func.return
func.func @main(%x: tensor<1x3x!x>) -> tensor<1x2x2x1x!y> {
  %0 = quant.dcast %x : tensor<1x3x!x> to tensor<1x3xf32>
  %w = quant.constant dense<[[1, -2, 3, 5], [3, 4, -7, 11], [-5, 6, 9, -13]]> : tensor<3x4x!w>
  %1 = quant.dcast %w : tensor<3x4x!w> to tensor<3x4xf32>
  %b = quant.constant dense<[8, -4, 16, 2]> : tensor<4x!b>
  %2 = quant.dcast %b : tensor<4x!b> to tensor<4xf32>
  %p = npu.matmul %0, %1 bias %2 : tensor<1x3xf32>, tensor<3x4xf32>, tensor<4xf32> to tensor<1x4xf32>
  %r = npu.relu6 %p : tensor<1x4xf32> to tensor<1x4xf32>
  %i = tensor.expand_shape %r [[0], [1, 2, 3]] output_shape [1, 1, 1, 4] : tensor<1x4xf32> into tensor<1x1x1x4xf32>
  %s = npu.pixel_shuffle %i by 2 : tensor<1x1x1x4xf32> to tensor<1x2x2x1xf32>
  %q = quant.qcast %s : tensor<1x2x2x1xf32> to tensor<1x2x2x1x!y>
  return %q : tensor<1x2x2x1x!y>
}
