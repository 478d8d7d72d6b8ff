// REQUIRES: mlir-opt-22

// The files of the dialect hold for upstream too; the custom form of properties is its own.
// RUN: mlir-opt-22 %S/../dialects/tosa/ops.mlir -o %t
// RUN: qdialect-opt %t | filecheck %S/../dialects/tosa/ops.mlir
// RUN: mlir-opt-22 %S/../dialects/tosa/ops.mlir --mlir-print-op-generic -o %t.generic
// RUN: filecheck %S/../dialects/tosa/ops.mlir --input-file %t.generic --check-prefix GENERIC
// RUN: mlir-opt-22 %S/../dialects/tosa/ops_invalid.mlir --split-input-file --verify-diagnostics -o %t.invalid
// RUN: mlir-opt-22 %S/../dialects/tosa/canonicalize.mlir --canonicalize | qdialect-opt | filecheck %S/../dialects/tosa/canonicalize.mlir

// It reads what is printed here, and what it prints is read here, as the same.
// RUN: qdialect-opt %S/../dialects/tosa/ops.mlir | mlir-opt-22 | diff %t -
// RUN: qdialect-opt %S/../dialects/tosa/ops.mlir --print-op-generic | mlir-opt-22 | diff %t -
// RUN: qdialect-opt %t | mlir-opt-22 | diff %t -
// RUN: qdialect-opt %t.generic | mlir-opt-22 | diff %t -
