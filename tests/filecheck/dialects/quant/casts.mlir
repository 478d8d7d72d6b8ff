// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt | filecheck %s

!p = !quant.uniform<i8:f32, 0.5:3>
!a = !quant.uniform<u8:f32:1, {0.5:3,0.25}>

// CHECK-LABEL: @scalars
func.func @scalars(%x: f32) -> i8 {
  // CHECK: %q = quant.qcast %x : f32 to !quant.uniform<i8:f32, 5.000000e-01:3>
  // GENERIC: %q = "quant.qcast"(%x) : (f32) -> !quant.uniform<i8:f32, 5.000000e-01:3>
  %q = quant.qcast %x : f32 to !p
  // CHECK-NEXT: %s = quant.scast %q {note} : !quant.uniform<i8:f32, 5.000000e-01:3> to i8
  %s = quant.scast %q {note} : !p to i8
  return %s : i8
}

// CHECK-LABEL: @tensors
func.func @tensors(%x: tensor<?x2xi8>) -> tensor<?x2xf32> {
  // CHECK: quant.scast %x : tensor<?x2xi8> to tensor<?x2x!quant.uniform<u8:f32:1, {5.000000e-01:3,2.500000e-01}>>
  %q = quant.scast %x : tensor<?x2xi8> to tensor<?x2x!a>
  // CHECK-NEXT: quant.dcast %q : tensor<?x2x!quant.uniform<u8:f32:1, {5.000000e-01:3,2.500000e-01}>> to tensor<?x2xf32>
  %f = quant.dcast %q : tensor<?x2x!a> to tensor<?x2xf32>
  return %f : tensor<?x2xf32>
}

// CHECK-LABEL: @other_types
func.func @other_types(%x: tensor<*xf32>, %y: f16) {
  // CHECK: quant.qcast %x : tensor<*xf32> to tensor<*x!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>>
  %0 = quant.qcast %x : tensor<*xf32> to tensor<*x!quant.calibrated<f32<-1.0:1.0>>>
  // CHECK-NEXT: quant.qcast %y : f16 to !quant.any<i8:f16>
  %1 = quant.qcast %y : f16 to !quant.any<i8:f16>
  return
}
