// RUN: sed -e 's/addi %0, %b/addi %b, %0/' %s > %t.other
// RUN: sed -e 's/9000/9001/' %s > %t.wrong
// RUN: qdialect-check --require=proof %s %s | filecheck %s --check-prefix=PROVEN
// RUN: qdialect-check --runs=20 %s %t.other | filecheck %s --check-prefix=SAMPLES
// RUN: not qdialect-check --runs=20 --require=proof %s %t.other 2>&1 | filecheck %s --check-prefix=REQUIRED
// RUN: not qdialect-check --runs=20 %s %t.wrong 2>&1 | filecheck %s --check-prefix=NUMBERS
// RUN: not qdialect-check --require=proof --engine=iree %s %s 2>&1 | filecheck %s --check-prefix=ENGINE

// PROVEN: function 'f': proven
// SAMPLES: function 'f': run with 20 of its inputs
// REQUIRED: :1: error: function 'f' is not proven: operand #0 of 'arith.addi' op element [0] is 6000000, but was element [0] of a result of 'arith.extsi' before; it was run with 20 of its inputs
// NUMBERS: :1: error: function 'f' is not shown to be the same: operand #1 of 'arith.addi' op element [1] is 9001, but was 9000 before; as the functions differ in numbers only, it is no proof that it was run with 20 of its inputs
// ENGINE: qdialect-check: error: --require=proof cannot be met with --engine=iree, which proves nothing

func.func @f(%x: tensor<2xi16>) -> tensor<2xi8> {
  %b = arith.constant dense<[6000000, 9000]> : tensor<2xi32>
  %s = arith.constant dense<18> : tensor<2xi32>
  %0 = arith.extsi %x : tensor<2xi16> to tensor<2xi32>
  %1 = arith.addi %0, %b : tensor<2xi32>
  %2 = arith.shrsi %1, %s : tensor<2xi32>
  %3 = arith.trunci %2 : tensor<2xi32> to tensor<2xi8>
  return %3 : tensor<2xi8>
}
