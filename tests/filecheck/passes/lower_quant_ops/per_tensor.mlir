// RUN: qdialect-opt %s --lower-quant-ops | filecheck %s
// RUN: xdsl-opt %s -p lower-quant-ops | filecheck %s
// RUN: qdialect-opt %s --lower-quant-ops --print-op-generic | qdialect-opt | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!n = !quant.uniform<u8<5:250>:f16, 0.5>

// CHECK: func.func @quantize(%x: f32) -> !quant.uniform<i8:f32, 5.000000e-01:3> {
// CHECK-NEXT:   %0 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %1 = arith.constant 3 : i8
// CHECK-NEXT:   %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:   %3 = arith.sitofp %1 : i8 to f32
// CHECK-NEXT:   %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:   %5 = arith.fptosi %4 : f32 to i8
// CHECK-NEXT:   %q = quant.scast %5 : i8 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   func.return %q : !quant.uniform<i8:f32, 5.000000e-01:3>
func.func @quantize(%x: f32) -> !q {
  %q = quant.qcast %x : f32 to !q
  return %q : !q
}

// CHECK: func.func @dequantize(%q: !quant.uniform<i8:f32, 5.000000e-01:3>) -> f32 {
// CHECK-NEXT:   %0 = quant.scast %q : !quant.uniform<i8:f32, 5.000000e-01:3> to i8
// CHECK-NEXT:   %1 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %2 = arith.constant 3 : i8
// CHECK-NEXT:   %3 = arith.sitofp %0 : i8 to f32
// CHECK-NEXT:   %4 = arith.sitofp %2 : i8 to f32
// CHECK-NEXT:   %5 = arith.subf %3, %4 : f32
// CHECK-NEXT:   %x = arith.mulf %5, %1 : f32
// CHECK-NEXT:   func.return %x : f32
func.func @dequantize(%q: !q) -> f32 {
  %x = quant.dcast %q : !q to f32
  return %x : f32
}

// A narrower range is clamped. A zero point of 0 is written, but not used.
// CHECK: func.func @narrow(%x: f16) -> !quant.uniform<u8<5:250>:f16, 5.000000e-01> {
// CHECK-NEXT:   %0 = arith.constant 5.000000e-01 : f16
// CHECK-NEXT:   %1 = arith.constant 0 : i8
// CHECK-NEXT:   %2 = arith.divf %x, %0 : f16
// CHECK-NEXT:   %3 = arith.fptoui %2 : f16 to i8
// CHECK-NEXT:   %4 = arith.constant 5 : i8
// CHECK-NEXT:   %5 = arith.constant -6 : i8
// CHECK-NEXT:   %6 = arith.maxui %3, %4 : i8
// CHECK-NEXT:   %7 = arith.minui %6, %5 : i8
// CHECK-NEXT:   %q = quant.scast %7 : i8 to !quant.uniform<u8<5:250>:f16, 5.000000e-01>
// CHECK-NEXT:   func.return %q : !quant.uniform<u8<5:250>:f16, 5.000000e-01>
func.func @narrow(%x: f16) -> !n {
  %q = quant.qcast %x : f16 to !n
  return %q : !n
}

// CHECK: func.func @narrow_back(%q: !quant.uniform<u8<5:250>:f16, 5.000000e-01>) -> f16 {
// CHECK-NEXT:   %0 = quant.scast %q : !quant.uniform<u8<5:250>:f16, 5.000000e-01> to i8
// CHECK-NEXT:   %1 = arith.constant 5.000000e-01 : f16
// CHECK-NEXT:   %2 = arith.constant 0 : i8
// CHECK-NEXT:   %3 = arith.uitofp %0 : i8 to f16
// CHECK-NEXT:   %x = arith.mulf %3, %1 : f16
// CHECK-NEXT:   func.return %x : f16
func.func @narrow_back(%q: !n) -> f16 {
  %x = quant.dcast %q : !n to f16
  return %x : f16
}

