// RUN: qdialect-opt %s --verify-quant-shapes --allow-unregistered-dialect --verify-diagnostics
// RUN: qdialect-opt %s --allow-unregistered-dialect -o %t
// RUN: qdialect-opt %s --verify-quant-shapes --allow-unregistered-dialect | diff %t -

// Nothing is said of what is right, and nothing is changed.
!rows = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
!columns = !quant.uniform<i8:f32:1, {0.5,0.25:3}>
!blocks = !quant.uniform<i8:f32:{1:2}, {{0.5,0.25:3}}>
!one = !quant.uniform<i8:f32, 0.5>

func.func @tosa(%w: tensor<2x4x!rows>) {
  %shape = tosa.const_shape {values = dense<[2, 2, 2]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %0 = tosa.reshape %w, %shape : (tensor<2x4x!rows>, !tosa.shape<3>) -> tensor<2x2x2x!rows>
  %1 = tosa.transpose %0 {perms = array<i32: 0, 2, 1>} : (tensor<2x2x2x!rows>) -> tensor<2x2x2x!rows>
  %2 = tosa.reverse %w {axis = 1 : i32} : (tensor<2x4x!rows>) -> tensor<2x4x!rows>
  %3 = tosa.identity %2 : (tensor<2x4x!rows>) -> tensor<2x4x!rows>
  return
}

// Another spelling of the same is right: blocks of two columns, and each of the columns.
func.func @spelling(%w: tensor<2x4x!blocks>) {
  %0 = tosa.identity %w : (tensor<2x4x!blocks>) -> tensor<2x4x!quant.uniform<i8:f32:1, {0.5,0.5,0.25:3,0.25:3}>>
  %1 = tensor.extract_slice %w[0, 0] [2, 2] [1, 1] : tensor<2x4x!blocks> to tensor<2x2x!one>
  %2 = tensor.extract_slice %w[0, 1] [2, 2] [1, 1] : tensor<2x4x!blocks> to tensor<2x2x!columns>
  return
}

// An axis of one position may be the quantized one wherever it is.
func.func @one_position(%w: tensor<1x4x!quant.uniform<i8:f32:0, {0.5}>>) {
  %0 = "mhlo.reshape"(%w) : (tensor<1x4x!quant.uniform<i8:f32:0, {0.5}>>) -> tensor<4x1x!quant.uniform<i8:f32:1, {0.5}>>
  %1 = "mhlo.reshape"(%w) : (tensor<1x4x!quant.uniform<i8:f32:0, {0.5}>>) -> tensor<2x2x!one>
  return
}

func.func @mhlo(%w: tensor<2x4x!rows>, %d: tensor<?x?x!rows>) {
  %0 = "mhlo.transpose"(%w) <{permutation = array<i64: 1, 0>}> : (tensor<2x4x!rows>) -> tensor<4x2x!columns>
  %1 = "mhlo.broadcast_in_dim"(%w) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<2x4x!rows>) -> tensor<2x3x4x!rows>
  %2 = "mhlo.transpose"(%d) <{permutation = array<i64: 1, 0>}> : (tensor<?x?x!rows>) -> tensor<?x?x!columns>
  %3 = "mhlo.constant"() <{value = dense<[-7, 7]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<i8<-7:7>:f32, 0.5>>
  // Signless integers that are read as unsigned.
  %4 = "mhlo.constant"() <{value = dense<[-6, 1]> : tensor<2xi8>}> : () -> tensor<2x!quant.uniform<u8<1:254>:f32, 0.5>>
  return
}

// Nothing is known of these: an op that moves nothing, one that is unknown, a malformed one.
func.func @others(%w: tensor<2x4x!rows>, %f: tensor<2x4xf32>) {
  %0 = quant.qcast %f : tensor<2x4xf32> to tensor<2x4x!rows>
  %1 = "some.op"(%w) : (tensor<2x4x!rows>) -> tensor<4x2x!rows>
  %2 = "mhlo.transpose"(%w) : (tensor<2x4x!rows>) -> tensor<4x2x!columns>
  return
}

// What is no ranked tensor has no positions that could be compared.
func.func @not_ranked(%u: tensor<*x!rows>, %s: !one) {
  %0 = tosa.identity %u : (tensor<*x!rows>) -> tensor<2x!rows>
  %1 = "mhlo.reshape"(%s) : (!one) -> tensor<1x!one>
  return
}
