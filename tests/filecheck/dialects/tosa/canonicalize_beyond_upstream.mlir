// RUN: qdialect-opt %s --canonicalize | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!a0 = !quant.uniform<i8:f32:0, {0.5,0.25}>

// CHECK-LABEL: @reverse_and_back(
// CHECK-NEXT: return %arg0
func.func @reverse_and_back(%arg0: tensor<2x?x!a0>) -> tensor<2x?x!a0> {
  %0 = tosa.reverse %arg0 {axis = 1 : i32} : (tensor<2x?x!a0>) -> tensor<2x?x!a0>
  %1 = tosa.reverse %0 {axis = 1 : i32} : (tensor<2x?x!a0>) -> tensor<2x?x!a0>
  return %1 : tensor<2x?x!a0>
}

// CHECK-LABEL: @reverse_of_two_axes(
// CHECK-COUNT-2: tosa.reverse
func.func @reverse_of_two_axes(%arg0: tensor<2x3x!q>) -> tensor<2x3x!q> {
  %0 = tosa.reverse %arg0 {axis = 0 : i32} : (tensor<2x3x!q>) -> tensor<2x3x!q>
  %1 = tosa.reverse %0 {axis = 1 : i32} : (tensor<2x3x!q>) -> tensor<2x3x!q>
  return %1 : tensor<2x3x!q>
}

// What upstream makes of these two has a type that its users refuse.
// CHECK-LABEL: @transpose_to_another_type(
// CHECK-NEXT: %0 = tosa.transpose %arg0 {perms = array<i32: 0, 1>}
// CHECK-NEXT: return %0
func.func @transpose_to_another_type(%arg0: tensor<2x3x!q>) -> tensor<?x3x!q> {
  %0 = tosa.transpose %arg0 {perms = array<i32: 0, 1>} : (tensor<2x3x!q>) -> tensor<?x3x!q>
  return %0 : tensor<?x3x!q>
}

// CHECK-LABEL: @transposes_to_another_type(
// CHECK-COUNT-2: tosa.transpose
func.func @transposes_to_another_type(%arg0: tensor<2x3x!q>) -> tensor<?x3x!q> {
  %0 = tosa.transpose %arg0 {perms = array<i32: 1, 0>} : (tensor<2x3x!q>) -> tensor<3x2x!q>
  %1 = tosa.transpose %0 {perms = array<i32: 1, 0>} : (tensor<3x2x!q>) -> tensor<?x3x!q>
  return %1 : tensor<?x3x!q>
}

// Upstream takes it for a slice of all.
// CHECK-LABEL: @slice_that_leaves_its_operand(
// CHECK: tosa.slice
func.func @slice_that_leaves_its_operand(%arg0: tensor<2x3x!q>) -> tensor<2x3x!q> {
  %0 = tosa.const_shape {values = dense<[1, 0]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %1 = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %2 = tosa.slice %arg0, %0, %1 : (tensor<2x3x!q>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x3x!q>
  return %2 : tensor<2x3x!q>
}
