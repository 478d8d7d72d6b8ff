// RUN: qdialect-opt %s --sink-quant-shapes | filecheck %s
// RUN: xdsl-opt %s -p sink-quant-shapes | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>
!q = !quant.uniform<i8:f32, 0.25>
!both = !quant.uniform<i8:f32:{0:2}, {{0.5:3}, {0.25:0}}>

// Equal casts become one behind the concat, whose type has the scales of both.
// CHECK-LABEL: @dcast
// CHECK-NEXT:    %{{.*}} = quant.concat dim(0) %x, %y {{.*}} -> tensor<4x6x!quant.uniform<i8:f32:{0:2}, {{[{]}}{5.000000e-01:3}, {2.500000e-01}}>>
// CHECK-NEXT:    %{{.*}} = quant.dcast
// CHECK-NEXT:    func.return
func.func @dcast(%x: tensor<2x6x!p>, %y: tensor<2x6x!q>) -> tensor<4x6xf32> {
  %0 = quant.dcast %x : tensor<2x6x!p> to tensor<2x6xf32>
  %1 = quant.dcast %y : tensor<2x6x!q> to tensor<2x6xf32>
  %2 = tensor.concat dim(0) %0, %1 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// CHECK-LABEL: @qcast
// CHECK-NEXT:    %{{.*}} = tensor.concat dim(0) %x, %y : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
// CHECK-NEXT:    %{{.*}} = quant.qcast
// CHECK-NEXT:    func.return
func.func @qcast(%x: tensor<2x6xf32>, %y: tensor<2x6xf32>) -> tensor<4x6x!both> {
  %0 = quant.qcast %x : tensor<2x6xf32> to tensor<2x6x!p>
  %1 = quant.qcast %y : tensor<2x6xf32> to tensor<2x6x!q>
  %2 = quant.concat dim(0) %0, %1 : (tensor<2x6x!p>, tensor<2x6x!q>) -> tensor<4x6x!both>
  return %2 : tensor<4x6x!both>
}

// All the way up, and through another concat.
// CHECK-LABEL: @several
// CHECK-NEXT:    %{{.*}} = tensor.concat dim(0) %x, %y : (tensor<2xi8>, tensor<2xi8>) -> tensor<4xi8>
// CHECK-NEXT:    %{{.*}} = tensor.concat dim(0) %{{.*}}, %z : (tensor<4xi8>, tensor<2xi8>) -> tensor<6xi8>
// CHECK-NEXT:    %{{.*}} = quant.scast
// CHECK-NEXT:    %{{.*}} = quant.dcast
// CHECK-NEXT:    func.return
func.func @several(%x: tensor<2xi8>, %y: tensor<2xi8>, %z: tensor<2xi8>) -> tensor<6xf32> {
  %0 = quant.scast %x : tensor<2xi8> to tensor<2x!p>
  %1 = quant.scast %y : tensor<2xi8> to tensor<2x!p>
  %2 = quant.scast %z : tensor<2xi8> to tensor<2x!p>
  %3 = quant.dcast %0 : tensor<2x!p> to tensor<2xf32>
  %4 = quant.dcast %1 : tensor<2x!p> to tensor<2xf32>
  %5 = quant.dcast %2 : tensor<2x!p> to tensor<2xf32>
  %6 = tensor.concat dim(0) %3, %4 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %7 = tensor.concat dim(0) %6, %5 : (tensor<4xf32>, tensor<2xf32>) -> tensor<6xf32>
  return %7 : tensor<6xf32>
}

// A cast that is used elsewhere stays, and then there would be more of them.
// CHECK-LABEL: @used_elsewhere
// CHECK:         tensor.concat dim(0) %{{.*}}, %{{.*}} : (tensor<2x6xf32>
func.func @used_elsewhere(%x: tensor<2x6x!p>, %y: tensor<2x6x!p>) -> (tensor<2x6xf32>, tensor<4x6xf32>) {
  %0 = quant.dcast %x : tensor<2x6x!p> to tensor<2x6xf32>
  %1 = quant.dcast %y : tensor<2x6x!p> to tensor<2x6xf32>
  %2 = tensor.concat dim(0) %0, %1 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<4x6xf32>
  return %0, %2 : tensor<2x6xf32>, tensor<4x6xf32>
}
