// RUN: not qdialect-opt %s 2>&1 | filecheck %s --strict-whitespace --match-full-lines

// What a whole type has wrong is reported at its keyword, as upstream does.
// CHECK:{{.*}}types_location.mlir:6:52: error: illegal quantized dimension: -2
!a = !quant.uniform<i8:f32, 0.5>
func.func private @f(tensor<4x!a>, tensor<4x!quant.uniform<i8:f32:-2, {1.0}>>)
