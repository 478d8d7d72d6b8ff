// RUN: not qdialect-calibrate %s 2>&1 | filecheck %s --check-prefix=DATA
// RUN: not qdialect-calibrate %s --data %t.none 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not qdialect-calibrate %s --data %t.none --jobs=0 2>&1 | filecheck %s --check-prefix=JOBS
// RUN: not qdialect-calibrate %s --data %t.none --jobs=x 2>&1 | filecheck %s --check-prefix=NUMBER
// RUN: not qdialect-calibrate %s --data %t.none --function=other 2>&1 | filecheck %s --check-prefix=FUNCTION
// RUN: not qdialect-calibrate %s --data %t.none --function=declared 2>&1 | filecheck %s --check-prefix=BODY
// RUN: not qdialect-calibrate %s --data %t.none --resume 2>&1 | filecheck %s --check-prefix=RESUME
// RUN: not qdialect-calibrate %s --data %t.none --engine=other 2>&1 | filecheck %s --check-prefix=ENGINE
// RUN: not qdialect-calibrate %s --data %t.none --records=3 2>&1 | filecheck %s --check-prefix=RECORDS

// DATA: qdialect-calibrate: error: the following arguments are required: --data
// NONE: qdialect-calibrate: error: cannot read '{{.*}}.none': No such file or directory
// JOBS: qdialect-calibrate: error: --jobs must be at least 1, but is 0
// NUMBER: qdialect-calibrate: error: --jobs must be a number, but is 'x'
// RECORDS: qdialect-calibrate: error: --records must be A:B, such as 0:100, but is '3'
// FUNCTION: calibrate_errors.mlir: error: there is no function 'other'
// BODY: error: 'func.func' op 'declared' has no body
// RESUME: qdialect-calibrate: error: --resume needs the file of a profile: -o FILE
// ENGINE: qdialect-calibrate: error: argument --engine: invalid choice: 'other'

func.func @main(%x: tensor<2xf32>) { return }
func.func private @declared(%x: tensor<2xf32>)
