// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s --print-op-generic | filecheck %s --check-prefix GENERIC
// RUN: qdialect-opt %s --print-op-generic | qdialect-opt | filecheck %s

!p = !quant.uniform<i8:f32, 0.5>

// CHECK: %list = quant.constant dense<[{{\[}}1, -2], [3, 4]]> : tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>>
// GENERIC: %list = "quant.constant"() <{value = dense<[{{\[}}1, -2], [3, 4]]> : tensor<2x2xi8>}> : () -> tensor<2x2x!quant.uniform<i8:f32, 5.000000e-01>>
%list = quant.constant dense<[[1, -2], [3, 4]]> : tensor<2x2x!p>

// CHECK-NEXT: %unsigned = quant.constant dense<[0, 255]> : tensor<2x!quant.uniform<u8:f32, 5.000000e-01>>
// GENERIC: dense<[0, 255]> : tensor<2xui8>
%unsigned = quant.constant dense<[0, 255]> : tensor<2x!quant.uniform<u8:f32, 0.5>>

// CHECK-NEXT: %splat = quant.constant dense<-7> : tensor<65536x65536x65536x!quant.uniform<i4:f32, 5.000000e-01>>
// GENERIC: dense<-7> : tensor<65536x65536x65536xi4>
%splat = quant.constant dense<-7> : tensor<65536x65536x65536x!quant.uniform<i4:f32, 0.5>>

// CHECK-NEXT: %equal = quant.constant dense<1> : tensor<3x!quant.uniform<i8:f32, 5.000000e-01>>
%equal = quant.constant dense<[1, 1, 1]> : tensor<3x!p>

// Hexadecimal text has MLIR's layout: one byte for each i4, without its sign.
// CHECK-NEXT: %hex = quant.constant dense<[-8, 7]> : tensor<2x!quant.uniform<i4:f32, 5.000000e-01>>
%hex = quant.constant dense<"0x0807"> : tensor<2x!quant.uniform<i4:f32, 0.5>>

// CHECK-NEXT: %bits = quant.constant dense<[true, false, true]> : tensor<3x!quant.uniform<i1:f32, 5.000000e-01>>
%bits = quant.constant dense<"0x05"> : tensor<3x!quant.uniform<i1:f32, 0.5>>

// CHECK-NEXT: %scalar = quant.constant dense<5> : tensor<!quant.uniform<i8:f32, 5.000000e-01>>
%scalar = quant.constant dense<5> : tensor<!p>

// CHECK-NEXT: %none = quant.constant dense<> : tensor<0x3x!quant.uniform<i8:f32, 5.000000e-01>>
%none = quant.constant dense<> : tensor<0x3x!p>

// CHECK-NEXT: %named = quant.constant dense<1> {calibration = "w"} : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
%named = quant.constant dense<1> {calibration = "w"} : tensor<2x!p>

// CHECK-NEXT: %before = quant.constant dense<1> {calibration = "w"} : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>>
%before = quant.constant {calibration = "w"} dense<1> : tensor<2x!p>

// CHECK-NEXT: %long = quant.constant dense<"0x00{{(01)+}}02"> : tensor<101x!quant.uniform<i8:f32, 5.000000e-01>>
%long = quant.constant dense<[0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
  1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
  1, 1, 1, 1, 1, 1, 1, 2]> : tensor<101x!p>
