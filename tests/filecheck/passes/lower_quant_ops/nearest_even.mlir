// RUN: qdialect-opt %s --lower-quant-ops=rounding=nearest-even | filecheck %s
// RUN: qdialect-opt %s --lower-quant-ops=rounding=nearest-even --print-op-generic | qdialect-opt | filecheck %s

!q = !quant.uniform<i8:f32, 0.5:3>
!n = !quant.uniform<u8<5:250>:f32, 0.5>
!w = !quant.uniform<i32:f32, 0.5>
!a = !quant.uniform<u16:f16:0, {0.5,0.25:3}>

// Everything is clamped, and NaN is the least storage integer.
// CHECK: func.func @quantize(%x: f32) -> !quant.uniform<i8:f32, 5.000000e-01:3> {
// CHECK-NEXT:   %0 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %1 = arith.constant 3 : i8
// CHECK-NEXT:   %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:   %3 = arith.sitofp %1 : i8 to f32
// CHECK-NEXT:   %4 = arith.addf %2, %3 : f32
// CHECK-NEXT:   %5 = math.roundeven %4 : f32
// CHECK-NEXT:   %6 = arith.constant -1.280000e+02 : f32
// CHECK-NEXT:   %7 = arith.constant 1.270000e+02 : f32
// CHECK-NEXT:   %8 = arith.maxnumf %5, %6 : f32
// CHECK-NEXT:   %9 = arith.minnumf %8, %7 : f32
// CHECK-NEXT:   %10 = arith.fptosi %9 : f32 to i8
// CHECK-NEXT:   %q = quant.scast %10 : i8 to !quant.uniform<i8:f32, 5.000000e-01:3>
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

// CHECK: func.func @tensor(%x: tensor<?xf32>) -> tensor<?x!quant.uniform<u8<5:250>:f32, 5.000000e-01>> {
// CHECK-NEXT:   %0 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %1 = arith.constant 0 : i8
// CHECK-NEXT:   %2 = arith.constant 0 : index
// CHECK-NEXT:   %3 = tensor.dim %x, %2 : tensor<?xf32>
// CHECK-NEXT:   %4 = tensor.splat %0[%3] : tensor<?xf32>
// CHECK-NEXT:   %5 = arith.divf %x, %4 : tensor<?xf32>
// CHECK-NEXT:   %6 = math.roundeven %5 : tensor<?xf32>
// CHECK-NEXT:   %7 = arith.constant 5.000000e+00 : f32
// CHECK-NEXT:   %8 = arith.constant 2.500000e+02 : f32
// CHECK-NEXT:   %9 = tensor.splat %7[%3] : tensor<?xf32>
// CHECK-NEXT:   %10 = tensor.splat %8[%3] : tensor<?xf32>
// CHECK-NEXT:   %11 = arith.maxnumf %6, %9 : tensor<?xf32>
// CHECK-NEXT:   %12 = arith.minnumf %11, %10 : tensor<?xf32>
// CHECK-NEXT:   %13 = arith.fptoui %12 : tensor<?xf32> to tensor<?xi8>
// CHECK-NEXT:   %q = quant.scast %13 : tensor<?xi8> to tensor<?x!quant.uniform<u8<5:250>:f32, 5.000000e-01>>
// CHECK-NEXT:   func.return %q : tensor<?x!quant.uniform<u8<5:250>:f32, 5.000000e-01>>
func.func @tensor(%x: tensor<?xf32>) -> tensor<?x!n> {
  %q = quant.qcast %x : tensor<?xf32> to tensor<?x!n>
  return %q : tensor<?x!n>
}

// 2147483647 is no f32.
// CHECK: func.func @wide(%x: f32) -> !quant.uniform<i32:f32, 5.000000e-01> {
// CHECK-NEXT:   %0 = arith.constant 5.000000e-01 : f32
// CHECK-NEXT:   %1 = arith.constant 0 : i32
// CHECK-NEXT:   %2 = arith.divf %x, %0 : f32
// CHECK-NEXT:   %3 = math.roundeven %2 : f32
// CHECK-NEXT:   %4 = arith.extf %3 : f32 to f64
// CHECK-NEXT:   %5 = arith.constant 0xC1E0000000000000 : f64
// CHECK-NEXT:   %6 = arith.constant 0x41DFFFFFFFC00000 : f64
// CHECK-NEXT:   %7 = arith.maxnumf %4, %5 : f64
// CHECK-NEXT:   %8 = arith.minnumf %7, %6 : f64
// CHECK-NEXT:   %9 = arith.fptosi %8 : f64 to i32
// CHECK-NEXT:   %q = quant.scast %9 : i32 to !quant.uniform<i32:f32, 5.000000e-01>
// CHECK-NEXT:   func.return %q : !quant.uniform<i32:f32, 5.000000e-01>
func.func @wide(%x: f32) -> !w {
  %q = quant.qcast %x : f32 to !w
  return %q : !w
}

// CHECK: func.func @per_axis(%x: tensor<2xf16>) -> tensor<2x!quant.uniform<u16:f16:0, {5.000000e-01,2.500000e-01:3}>> {
// CHECK-NEXT:   %0 = arith.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf16>
// CHECK-NEXT:   %1 = arith.constant dense<[0, 3]> : tensor<2xi16>
// CHECK-NEXT:   %2 = tensor.empty() : tensor<2xi16>
// CHECK-NEXT:   %3 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %0, %1 : tensor<2xf16>, tensor<2xf16>, tensor<2xi16>) outs(%2 : tensor<2xi16>) {
// CHECK-NEXT:   ^bb0(%4: f16, %5: f16, %6: i16, %7: i16):
// CHECK-NEXT:     %8 = arith.divf %4, %5 : f16
// CHECK-NEXT:     %9 = arith.uitofp %6 : i16 to f16
// CHECK-NEXT:     %10 = arith.addf %8, %9 : f16
// CHECK-NEXT:     %11 = math.roundeven %10 : f16
// CHECK-NEXT:     %12 = arith.extf %11 : f16 to f64
// CHECK-NEXT:     %13 = arith.constant 0.000000e+00 : f64
// CHECK-NEXT:     %14 = arith.constant 6.553500e+04 : f64
// CHECK-NEXT:     %15 = arith.maxnumf %12, %13 : f64
// CHECK-NEXT:     %16 = arith.minnumf %15, %14 : f64
// CHECK-NEXT:     %17 = arith.fptoui %16 : f64 to i16
// CHECK-NEXT:     linalg.yield %17 : i16
// CHECK-NEXT:   } -> tensor<2xi16>
// CHECK-NEXT:   %q = quant.scast %3 : tensor<2xi16> to tensor<2x!quant.uniform<u16:f16:0, {5.000000e-01,2.500000e-01:3}>>
// CHECK-NEXT:   func.return %q : tensor<2x!quant.uniform<u16:f16:0, {5.000000e-01,2.500000e-01:3}>>
func.func @per_axis(%x: tensor<2xf16>) -> tensor<2x!a> {
  %q = quant.qcast %x : tensor<2xf16> to tensor<2x!a>
  return %q : tensor<2x!a>
}
