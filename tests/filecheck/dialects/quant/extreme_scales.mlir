// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s | qdialect-opt | filecheck %s

// Six digits of the least scale of f16 are less than it.

// CHECK: !quant.uniform<i8:f16:{0:1, 1:1}, {{[{][{]}}5.9604644775390625E-8, 1.000000e+00}, {5.000000e-01, 5.9604644775390625E-8}}>
"test.op"() {t = !quant.uniform<i8:f16:{0:1, 1:1}, {{5.9604644775390625E-8, 1.0}, {0.5, 5.9604644775390625E-8}}>} : () -> ()
