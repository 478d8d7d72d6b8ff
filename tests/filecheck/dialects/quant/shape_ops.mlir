// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt | filecheck %s

!a0 = !quant.uniform<i8:f32:0, {0.5:3,0.25}>
!a1 = !quant.uniform<i8:f32:1, {0.5:3,0.25}>
!a2 = !quant.uniform<i8:f32:2, {0.5:3,0.25}>
!s0 = !quant.uniform<i8:f32:0, {0.5:3}>

// CHECK-LABEL: @ops
func.func @ops(%x: tensor<2x4x!a0>) {
  // CHECK: quant.transpose %x permutation = [1, 0] {note} : tensor<2x4x!quant.uniform<i8:f32:0, {5.000000e-01:3,2.500000e-01}>> to tensor<4x2x!quant.uniform<i8:f32:1, {5.000000e-01:3,2.500000e-01}>>
  // GENERIC: "quant.transpose"(%x) <{permutation = array<i64: 1, 0>}> {note} :
  %t = quant.transpose %x permutation = [1, 0] {note} : tensor<2x4x!a0> to tensor<4x2x!a1>

  // CHECK: quant.reshape %x : tensor<2x4x{{.*}}> to tensor<1x2x2x2x!quant.uniform<i8:f32:1,
  // GENERIC: "quant.reshape"(%x) :
  %r = quant.reshape %x : tensor<2x4x!a0> to tensor<1x2x2x2x!a1>

  // CHECK: quant.slice %x [0, 1] [1, 2] [1, 2] : tensor<2x4x{{.*}}> to tensor<1x2x!quant.uniform<i8:f32:0, {5.000000e-01:3}>>
  // GENERIC: "quant.slice"(%x) <{offsets = array<i64: 0, 1>, sizes = array<i64: 1, 2>, strides = array<i64: 1, 2>}> :
  %s = quant.slice %x [0, 1] [1, 2] [1, 2] : tensor<2x4x!a0> to tensor<1x2x!s0>

  // CHECK: quant.concat dim(1) %x, %x : (tensor<2x4x{{.*}}>, tensor<2x4x{{.*}}>) -> tensor<2x8x!quant.uniform<i8:f32:0,
  // GENERIC: "quant.concat"(%x, %x) <{dim = 1 : i64}> :
  %c = quant.concat dim(1) %x, %x : (tensor<2x4x!a0>, tensor<2x4x!a0>) -> tensor<2x8x!a0>

  // CHECK: quant.broadcast_in_dim %x dims = [2, 0] : tensor<2x4x{{.*}}> to tensor<4x3x2x!quant.uniform<i8:f32:2,
  // GENERIC: "quant.broadcast_in_dim"(%x) <{dims = array<i64: 2, 0>}> :
  %b = quant.broadcast_in_dim %x dims = [2, 0] : tensor<2x4x!a0> to tensor<4x3x2x!a2>

  // CHECK: quant.reverse %x dims = [0] : tensor<2x4x{{.*}}> to tensor<2x4x!quant.uniform<i8:f32:0, {2.500000e-01,5.000000e-01:3}>>
  // GENERIC: "quant.reverse"(%x) <{dims = array<i64: 0>}> :
  %v = quant.reverse %x dims = [0] : tensor<2x4x!a0> to tensor<2x4x!quant.uniform<i8:f32:0, {0.25,0.5:3}>>

  // CHECK: quant.gather %x [1, 0, 1] dim(0) {note} : tensor<2x4x{{.*}}> to tensor<3x4x!quant.uniform<i8:f32:0, {2.500000e-01,5.000000e-01:3,2.500000e-01}>>
  // GENERIC: "quant.gather"(%x) <{indices = array<i64: 1, 0, 1>, dim = 0 : i64}> {note} :
  %g = quant.gather %x [1, 0, 1] dim(0) {note} : tensor<2x4x!a0> to tensor<3x4x!quant.uniform<i8:f32:0, {0.25,0.5:3,0.25}>>

  // CHECK: quant.pad %x low = [1, 0] high = [0, 1] : tensor<2x4x{{.*}}> to tensor<3x5x!quant.uniform<i8:f32:0, {5.000000e-01:3,5.000000e-01:3,2.500000e-01}>>
  // GENERIC: "quant.pad"(%x) <{{[{]}}{{.*}}high = array<i64: 0, 1>
  %p = quant.pad %x low = [1, 0] high = [0, 1] : tensor<2x4x!a0> to tensor<3x5x!quant.uniform<i8:f32:0, {0.5:3,0.5:3,0.25}>>
  return
}

// Types are compared by what they mean, not as they are spelled.
// CHECK-LABEL: @spellings
func.func @spellings(%x: tensor<2x4x!a0>) {
  // One slot per element.
  %0 = quant.transpose %x permutation = [1, 0] : tensor<2x4x!a0> to tensor<4x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{0.5:3,0.25},{0.5:3,0.25},{0.5:3,0.25},{0.5:3,0.25}}>>
  // Another double that is the same f32, and a zero point that is the same i8.
  %1 = quant.slice %x [0, 0] [1, 4] [1, 1] : tensor<2x4x!a0> to tensor<1x4x!quant.uniform<i8:f32, 0.5000000000001:259>>
  // No element reads a slot.
  %2 = quant.slice %x [0, 0] [0, 4] [1, 1] : tensor<2x4x!a0> to tensor<0x4x!quant.uniform<i8:f32, 99.0>>
  // Unsigned storage, spelled in both ways.
  %3 = "test.op"() : () -> tensor<4x!quant.uniform<u8:f32, 0.5>>
  %4 = quant.reverse %3 dims = [0] : tensor<4x!quant.uniform<u8:f32, 0.5>> to tensor<4x!quant.uniform<ui8:f32, 0.5>>
  return
}

// What dynamic dimensions leave undecided is accepted.
// CHECK-LABEL: @dynamic
func.func @dynamic(%x: tensor<?x2x!a1>, %y: tensor<?x?x!s0>) {
  %0 = quant.transpose %x permutation = [1, 0] : tensor<?x2x!a1> to tensor<2x?x!a0>
  %1 = quant.transpose %x permutation = [1, 0] : tensor<?x2x!a1> to tensor<2x7x!a0>
  %2 = quant.slice %x [5, 0] [2, 1] [3, 1] : tensor<?x2x!a1> to tensor<2x1x!quant.uniform<i8:f32, 0.5:3>>
  %3 = quant.concat dim(0) %x, %x : (tensor<?x2x!a1>, tensor<?x2x!a1>) -> tensor<?x2x!a1>
  %4 = quant.reshape %x : tensor<?x2x!a1> to tensor<?x!quant.uniform<i8:f32:{0:1}, {0.5:3, 0.25, 0.5:3, 0.25}>>
  %6 = quant.gather %x [5, 0] dim(0) : tensor<?x2x!a1> to tensor<2x2x!a1>
  %7 = quant.gather %x [1, 1] dim(1) : tensor<?x2x!a1> to tensor<?x2x!quant.uniform<i8:f32, 0.25>>
  %5 = quant.reshape %y : tensor<?x?x!s0> to tensor<?x!quant.uniform<i8:f32, 0.5:3>>
  return
}
