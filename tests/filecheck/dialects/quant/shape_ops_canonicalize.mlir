// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p canonicalize | filecheck %s
// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s

!p = !quant.uniform<i8:f32, 0.5>
!a0 = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!a1 = !quant.uniform<i8:f32:1, {0.5:3,0.25}>
!a2 = !quant.uniform<i8:f32:2, {0.5:3,0.25}>

// CHECK-LABEL: @transpose_of_transpose
// CHECK-NEXT:    %b = quant.transpose %x permutation = [1, 2, 0] : tensor<2x3x4x!quant.uniform<i8:f32:0, {{.*}}>> to tensor<3x4x2x!quant.uniform<i8:f32:2, {{.*}}>>
// CHECK-NEXT:    func.return %b
func.func @transpose_of_transpose(%x: tensor<2x3x4x!a0>) -> tensor<3x4x2x!a2> {
  %a = quant.transpose %x permutation = [2, 0, 1] : tensor<2x3x4x!a0> to tensor<4x2x3x!a1>
  %b = quant.transpose %a permutation = [2, 0, 1] : tensor<4x2x3x!a1> to tensor<3x4x2x!a2>
  return %b : tensor<3x4x2x!a2>
}

// CHECK-LABEL: @transpose_and_back
// CHECK-NEXT:    func.return %x
func.func @transpose_and_back(%x: tensor<2x3x!a0>) -> tensor<2x3x!a0> {
  %a = quant.transpose %x permutation = [1, 0] : tensor<2x3x!a0> to tensor<3x2x!a1>
  %b = quant.transpose %a permutation = [1, 0] : tensor<3x2x!a1> to tensor<2x3x!a0>
  return %b : tensor<2x3x!a0>
}

// CHECK-LABEL: @reshape_of_reshape
// CHECK-NEXT:    %b = quant.reshape %x : tensor<2x6x!quant.uniform<i8:f32:0, {{.*}}>> to tensor<1x2x3x2x!quant.uniform<i8:f32:1, {{.*}}>>
// CHECK-NEXT:    func.return %b
func.func @reshape_of_reshape(%x: tensor<2x6x!a0>) -> tensor<1x2x3x2x!a1> {
  %a = quant.reshape %x : tensor<2x6x!a0> to tensor<12x!quant.uniform<i8:f32:{0:6}, {0.5:3,0.25}>>
  %b = quant.reshape %a : tensor<12x!quant.uniform<i8:f32:{0:6}, {0.5:3,0.25}>> to tensor<1x2x3x2x!a1>
  return %b : tensor<1x2x3x2x!a1>
}

// CHECK-LABEL: @slice_of_slice
// CHECK-NEXT:    %b = quant.slice %x [0, 3] [2, 2] [1, 6] : tensor<2x12x
// CHECK-NEXT:    func.return %b
func.func @slice_of_slice(%x: tensor<2x12x!a0>) -> tensor<2x2x!a0> {
  %a = quant.slice %x [0, 1] [2, 5] [1, 2] : tensor<2x12x!a0> to tensor<2x5x!a0>
  %b = quant.slice %a [0, 1] [2, 2] [1, 3] : tensor<2x5x!a0> to tensor<2x2x!a0>
  return %b : tensor<2x2x!a0>
}

// CHECK-LABEL: @reverse_of_reverse
// CHECK-NEXT:    %b = quant.reverse %x dims = [1] :
// CHECK-NEXT:    func.return %b
func.func @reverse_of_reverse(%x: tensor<2x3x!p>) -> tensor<2x3x!p> {
  %a = quant.reverse %x dims = [0, 1] : tensor<2x3x!p> to tensor<2x3x!p>
  %b = quant.reverse %a dims = [0] : tensor<2x3x!p> to tensor<2x3x!p>
  return %b : tensor<2x3x!p>
}

// CHECK-LABEL: @pad_of_pad
// CHECK-NEXT:    %b = quant.pad %x low = [1, 2] high = [3, 0] :
// CHECK-NEXT:    func.return %b
func.func @pad_of_pad(%x: tensor<2x3x!p>) -> tensor<6x5x!p> {
  %a = quant.pad %x low = [1, 0] high = [1, 0] : tensor<2x3x!p> to tensor<4x3x!p>
  %b = quant.pad %a low = [0, 2] high = [2, 0] : tensor<4x3x!p> to tensor<6x5x!p>
  return %b : tensor<6x5x!p>
}