// CHECK: func.func @tensor(%x: tensor<2x?xf32>) -> tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>> {
// CHECK-NEXT:   %0 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %1 = arith.constant 3 : i8
// CHECK-NEXT:   %2 = arith.constant 1 : index
// CHECK-NEXT:   %3 = tensor.dim %x, %2 : tensor<2x?xf32>
// CHECK-NEXT:   %4 = tensor.splat %0[%3] : tensor<2x?xf32>
// CHECK-NEXT:   %5 = arith.divf %x, %4 : tensor<2x?xf32>
// CHECK-NEXT:   %6 = tensor.splat %1[%3] : tensor<2x?xi8>
// CHECK-NEXT:   %7 = arith.sitofp %6 : tensor<2x?xi8> to tensor<2x?xf32>
// CHECK-NEXT:   %8 = arith.addf %5, %7 : tensor<2x?xf32>
// CHECK-NEXT:   %9 = arith.fptosi %8 : tensor<2x?xf32> to tensor<2x?xi8>
// CHECK-NEXT:   %q = quant.scast %9 : tensor<2x?xi8> to tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT:   func.return %q : tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>
func.func @tensor(%x: tensor<2x?xf32>) -> tensor<2x?x!q> {
  %q = quant.qcast %x : tensor<2x?xf32> to tensor<2x?x!q>
  return %q : tensor<2x?x!q>
}

// CHECK: func.func @tensor_back(%q: tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<2x?xf32> {
// CHECK-NEXT:   %0 = quant.scast %q : tensor<2x?x!quant.uniform<i8:f32, 5.000000e-01:3>> to tensor<2x?xi8>
// CHECK-NEXT:   %1 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %2 = arith.constant 3 : i8
// CHECK-NEXT:   %3 = arith.constant 1 : index
// CHECK-NEXT:   %4 = tensor.dim %0, %3 : tensor<2x?xi8>
// CHECK-NEXT:   %5 = tensor.splat %1[%4] : tensor<2x?xf32>
// CHECK-NEXT:   %6 = arith.sitofp %0 : tensor<2x?xi8> to tensor<2x?xf32>
// CHECK-NEXT:   %7 = tensor.splat %2[%4] : tensor<2x?xi8>
// CHECK-NEXT:   %8 = arith.sitofp %7 : tensor<2x?xi8> to tensor<2x?xf32>
// CHECK-NEXT:   %9 = arith.subf %6, %8 : tensor<2x?xf32>
// CHECK-NEXT:   %x = arith.mulf %9, %5 : tensor<2x?xf32>
// CHECK-NEXT:   func.return %x : tensor<2x?xf32>
func.func @tensor_back(%q: tensor<2x?x!q>) -> tensor<2x?xf32> {
  %x = quant.dcast %q : tensor<2x?x!q> to tensor<2x?xf32>
  return %x : tensor<2x?xf32>
}

// A cast that undoes another one is dropped; what it undoes is left.
// CHECK: func.func @round_trip(%x: f32) -> f32 {
// CHECK-NEXT:   %0 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %1 = arith.constant 3 : i8
// CHECK-NEXT:   %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:   %3 = arith.sitofp %1 : i8 to f32
// CHECK-NEXT:   %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:   %5 = arith.fptosi %4 : f32 to i8
// CHECK-NEXT:   %q = quant.scast %5 : i8 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   func.return %x : f32
func.func @round_trip(%x: f32) -> f32 {
  %q = quant.qcast %x : f32 to !q
  %y = quant.dcast %q : !q to f32
  return %y : f32
}

// What nothing leads to is left alone.
// CHECK: func.func @unreached(%x: f32) {
// CHECK-NEXT:   func.return
// CHECK-NEXT: ^bb1:
// CHECK-NEXT:   %q = quant.qcast %x : f32 to !quant.uniform<i8:f32, 5.000000e-01:3>
// CHECK-NEXT:   func.return
func.func @unreached(%x: f32) {
  return
^bb1:
  %q = quant.qcast %x : f32 to !q
  return
}
