// RUN: qdialect-opt %s --sink-quant-shapes | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.5:3,0.25}>

// Zero becomes the zero point, whichever it is.
// CHECK-LABEL: @zero
// CHECK:         quant.qcast %x : tensor<2x6xf32>
// CHECK-NEXT:    %{{.*}} = quant.pad %{{.*}} low = [0, 1] high = [0, 0]
// CHECK-NEXT:    func.return
func.func @zero(%x: tensor<2x6xf32>) -> tensor<2x7x!rows> {
  %z = arith.constant 0.0 : f32
  %0 = tensor.pad %x low[0, 1] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<2x6xf32> to tensor<2x7xf32>
  %1 = quant.qcast %0 : tensor<2x7xf32> to tensor<2x7x!rows>
  return %1 : tensor<2x7x!rows>
}

// CHECK-LABEL: @stored_zero_point
// CHECK:         quant.scast %x : tensor<6xi8>
// CHECK-NEXT:    %{{.*}} = quant.pad %{{.*}} low = [1] high = [0]
func.func @stored_zero_point(%x: tensor<6xi8>) -> tensor<7x!p> {
  %z = arith.constant 3 : i8
  %0 = tensor.pad %x low[1] high[0] {
  ^bb0(%i: index):
    tensor.yield %z : i8
  } : tensor<6xi8> to tensor<7xi8>
  %1 = quant.scast %0 : tensor<7xi8> to tensor<7x!p>
  return %1 : tensor<7x!p>
}

// CHECK-LABEL: @read
// CHECK-NEXT:    %{{.*}} = quant.dcast %x
// CHECK-NEXT:    [[ZERO:%.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    %{{.*}} = tensor.pad %{{.*}} low[1] high[0] {
// CHECK:           tensor.yield [[ZERO]] : f32
func.func @read(%x: tensor<6x!p>) -> tensor<7xf32> {
  %0 = quant.pad %x low = [1] high = [0] : tensor<6x!p> to tensor<7x!p>
  %1 = quant.dcast %0 : tensor<7x!p> to tensor<7xf32>
  return %1 : tensor<7xf32>
}
