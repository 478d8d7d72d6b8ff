// RUN: sed s/ONE/2/ %s > %t.before
// RUN: sed s/ONE/1/ %s > %t.after
// RUN: qdialect-check %t.before %t.before
// RUN: not qdialect-check %t.before %t.after 2>&1 | filecheck %s
// RUN: not qdialect-check %s %t.after 2>&1 | filecheck %s --check-prefix=INPUT
// RUN: not qdialect-check %s 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not qdialect-check %t.before %t.nothing 2>&1 | filecheck %s --check-prefix=FILE
// RUN: not qdialect-check %t.before %t.after --runs=0 2>&1 | filecheck %s --check-prefix=RUNS
// RUN: not qdialect-check %t.before %t.after --max-steps=-1 2>&1 | filecheck %s --check-prefix=STEPS

// CHECK: after:[[#]]:1: error: function 'stored' result #0 element [1] is -1.0 (stored 1), but was -0.5 (stored 2) before
// CHECK: after:[[#]]:1: error: function 'slots' result #0 element [1] is read with scale 5.000000e-01, zero point 1, but was with scale 5.000000e-01, zero point 2 before
// CHECK: after:[[#]]:1: error: function 'argument' result #0 element [0, {{[0-9]}}] is {{.*}}, but was {{.*}} before, with set #0 of arguments
// INPUT: different.mlir:[[#]]:[[#]]: error:
// MISSING: qdialect-check: error: the following arguments are required: after
// FILE: qdialect-check: error: cannot open input file '{{.*}}nothing': No such file or directory
// RUNS: qdialect-check: error: --runs must be at least 1, but is 0
// STEPS: qdialect-check: error: --max-steps must not be negative, but is -1

func.func @stored() -> tensor<2x!quant.uniform<i8:f32, 0.5:3>> {
  %w = quant.constant dense<[3, ONE]> : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
  return %w : tensor<2x!quant.uniform<i8:f32, 0.5:3>>
}

func.func @slots() -> tensor<2x!quant.uniform<i8:f32:0, {0.5,0.5:ONE}>> {
  %w = quant.constant dense<[3, 4]> : tensor<2x!quant.uniform<i8:f32:0, {0.5,0.5:ONE}>>
  return %w : tensor<2x!quant.uniform<i8:f32:0, {0.5,0.5:ONE}>>
}

func.func @argument(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %q = quant.qcast %x : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, ONE.0>>
  %f = quant.dcast %q : tensor<1x4x!quant.uniform<i8:f32, ONE.0>> to tensor<1x4xf32>
  return %f : tensor<1x4xf32>
}
