// RUN: qdialect-opt %s --sink-quant-shapes --remarks --verify-diagnostics | filecheck %s

!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
!wide = !quant.uniform<i16:f32:1, {0.1,0.2:300}>
!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<u8:f32, 0.25:9>
!off = !quant.uniform<u8<1:255>:f32, 0.25>

// The type of the operand is as it was; the slots of the result are moved back.
// CHECK-LABEL: @transpose
// CHECK-NEXT:    %r = quant.requantize %x {rounding = "nearest-away"} : tensor<2x3x!quant.uniform<i8:f32:0, {5.000000e-01,2.500000e-01:3}>> to tensor<2x3x!quant.uniform<i16:f32:0, {1.000000e-01,2.000000e-01:300}>>
// CHECK-NEXT:    %t = quant.transpose %r permutation = [1, 0]
// CHECK-NEXT:    func.return %t
func.func @transpose(%x: tensor<2x3x!rows>) -> tensor<3x2x!wide> {
  // expected-remark @below {{sunk 'quant.transpose': it is now below 'quant.requantize'}}
  %t = quant.transpose %x permutation = [1, 0] : tensor<2x3x!rows> to tensor<3x2x!columns>
  %r = quant.requantize %t {rounding = "nearest-away"} : tensor<3x2x!columns> to tensor<3x2x!wide>
  return %r : tensor<3x2x!wide>
}

// Zero is zero in both types, unless the result cannot store its zero point.
// CHECK-LABEL: @pad
// CHECK-NEXT:    %r = quant.requantize %x
// CHECK-NEXT:    %p = quant.pad %r
// CHECK-NEXT:    %q = quant.pad %x
// CHECK-NEXT:    %s = quant.requantize %q
func.func @pad(%x: tensor<2x!a>) -> (tensor<3x!b>, tensor<3x!off>) {
  // expected-remark @below {{sunk 'quant.pad': it is now below 'quant.requantize'}}
  %p = quant.pad %x low = [1] high = [0] : tensor<2x!a> to tensor<3x!a>
  %r = quant.requantize %p : tensor<3x!a> to tensor<3x!b>
  // expected-remark @below {{not sunk: 'quant.requantize' does not map its padding to zero points [padding]}}
  %q = quant.pad %x low = [1] high = [0] : tensor<2x!a> to tensor<3x!a>
  %s = quant.requantize %q : tensor<3x!a> to tensor<3x!off>
  return %r, %s : tensor<3x!b>, tensor<3x!off>
}

// Two are equal only if they round alike.
// CHECK-LABEL: @concat
// CHECK-NEXT:    %c = quant.concat dim(0) %x, %y
// CHECK-NEXT:    %{{.*}} = quant.requantize %c
// CHECK-NEXT:    %{{.*}} = quant.requantize %x
// CHECK-NEXT:    %{{.*}} = quant.requantize %y {rounding = "nearest-away"}
// CHECK-NEXT:    %{{.*}} = quant.concat
func.func @concat(%x: tensor<2x!a>, %y: tensor<2x!a>) -> (tensor<4x!b>, tensor<4x!b>) {
  %0 = quant.requantize %x : tensor<2x!a> to tensor<2x!b>
  %1 = quant.requantize %y : tensor<2x!a> to tensor<2x!b>
  // expected-remark @below {{joined 'quant.concat': one 'quant.requantize' is behind it, and not 2 before it}}
  %c = quant.concat dim(0) %0, %1 : (tensor<2x!b>, tensor<2x!b>) -> tensor<4x!b>
  %2 = quant.requantize %x : tensor<2x!a> to tensor<2x!b>
  %3 = quant.requantize %y {rounding = "nearest-away"} : tensor<2x!a> to tensor<2x!b>
  %d = quant.concat dim(0) %2, %3 : (tensor<2x!b>, tensor<2x!b>) -> tensor<4x!b>
  return %c, %d : tensor<4x!b>, tensor<4x!b>
}

// CHECK-LABEL: @two
// CHECK-NEXT:    %t = quant.reverse %x
// CHECK-NEXT:    %{{.*}} = quant.requantize %t :
// CHECK-NEXT:    %{{.*}} = quant.requantize %t {rounding = "upstream"}
func.func @two(%x: tensor<2x!a>) -> (tensor<2x!b>, tensor<2x!b>) {
  // expected-remark @below {{not sunk: its result is used by more than equal casts in its block [uses]}}
  %t = quant.reverse %x dims = [0] : tensor<2x!a> to tensor<2x!a>
  %0 = quant.requantize %t : tensor<2x!a> to tensor<2x!b>
  %1 = quant.requantize %t {rounding = "upstream"} : tensor<2x!a> to tensor<2x!b>
  return %0, %1 : tensor<2x!b>, tensor<2x!b>
}