// CHECK-LABEL: @gather_of_gather
// CHECK-NEXT:    %b = quant.gather %x [0, 2] dim(1) :
// CHECK-NEXT:    func.return %b
func.func @gather_of_gather(%x: tensor<2x3x!p>) -> tensor<2x2x!p> {
  %a = quant.gather %x [2, 0, 2] dim(1) : tensor<2x3x!p> to tensor<2x3x!p>
  %b = quant.gather %a [1, 0] dim(1) : tensor<2x3x!p> to tensor<2x2x!p>
  return %b : tensor<2x2x!p>
}

// CHECK-LABEL: @identities
// CHECK-NEXT:    func.return %x
func.func @identities(%x: tensor<2x3x!a0>) -> tensor<2x3x!a0> {
  %0 = quant.transpose %x permutation = [0, 1] : tensor<2x3x!a0> to tensor<2x3x!a0>
  %1 = quant.reshape %0 : tensor<2x3x!a0> to tensor<2x3x!a0>
  %2 = quant.slice %1 [0, 0] [2, 3] [1, 1] : tensor<2x3x!a0> to tensor<2x3x!a0>
  %3 = quant.concat dim(0) %2 : (tensor<2x3x!a0>) -> tensor<2x3x!a0>
  %4 = quant.broadcast_in_dim %3 dims = [0, 1] : tensor<2x3x!a0> to tensor<2x3x!a0>
  %5 = quant.reverse %4 dims = [] : tensor<2x3x!a0> to tensor<2x3x!a0>
  %6 = quant.gather %5 [0, 1, 2] dim(1) : tensor<2x3x!a0> to tensor<2x3x!a0>
  %7 = quant.pad %6 low = [0, 0] high = [0, 0] : tensor<2x3x!a0> to tensor<2x3x!a0>
  return %7 : tensor<2x3x!a0>
}

// Nothing moves, but others see the type.
// CHECK-LABEL: @another_spelling
// CHECK-NEXT:    quant.reshape
func.func @another_spelling(%x: tensor<2x3x!a0>) -> tensor<2x3x!quant.uniform<i8:f32:{0:1}, {{0.5:3},{0.25}}>> {
  %0 = quant.reshape %x : tensor<2x3x!a0> to tensor<2x3x!quant.uniform<i8:f32:{0:1}, {{0.5:3},{0.25}}>>
  return %0 : tensor<2x3x!quant.uniform<i8:f32:{0:1}, {{0.5:3},{0.25}}>>
}

// CHECK-LABEL: @concat_of_concats
// CHECK-NEXT:    %c = quant.concat dim(0) %x, %y, %y, %x : (tensor<2x!{{.*}}>, tensor<2x!{{.*}}>, tensor<2x!{{.*}}>, tensor<2x!{{.*}}>) -> tensor<8x
// CHECK-NEXT:    func.return %c
func.func @concat_of_concats(%x: tensor<2x!p>, %y: tensor<2x!p>) -> tensor<8x!p> {
  %a = quant.concat dim(0) %x, %y : (tensor<2x!p>, tensor<2x!p>) -> tensor<4x!p>
  %b = quant.concat dim(0) %a, %y : (tensor<4x!p>, tensor<2x!p>) -> tensor<6x!p>
  %c = quant.concat dim(0) %b, %x : (tensor<6x!p>, tensor<2x!p>) -> tensor<8x!p>
  return %c : tensor<8x!p>
}

// A concat on another axis, or with another use, keeps its operands.
// CHECK-LABEL: @other_concats
// CHECK-NEXT:    %a = quant.concat dim(1) %x, %x
// CHECK-NEXT:    %b = quant.concat dim(0) %a, %a
// CHECK-NEXT:    %c = quant.concat dim(0) %b, %a
// CHECK-NEXT:    func.return %b, %c
func.func @other_concats(%x: tensor<1x2x!p>) -> (tensor<2x4x!p>, tensor<3x4x!p>) {
  %a = quant.concat dim(1) %x, %x : (tensor<1x2x!p>, tensor<1x2x!p>) -> tensor<1x4x!p>
  %b = quant.concat dim(0) %a, %a : (tensor<1x4x!p>, tensor<1x4x!p>) -> tensor<2x4x!p>
  %c = quant.concat dim(0) %b, %a : (tensor<2x4x!p>, tensor<1x4x!p>) -> tensor<3x4x!p>
  return %b, %c : tensor<2x4x!p>, tensor<3x4x!p>
}

// CHECK-LABEL: @dead
// CHECK-NEXT:    func.return
func.func @dead(%x: tensor<2x!p>) {
  %w = quant.constant dense<1> : tensor<2x!p>
  %0 = quant.concat dim(0) %w, %x : (tensor<2x!p>, tensor<2x!p>) -> tensor<4x!p>
  return
}
