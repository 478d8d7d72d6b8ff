// REQUIRES: mlir-opt-22
// RUN: qdialect-opt %s | mlir-opt-22 | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | mlir-opt-22 | filecheck %s
// RUN: mlir-opt-22 %s | qdialect-opt | mlir-opt-22 | filecheck %s

!a = !quant.uniform<u8<1:255>:f16:1, {0.5:3,0.1}>

// CHECK: func.func private @scales(!quant.uniform<i8:f32, 0x4132D68700000000>, !quant.uniform<i8:f32, 1.234567E-4>)
func.func private @scales(!quant.uniform<i8:f32, 1234567.0>, !quant.uniform<i8:f32, 0.0001234567>)

// CHECK: func.func @casts(%arg0: tensor<?x2xf16>) -> tensor<?x2xi8>
// CHECK-NEXT: quant.qcast %arg0 : tensor<?x2xf16> to tensor<?x2x!quant.uniform<u8<1:255>:f16:1, {5.000000e-01:3,1.000000e-01}>>
// CHECK-NEXT: quant.scast
func.func @casts(%x: tensor<?x2xf16>) -> tensor<?x2xi8> {
  %0 = quant.qcast %x : tensor<?x2xf16> to tensor<?x2x!a>
  %1 = quant.scast %0 : tensor<?x2x!a> to tensor<?x2xi8>
  return %1 : tensor<?x2xi8>
}
