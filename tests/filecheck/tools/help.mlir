// RUN: qdialect-opt --help | filecheck %s
// RUN: qdialect-opt --version | filecheck %s --check-prefix=VERSION

// CHECK: usage: qdialect-opt [options] [input file, or - for standard input]
// CHECK:   --split-input-file {{ *}}process each part between `// -----` lines separately
// CHECK: passes, run in the order given
// CHECK:   --canonicalize {{ *}}Apply all canonicalization patterns and folders.
// CHECK:   --fold-quant-shapes {{ *[A-Z].*}}
// VERSION: qdialect-opt {{.*}} (xDSL 0.7{{[34].*}}, MLIR 22 quant dialect)
