// RUN: qdialect-opt %s --sink-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --sink-quant-shapes > %t
// RUN: qdialect-opt %t --sink-quant-shapes | diff %t -

!p = !quant.uniform<i8:f32, 0.5:3>
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
!last = !quant.uniform<i8:f32:2, {0.5,0.25:3}>

// A reshape of an input ends on the quantized side.
// CHECK-LABEL: @qcast
// CHECK-NEXT:    %{{.*}} = quant.qcast %x : tensor<4x6xf32> to tensor<4x6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:    %{{.*}} = tensor.expand_shape %{{.*}} {{.*}} : tensor<4x6x!quant.uniform<i8:f32, 5.000000e-01:3>> into tensor<2x2x6x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:    func.return %{{.*}}
func.func @qcast(%x: tensor<4x6xf32>) -> tensor<2x2x6x!p> {
  %0 = tensor.expand_shape %x [[0, 1], [2]] output_shape [2, 2, 6] : tensor<4x6xf32> into tensor<2x2x6xf32>
  %1 = quant.qcast %0 : tensor<2x2x6xf32> to tensor<2x2x6x!p>
  return %1 : tensor<2x2x6x!p>
}

// Where types differ before and behind it, the op is one of quant, and what it wrote to is gone.
// CHECK-LABEL: @per_axis
// CHECK-NEXT:    %{{.*}} = quant.qcast %x : tensor<2x6xf32> to tensor<2x6x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT:    %t = quant.transpose %{{.*}} permutation = [1, 0] {{.*}} to tensor<6x2x!quant.uniform<i8:f32:1, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT:    %{{.*}} = quant.reshape %t {{.*}} to tensor<3x2x2x!quant.uniform<i8:f32:2, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT:    func.return %{{.*}}
func.func @per_axis(%x: tensor<2x6xf32>) -> tensor<3x2x2x!last> {
  %init = tensor.empty() : tensor<6x2xf32>
  %t = linalg.transpose ins(%x : tensor<2x6xf32>) outs(%init : tensor<6x2xf32>) permutation = [1, 0]
  %0 = tensor.expand_shape %t [[0, 1], [2]] output_shape [3, 2, 2] : tensor<6x2xf32> into tensor<3x2x2xf32>
  %1 = quant.qcast %0 : tensor<3x2x2xf32> to tensor<3x2x2x!last>
  return %1 : tensor<3x2x2x!last>
}

// Back on floats, the op is the one that it was.
// CHECK-LABEL: @meet
// CHECK-NEXT:    %{{.*}} = quant.qcast %x : tensor<2x6xf32> to tensor<2x6x!quant.uniform<i8:f32:0,
// CHECK-NEXT:    %{{.*}} = quant.dcast %{{.*}}
// CHECK-NEXT:    %t = linalg.transpose ins(%{{.*}}:tensor<2x6xf32>) outs(%init:tensor<6x2xf32>) permutation = [1, 0]
// CHECK-NEXT:    func.return %t
func.func @meet(%x: tensor<2x6xf32>, %init: tensor<6x2xf32>) -> tensor<6x2xf32> {
  %t = linalg.transpose ins(%x : tensor<2x6xf32>) outs(%init : tensor<6x2xf32>) permutation = [1, 0]
  %0 = quant.qcast %t : tensor<6x2xf32> to tensor<6x2x!columns>
  %1 = quant.dcast %0 : tensor<6x2x!columns> to tensor<6x2xf32>
  return %1 : tensor<6x2xf32>
}

// The shape ops of quant become those of tensor and linalg.
// CHECK-LABEL: @dcast
// CHECK-NEXT:    %{{.*}} = quant.dcast %x : tensor<2x6x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>> to tensor<2x6xf32>
// CHECK-NEXT:    [[INIT:%.*]] = tensor.empty() : tensor<6x2xf32>
// CHECK-NEXT:    %{{.*}} = linalg.transpose ins(%{{.*}}:tensor<2x6xf32>) outs([[INIT]]:tensor<6x2xf32>) permutation = [1, 0]
// CHECK-NEXT:    func.return %{{.*}}
func.func @dcast(%x: tensor<2x6x!rows>) -> tensor<6x2xf32> {
  %0 = quant.transpose %x permutation = [1, 0] : tensor<2x6x!rows> to tensor<6x2x!columns>
  %1 = quant.dcast %0 : tensor<6x2x!columns> to tensor<6x2xf32>
  return %1 : tensor<6x2xf32>
}

