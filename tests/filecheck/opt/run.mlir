// RUN: qdialect-run %s | filecheck %s --strict-whitespace
// RUN: qdialect-run %s --symbol quantize --args 'dense<[0.25, 0.75, 0x7F800000, -100.0]> : tensor<4xf32>' | filecheck %s --check-prefix=GIVEN
// RUN: qdialect-run %s --entry=scalars --args='1.5 : f32, true : i1' --verbose | filecheck %s --check-prefix=SCALARS
// RUN: qdialect-run %s --symbol quantize --random-inputs=7 --verbose > %t.first
// RUN: qdialect-run %s --symbol quantize --random-inputs=7 --verbose > %t.second
// RUN: diff %t.first %t.second
// RUN: qdialect-run %s --symbol quantize --random-inputs=8 --verbose > %t.third
// RUN: not diff %t.first %t.third
// RUN: echo 'dense<1.0> : tensor<4xf32> // one for all' > %t.args
// RUN: qdialect-run --symbol quantize --args-file %t.args < %s | filecheck %s --check-prefix=FILE

!q = !quant.uniform<u8:f32:0, {0.5:3,0.25}>
!t = !quant.uniform<u8:f32:1, {0.5:3,0.25}>
!p = !quant.uniform<i8<-100:100>:f32, 0.5:2>

// CHECK: dense<{{\[\[}}1, 4], [2, 5], [3, 200]]> : tensor<3x2x!quant.uniform<u8:f32:1, {5.000000e-01:3,2.500000e-01}>>
// CHECK-NEXT: dense<{{\[\[}}-1.000000e+00, 1.000000e+00], [-5.000000e-01, 1.250000e+00], [0.000000e+00, 5.000000e+01]]> : tensor<3x2xf32>
func.func @main() -> (tensor<3x2x!t>, tensor<3x2xf32>) {
  %w = quant.constant dense<[[1, 2, 3], [4, 5, 200]]> : tensor<2x3x!q>
  %0 = quant.transpose %w permutation = [1, 0] : tensor<2x3x!q> to tensor<3x2x!t>
  %1 = quant.dcast %0 : tensor<3x2x!t> to tensor<3x2xf32>
  return %0, %1 : tensor<3x2x!t>, tensor<3x2xf32>
}

// GIVEN: dense<[2, 4, 100, -100]> : tensor<4x!quant.uniform<i8<-100:100>:f32, 5.000000e-01:2>>
// FILE: dense<4> : tensor<4x!quant.uniform<i8<-100:100>:f32, 5.000000e-01:2>>
func.func @quantize(%x: tensor<4xf32>) -> tensor<4x!p> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!p>
  return %0 : tensor<4x!p>
}

// SCALARS: // argument #0: 1.500000e+00 : f32
// SCALARS-NEXT: // argument #1: true : i1
// SCALARS-NEXT: 5 : !quant.uniform<i8<-100:100>:f32, 5.000000e-01:2>
// SCALARS-NEXT: true : i1
func.func @scalars(%x: f32, %y: i1) -> (!p, i1) {
  %0 = quant.qcast %x : f32 to !p
  return %0, %y : !p, i1
}
