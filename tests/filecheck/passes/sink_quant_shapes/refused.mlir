// Every reason, by its code, and what is told of what is done.
// RUN: qdialect-opt %s --sink-quant-shapes --remarks --verify-diagnostics --split-input-file | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>
// CHECK-LABEL: @sunk
func.func @sunk(%x: tensor<2x6xf32>) -> tensor<12x!p> {
  // expected-remark @below {{sunk 'tensor.collapse_shape': it is now below 'quant.qcast'}}
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
  %1 = quant.qcast %0 : tensor<12xf32> to tensor<12x!p>
  return %1 : tensor<12x!p>
}

// -----

!p = !quant.uniform<i8:f32, 0.5:3>
// CHECK-LABEL: @joined
func.func @joined(%x: tensor<2x!p>, %y: tensor<2x!p>) -> tensor<4xf32> {
  %0 = quant.dcast %x : tensor<2x!p> to tensor<2xf32>
  %1 = quant.dcast %y : tensor<2x!p> to tensor<2xf32>
  // expected-remark @below {{joined 'tensor.concat': one 'quant.dcast' is behind it, and not 2 before it}}
  %2 = tensor.concat dim(0) %0, %1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

!p = !quant.uniform<i8:f32, 0.5:3>
// CHECK-LABEL: @uses
func.func @uses(%x: tensor<2x6xf32>) -> (tensor<12xf32>, tensor<12x!p>) {
  // expected-remark @below {{not sunk: its result is used by more than equal casts in its block [uses]}}
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
  // CHECK: quant.qcast %0
  %1 = quant.qcast %0 : tensor<12xf32> to tensor<12x!p>
  return %0, %1 : tensor<12xf32>, tensor<12x!p>
}

// -----

!p = !quant.uniform<i8:f32, 0.5:3>
// CHECK-LABEL: @casts
func.func @casts(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<4x!p> {
  // expected-remark @below {{not sunk: its 2 operands would be cast one by one [casts]}}
  %0 = tensor.concat dim(0) %x, %y : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  // CHECK: quant.qcast %0
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!p>
  return %1 : tensor<4x!p>
}

// -----

!a = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
// CHECK-LABEL: @not_invertible
func.func @not_invertible(%x: tensor<3xf32>) -> tensor<2x!a> {
  // expected-remark @below {{not sunk: no operand type gives its result the scales that the cast needs [not-invertible]}}
  %0 = tensor.extract_slice %x[0] [2] [1] : tensor<3xf32> to tensor<2xf32>
  // CHECK: quant.qcast %0
  %1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!a>
  return %1 : tensor<2x!a>
}

// -----

!p = !quant.uniform<i8:f32, 0.5:3>
// CHECK-LABEL: @padding
func.func @padding(%x: tensor<6xf32>) -> tensor<7x!p> {
  %one = arith.constant 1.0 : f32
  // expected-remark @below {{not sunk: 'quant.qcast' does not map its padding to zero points [padding]}}
  %0 = tensor.pad %x low[1] high[0] {
  ^bb0(%i: index):
    tensor.yield %one : f32
  } : tensor<6xf32> to tensor<7xf32>
  // CHECK: quant.qcast %0
  %1 = quant.qcast %0 : tensor<7xf32> to tensor<7x!p>
  return %1 : tensor<7x!p>
}

// -----

// The type says what elements are read with; it is not what the op makes of its operand's.
!a = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
// CHECK-LABEL: @stale_type
func.func @stale_type(%x: tensor<2x2x!a>) -> tensor<2x2xf32> {
  // expected-remark @below {{not sunk: result element [0, 1] reads slot [0, 0] (scale 5.000000e-01, zero point 0) in its type, but slot [0, 1] (scale 2.500000e-01, zero point 3) in the type that the operands give it [stale-type]}}
  %0 = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x2x!a>) -> tensor<2x2x!a>
  // CHECK: quant.dcast %0
  %1 = quant.dcast %0 : tensor<2x2x!a> to tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// -----

!a = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
// CHECK-LABEL: @dynamic_shape
func.func @dynamic_shape(%x: tensor<2x?xf32>) -> tensor<?x2x!a> {
  // expected-remark @below {{not sunk: a length is only known at run time [dynamic-shape]}}
  %0 = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x?xf32>) -> tensor<?x2xf32>
  // CHECK: quant.qcast %0
  %1 = quant.qcast %0 : tensor<?x2xf32> to tensor<?x2x!a>
  return %1 : tensor<?x2x!a>
}

// -----

!p = !quant.uniform<i8:f32, 0.5:3>
// What an op before a branch computes is not computed in it, nor what is in it before it.
// CHECK-LABEL: @other_block
func.func @other_block(%x: tensor<2x6xf32>, %other: tensor<12x!p>, %c: i1) -> tensor<12x!p> {
  // expected-remark @below {{not sunk: its result is used by more than equal casts in its block [uses]}}
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
  %1 = scf.if %c -> (tensor<12x!p>) {
    // CHECK: quant.qcast %0
    %2 = quant.qcast %0 : tensor<12xf32> to tensor<12x!p>
    scf.yield %2 : tensor<12x!p>
  } else {
    scf.yield %other : tensor<12x!p>
  }
  return %1 : tensor<12x!p>
}