// CHECK-LABEL: @scast
// CHECK-NEXT:    %{{.*}} = quant.scast %x : tensor<2x6xi8> to tensor<2x6x!quant.uniform<i8:f32:0, {2.500000e-01:3,5.000000e-01}>>
// CHECK-NEXT:    %{{.*}} = quant.reverse %{{.*}} dims = [0]
// CHECK-NEXT:    func.return %{{.*}}
func.func @scast(%x: tensor<2x6xi8>) -> tensor<2x6x!rows> {
  %0 = tosa.reverse %x {axis = 0 : i32} : (tensor<2x6xi8>) -> tensor<2x6xi8>
  %1 = quant.scast %0 : tensor<2x6xi8> to tensor<2x6x!rows>
  return %1 : tensor<2x6x!rows>
}

// No channel is dropped, and the type is the same. Otherwise see refused.mlir.
// CHECK-LABEL: @slice
// CHECK-NEXT:    %{{.*}} = quant.qcast %x : tensor<2x6xf32> to tensor<2x6x!quant.uniform<i8:f32:0,
// CHECK-NEXT:    %{{.*}} = tensor.extract_slice %{{.*}}[0, 1] [2, 3] [1, 1]
func.func @slice(%x: tensor<2x6xf32>) -> tensor<2x3x!rows> {
  %0 = tensor.extract_slice %x[0, 1] [2, 3] [1, 1] : tensor<2x6xf32> to tensor<2x3xf32>
  %1 = quant.qcast %0 : tensor<2x3xf32> to tensor<2x3x!rows>
  return %1 : tensor<2x3x!rows>
}

// Lengths that only the run tells.
// CHECK-LABEL: @dynamic
// CHECK-NEXT:    %{{.*}} = quant.qcast %x : tensor<?x6xf32>
// CHECK-NEXT:    %{{.*}} = tosa.transpose %{{.*}} {perms = array<i32: 1, 0>} : (tensor<?x6x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<6x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @dynamic(%x: tensor<?x6xf32>) -> tensor<6x?x!p> {
  %0 = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<?x6xf32>) -> tensor<6x?xf32>
  %1 = quant.qcast %0 : tensor<6x?xf32> to tensor<6x?x!p>
  return %1 : tensor<6x?x!p>
}

// Equal casts become one.
// CHECK-LABEL: @equal_casts
// CHECK-NEXT:    %{{.*}} = quant.qcast %x {a, b}
// CHECK-NEXT:    %{{.*}} = tensor.collapse_shape %{{.*}}
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}}
func.func @equal_casts(%x: tensor<2x6xf32>) -> (tensor<12x!p>, tensor<12x!p>) {
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
  %1 = quant.qcast %0 {a} : tensor<12xf32> to tensor<12x!p>
  %2 = quant.qcast %0 {b} : tensor<12xf32> to tensor<12x!p>
  return %1, %2 : tensor<12x!p>, tensor<12x!p>
}

// Casts that are equal once another cast has gone above the op before it become one too.
// CHECK-LABEL: @equal_casts_of_a_cast
// CHECK-NEXT:    %{{.*}} = quant.qcast %x : tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = quant.dcast
// CHECK-NEXT:    [[S:%.*]] = tensor.extract_slice %{{.*}}[0] [2] [1] : tensor<4xf32> to tensor<2xf32>
// CHECK-NEXT:    func.return [[S]], [[S]]
func.func @equal_casts_of_a_cast(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = tensor.extract_slice %x[0] [2] [1] : tensor<4xf32> to tensor<2xf32>
  %1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!p>
  %2 = quant.dcast %1 : tensor<2x!p> to tensor<2xf32>
  %3 = quant.dcast %1 : tensor<2x!p> to tensor<2xf32>
  return %2, %3 : tensor<2xf32>, tensor<2xf32>
}

// The length of %0 is needed no longer where nothing is written to, so the cast goes above %0 too.
// CHECK-LABEL: @use_that_goes_away
// CHECK-NEXT:    %{{.*}} = quant.qcast %x
// CHECK-NEXT:    %{{.*}} = tosa.reverse %{{.*}} {axis = 0 : i32} : (tensor<?x2x!quant
// CHECK-NEXT:    %{{.*}} = quant.transpose
// CHECK-NEXT:    func.return
func.func @use_that_goes_away(%x: tensor<?x2xf32>) -> tensor<2x?x!p> {
  %axis = arith.constant 0 : index
  %0 = tosa.reverse %x {axis = 0 : i32} : (tensor<?x2xf32>) -> tensor<?x2xf32>
  %length = tensor.dim %0, %axis : tensor<?x2xf32>
  %init = tensor.empty(%length) : tensor<2x?xf32>
  %1 = linalg.transpose ins(%0 : tensor<?x2xf32>) outs(%init : tensor<2x?xf32>) permutation = [1, 0]
  %2 = quant.qcast %1 : tensor<2x?xf32> to tensor<2x?x!p>
  return %2 : tensor<2x?x!p>
}
