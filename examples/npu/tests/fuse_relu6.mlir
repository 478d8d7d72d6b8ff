// A relu6 is dropped where quantization clamps to 0 and 6 anyway.

// RUN: qdialect-opt --npu-fuse-relu6 %s | filecheck %s
// RUN: xdsl-opt -p npu-fuse-relu6 %s | filecheck %s

// CHECK-LABEL: func.func @dropped
// CHECK-NEXT:    %q = quant.qcast %x
// CHECK-NEXT:    func.return %q
!six = !quant.uniform<u8:f32, 0.023529412224888802>
func.func @dropped(%x: tensor<4xf32>) -> tensor<4x!six> {
  %r = npu.relu6 %x : tensor<4xf32> to tensor<4xf32>
  %q = quant.qcast %r : tensor<4xf32> to tensor<4x!six>
  return %q : tensor<4x!six>
}

// What something else reads stays, and so does what is stored beyond 0 and 6.

// CHECK-LABEL: func.func @kept
// CHECK-NEXT:    %r = npu.relu6 %x
// CHECK-NEXT:    %q = quant.qcast %x
// CHECK-NEXT:    %wide = quant.qcast %r
// CHECK-NEXT:    %below = quant.qcast %r
!wide = !quant.uniform<u8:f32, 0.05>
!below = !quant.uniform<i8:f32, 0.0625:-32>
func.func @kept(%x: tensor<4xf32>) -> (tensor<4x!six>, tensor<4x!wide>, tensor<4x!below>) {
  %r = npu.relu6 %x : tensor<4xf32> to tensor<4xf32>
  %q = quant.qcast %r : tensor<4xf32> to tensor<4x!six>
  %wide = quant.qcast %r : tensor<4xf32> to tensor<4x!wide>
  %below = quant.qcast %r : tensor<4xf32> to tensor<4x!below>
  return %q, %wide, %below : tensor<4x!six>, tensor<4x!wide>, tensor<4x!below>
}
