// RUN: python -c "import numpy; numpy.savez('%t.npz', x=numpy.array([[1, -2], [0.5, 8]], 'f4'))"
// RUN: qdialect-calibrate %s --data %t.npz --engine=reference -o %t.json 2>&1 | filecheck %s --check-prefix=TOLD
// RUN: filecheck %s --input-file %t.json
// RUN: qdialect-calibrate %s --data %t.npz --engine=reference -o %t.json --resume 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: qdialect-opt %s --attach-ranges="profile=%t.json" | filecheck %s --check-prefix=ATTACHED
// RUN: qdialect-calibrate %s --data %t.npz --engine=reference -o %t.one.json --records=1: 2>&1 | filecheck %s --check-prefix=PART
// RUN: qdialect-calibrate --help | filecheck %s --check-prefix=HELP

// TOLD: {{.*}}calibrate.mlir:{{[0-9]+}}:9: remark: not recorded: 'inner', since the region may run several times, or never
// TOLD: qdialect-calibrate: 2 of 2 records of 3 values are recorded
// AGAIN: qdialect-calibrate: 2 of 2 records of 3 values are recorded

// PART: qdialect-calibrate: 1 of 1 records of 3 values are recorded

// CHECK: "format": "qdialect-profile"
// CHECK: "if": {"axes": [], "records": [0, 1], "minima": [-4.0, 1.0], "maxima": [2.0, 16.0], "count": 4, "nans": 0}
// CHECK-NEXT: "x": {"axes": [], "records": [0, 1], "minima": [-2.0, 0.5], "maxima": [1.0, 8.0], "count": 4, "nans": 0}
// CHECK-NEXT: "y": {"axes": [], "records": [0, 1], "minima": [-1.0, -8.0], "maxima": [2.0, -0.5], "count": 4, "nans": 0}

// ATTACHED: quant.stats{{.*}}[-2.000000e+00, 8.000000e+00]

// HELP: array of shape S is one record, and one of shape (n, *S) holds n records

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
