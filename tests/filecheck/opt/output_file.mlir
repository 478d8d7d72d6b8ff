// RUN: rm -rf %t && mkdir %t
// RUN: qdialect-opt %s -o %t/new.mlir | filecheck %s --check-prefix=NOTHING --allow-empty
// RUN: filecheck %s --input-file %t/new.mlir
// RUN: qdialect-opt --print-op-generic %s --output-file=%t/new.mlir
// RUN: filecheck %s --input-file %t/new.mlir --check-prefix=GENERIC
// RUN: qdialect-opt %s -o - | filecheck %s
// RUN: qdialect-opt %s -o /dev/null

// After an error, the file is as it was.

// RUN: not qdialect-opt %s --cse -o %t/new.mlir --split-input-file --no-implicit-module
// RUN: filecheck %s --input-file %t/new.mlir --check-prefix=GENERIC

// RUN: not qdialect-opt %s -o %t/no/such/file 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not qdialect-opt %s -o %t 2>&1 | filecheck %s --check-prefix=DIRECTORY
// MISSING: qdialect-opt: error: cannot open output file '{{.*}}/no/such/file': No such file or directory
// DIRECTORY: qdialect-opt: error: cannot open output file '{{.*}}': Is a directory

// NOTHING-NOT: {{.}}
// CHECK: func.func private @f()
// GENERIC: "func.func"()
func.func private @f()
