// RUN: qdialect-opt %s --canonicalize | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!a0 = !quant.uniform<i8:f32:0, {0.5,0.25,2.0}>
!a1 = !quant.uniform<i8:f32:1, {0.5,0.25,2.0}>

// CHECK-LABEL: @transpose_that_does_not_permute(
// CHECK-NEXT: return %arg0
func.func @transpose_that_does_not_permute(%arg0: tensor<?x?x!q>) -> tensor<?x?x!q> {
  %0 = tosa.transpose %arg0 {perms = array<i32: 0, 1>} : (tensor<?x?x!q>) -> tensor<?x?x!q>
  return %0 : tensor<?x?x!q>
}

// CHECK-LABEL: @transposes_that_cancel(
// CHECK-NEXT: return %arg0
func.func @transposes_that_cancel(%arg0: tensor<2x3x4x!a1>) -> tensor<2x3x4x!a1> {
  %0 = tosa.transpose %arg0 {perms = array<i32: 1, 2, 0>} : (tensor<2x3x4x!a1>) -> tensor<3x4x2x!a1>
  %1 = tosa.transpose %0 {perms = array<i32: 2, 0, 1>} : (tensor<3x4x2x!a1>) -> tensor<2x3x4x!a1>
  return %1 : tensor<2x3x4x!a1>
}

// CHECK-LABEL: @transpose_before_one_that_does_not_permute(
// CHECK-NEXT: %0 = tosa.transpose %arg0 {perms = array<i32: 1, 0>}
// CHECK-NEXT: return %0
func.func @transpose_before_one_that_does_not_permute(%arg0: tensor<2x3x!q>) -> tensor<3x2x!q> {
  %0 = tosa.transpose %arg0 {perms = array<i32: 1, 0>} : (tensor<2x3x!q>) -> tensor<3x2x!q>
  %1 = tosa.transpose %0 {perms = array<i32: 0, 1>} : (tensor<3x2x!q>) -> tensor<3x2x!q>
  return %1 : tensor<3x2x!q>
}

