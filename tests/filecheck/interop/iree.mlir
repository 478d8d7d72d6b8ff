// REQUIRES: iree-opt
// RUN: qdialect-opt %s | iree-opt | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | iree-opt | filecheck %s

// A newer MLIR, with the verifiers of the quant dialect, reads the types and casts too.
!a = !quant.uniform<u8<1:255>:f16:1, {0.5:3,0.1}>
!s = !quant.uniform<i4:f32:{0:1, 1:2}, {{0.1:-8},{0.3}}>

// CHECK: quant.qcast %arg0 : tensor<?x2xf16> to tensor<?x2x!quant.uniform<u8<1:255>:f16:1, {5.000000e-01:3,1.000000e-01}>>
func.func @per_axis(%x: tensor<?x2xf16>) -> tensor<?x2x!a> {
  %0 = quant.qcast %x : tensor<?x2xf16> to tensor<?x2x!a>
  return %0 : tensor<?x2x!a>
}

// CHECK: quant.dcast %arg0 : tensor<2x2x!quant.uniform<i4:f32:{0:1, 1:2}, {{[{][{]}}1.000000e-01:-8}, {3.000000e-01{{[}][}]}}>> to tensor<2x2xf32>
func.func @sub_channel(%x: tensor<2x2x!s>) -> tensor<2x2xf32> {
  %0 = quant.dcast %x : tensor<2x2x!s> to tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
