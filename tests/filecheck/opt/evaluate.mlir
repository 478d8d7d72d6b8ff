// RUN: python -c "import numpy; numpy.savez('%t.npz', x=numpy.array([[1, -2.25], [0.5, 8]], 'f4'), label=numpy.array([0, 0]))"
// RUN: qdialect-evaluate %s %s --data %t.npz --labels=label --engine=reference --json %t.json 2>&1 | filecheck %s
// RUN: filecheck %s --input-file %t.json --check-prefix=JSON
// RUN: qdialect-evaluate --help | filecheck %s --check-prefix=HELP
// RUN: not qdialect-evaluate %s %s 2>&1 | filecheck %s --check-prefix=DATA
// RUN: not qdialect-evaluate %s %s --data %t.none --jobs=0 2>&1 | filecheck %s --check-prefix=JOBS
// RUN: not qdialect-evaluate %s %s --data %t.none 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not qdialect-evaluate %s %s --data %t.none --function=other 2>&1 | filecheck %s --check-prefix=FUNCTION

// CHECK:      evaluate.mlir{{.*}}:9: remark: not compared: 'inner', since the region may run several times, or never
// CHECK-NOT:  remark
// CHECK:      values:
// CHECK-NEXT:   value  op          stored as  signal to noise (dB)  drop (dB)
// CHECK-NEXT:   x      argument    f32                         inf
// CHECK-NEXT:   y      arith.negf  f32                         inf       0.00
// CHECK-NEXT:   if     scf.if      f32                         inf
// CHECK:      result 0 ('if'): the signal to noise is inf dB
// CHECK-NEXT: result 0 ('if'): the top answer agrees in 100.00 % (2 of 2)
// CHECK-NEXT: result 0 ('if'): accuracy is 50.00 % (1 of 2) for FLOAT, 50.00 % (1 of 2) for QUANTIZED
// CHECK-NEXT: 2 records, run by reference

// JSON: "format": "qdialect-evaluation"
// HELP: array of shape S is one record, and one of shape (n, *S) holds n records
// DATA: qdialect-evaluate: error: the following arguments are required: --data
// JOBS: qdialect-evaluate: error: --jobs must be at least 1, but is 0
// NONE: qdialect-evaluate: error: cannot read '{{.*}}.none': No such file or directory
// FUNCTION: evaluate.mlir: error: there is no function 'other'

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = arith.negf %x : tensor<2xf32>
  %yes = arith.constant true
  %if = "scf.if"(%yes) ({
    %inner = arith.subf %x, %y : tensor<2xf32>
    scf.yield %inner : tensor<2xf32>
  }, {
    scf.yield %y : tensor<2xf32>
  }) : (i1) -> tensor<2xf32>
  return %if : tensor<2xf32>
}