// CHECK-LABEL: @reshape_to_the_same_shape(
// CHECK-NEXT: return %arg0
func.func @reshape_to_the_same_shape(%arg0: tensor<?x3x!q>) -> tensor<?x3x!q> {
  %0 = tosa.const_shape {values = dense<[-1, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %1 = tosa.reshape %arg0, %0 : (tensor<?x3x!q>, !tosa.shape<2>) -> tensor<?x3x!q>
  return %1 : tensor<?x3x!q>
}

// Which length is which is not known.
// CHECK-LABEL: @reshape_of_two_dynamic_lengths(
// CHECK: tosa.reshape
func.func @reshape_of_two_dynamic_lengths(%arg0: tensor<?x?x!q>) -> tensor<?x?x!q> {
  %0 = tosa.const_shape {values = dense<[-1, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %1 = tosa.reshape %arg0, %0 : (tensor<?x?x!q>, !tosa.shape<2>) -> tensor<?x?x!q>
  return %1 : tensor<?x?x!q>
}

// CHECK-LABEL: @reshape_and_back(
// CHECK-NEXT: return %arg0
func.func @reshape_and_back(%arg0: tensor<2x3x!a1>) -> tensor<2x3x!a1> {
  %0 = tosa.const_shape {values = dense<6> : tensor<1xindex>} : () -> !tosa.shape<1>
  %1 = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %2 = tosa.reshape %arg0, %0 : (tensor<2x3x!a1>, !tosa.shape<1>) -> tensor<6x!a1>
  %3 = tosa.reshape %2, %1 : (tensor<6x!a1>, !tosa.shape<2>) -> tensor<2x3x!a1>
  return %3 : tensor<2x3x!a1>
}

// CHECK-LABEL: @slice_of_all(
// CHECK-NEXT: return %arg0
func.func @slice_of_all(%arg0: tensor<2x3x!q>) -> tensor<2x3x!q> {
  %0 = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
  %1 = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %2 = tosa.slice %arg0, %0, %1 : (tensor<2x3x!q>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x3x!q>
  return %2 : tensor<2x3x!q>
}

// The result may have another length.
// CHECK-LABEL: @slice_of_a_dynamic_length(
// CHECK: tosa.slice
func.func @slice_of_a_dynamic_length(%arg0: tensor<?x3x!q>) -> tensor<?x3x!q> {
  %0 = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
  %1 = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %2 = tosa.slice %arg0, %0, %1 : (tensor<?x3x!q>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<?x3x!q>
  return %2 : tensor<?x3x!q>
}

// CHECK-LABEL: @slice_to_another_type(
// CHECK: tosa.slice
func.func @slice_to_another_type(%arg0: tensor<3x3x!a0>) -> tensor<3x3x!a1> {
  %0 = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
  %1 = tosa.const_shape {values = dense<3> : tensor<2xindex>} : () -> !tosa.shape<2>
  %2 = tosa.slice %arg0, %0, %1 : (tensor<3x3x!a0>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<3x3x!a1>
  return %2 : tensor<3x3x!a1>
}

// CHECK-LABEL: @pad_by_nothing(
// CHECK-NEXT: return %arg0
func.func @pad_by_nothing(%arg0: tensor<?x3x!q>, %arg1: tensor<1x!q>) -> tensor<?x3x!q> {
  %0 = tosa.const_shape {values = dense<0> : tensor<4xindex>} : () -> !tosa.shape<4>
  %1 = tosa.pad %arg0, %0, %arg1 : (tensor<?x3x!q>, !tosa.shape<4>, tensor<1x!q>) -> tensor<?x3x!q>
  return %1 : tensor<?x3x!q>
}

// CHECK-LABEL: @pad_of_a_dynamic_length(
// CHECK: tosa.pad
func.func @pad_of_a_dynamic_length(%arg0: tensor<?x3x!q>, %arg1: tensor<1x!q>) -> tensor<?x3x!q> {
  %0 = tosa.const_shape {values = dense<[1, 1, 0, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %1 = tosa.pad %arg0, %0, %arg1 : (tensor<?x3x!q>, !tosa.shape<4>, tensor<1x!q>) -> tensor<?x3x!q>
  return %1 : tensor<?x3x!q>
}

// CHECK-LABEL: @tile_once(
// CHECK-NEXT: return %arg0
func.func @tile_once(%arg0: tensor<?x3x!a1>) -> tensor<?x3x!a1> {
  %0 = tosa.const_shape {values = dense<1> : tensor<2xindex>} : () -> !tosa.shape<2>
  %1 = tosa.tile %arg0, %0 : (tensor<?x3x!a1>, !tosa.shape<2>) -> tensor<?x3x!a1>
  return %1 : tensor<?x3x!a1>
}

// CHECK-LABEL: @tile_of_a_dynamic_length(
// CHECK: tosa.tile
func.func @tile_of_a_dynamic_length(%arg0: tensor<?x3x!a1>) -> tensor<?x3x!a1> {
  %0 = tosa.const_shape {values = dense<[2, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %1 = tosa.tile %arg0, %0 : (tensor<?x3x!a1>, !tosa.shape<2>) -> tensor<?x3x!a1>
  return %1 : tensor<?x3x!a1>
}

// CHECK-LABEL: @reverse_of_one_position(
// CHECK-NEXT: return %arg0
func.func @reverse_of_one_position(%arg0: tensor<1x3x!q>) -> tensor<1x3x!q> {
  %0 = tosa.reverse %arg0 {axis = 0 : i32} : (tensor<1x3x!q>) -> tensor<1x3x!q>
  return %0 : tensor<1x3x!q>
}

// CHECK-LABEL: @cast_to_the_same_type(
// CHECK-NEXT: return %arg0
func.func @cast_to_the_same_type(%arg0: tensor<2x3x!a1>) -> tensor<2x3x!a1> {
  %0 = tosa.cast %arg0 : (tensor<2x3x!a1>) -> tensor<2x3x!a1>
  return %0 : tensor<2x3x!a1>
}

// CHECK-LABEL: @identity(
// CHECK-NEXT: %0 = tosa.identity %arg0
// CHECK-NEXT: return %0
func.func @identity(%arg0: tensor<2x3x!q>) -> tensor<2x3x!q> {
  %0 = tosa.identity %arg0 : (tensor<2x3x!q>) -> tensor<2x3x!q>
  return %0 : tensor<2x3x!q>
}

// CHECK-LABEL: @unused(
// CHECK-NEXT: return
func.func @unused(%arg0: tensor<2x3x!q>, %arg1: tensor<1x2x3xf32>, %arg2: tensor<1x2xi32>) {
  %0 = "tosa.const"() <{values = dense<1> : tensor<2xi8>}> : () -> tensor<2x!q>
  %1 = tosa.const_shape {values = dense<1> : tensor<2xindex>} : () -> !tosa.shape<2>
  %2 = tosa.transpose %arg0 {perms = array<i32: 1, 0>} : (tensor<2x3x!q>) -> tensor<3x2x!q>
  %3 = tosa.gather %arg1, %arg2 : (tensor<1x2x3xf32>, tensor<1x2xi32>) -> tensor<1x2x3xf32>
  return
}
