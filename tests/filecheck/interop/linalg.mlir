// REQUIRES: mlir-opt-22

// Upstream reads each form as the ops that it reads from its own, bodies included.
// RUN: mlir-opt-22 %S/../dialects/linalg/named_ops.mlir --mlir-print-op-generic -o %t
// RUN: qdialect-opt %S/../dialects/linalg/named_ops.mlir | mlir-opt-22 --mlir-print-op-generic | diff %t -
// RUN: qdialect-opt %S/../dialects/linalg/named_ops.mlir --print-op-generic | mlir-opt-22 --mlir-print-op-generic | diff %t -
// RUN: qdialect-opt %t | mlir-opt-22 --mlir-print-op-generic | diff %t -
// RUN: mlir-opt-22 %t | qdialect-opt | mlir-opt-22 --mlir-print-op-generic | diff %t -
