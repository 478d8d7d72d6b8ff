// RUN: qdialect-opt --help | filecheck %s
// RUN: qdialect-opt --help=all | filecheck %s --check-prefix=ALL
// RUN: qdialect-opt --shift-storage --fold-quant-shapes --help | filecheck %s --check-prefix=PASS
// RUN: qdialect-opt --version | filecheck %s --check-prefix=VERSION

// CHECK: usage: qdialect-opt [options] [passes] [input file, or - for standard input]
// CHECK: Folding:
// CHECK-NEXT:   --fold-quant-shapes {{ *[A-Z].*}}
// CHECK:   --canonicalize {{ *}}Apply all canonicalization patterns and folders.
// CHECK-NOT: --cse
// CHECK: Input:
// CHECK:   --split-input-file {{ *}}process each part between `// -----` lines
// CHECK-NEXT: {{^ *}}separately
// CHECK: Targets of -t: {{.*}}
// ALL: Passes of xDSL and of plug-ins:
// ALL:   --cse
// PASS: usage: qdialect-opt --shift-storage="from=TEXT to=TEXT" [input file]
// PASS: Options:
// PASS-NEXT:   from=TEXT {{ *}}The storage before: `i8`, `u8`, `i4`, `u4`,
// PASS-NEXT: `i16`, `u16`, ... (required)
// PASS: Example:
// PASS-NEXT:   qdialect-opt --shift-storage="from=i8 to=u8" examples/tiny.mlir
// PASS: usage: qdialect-opt --fold-quant-shapes[="option=value ..."] [input file]
// PASS:   granularity=TEXT {{ *}}The finest type that a folded constant may have.
// PASS-NEXT: One of: per-tensor, per-axis, sub-channel.
// PASS-NEXT: (default: sub-channel)
// VERSION: qdialect-opt {{.*}} (xDSL 0.7{{[34].*}}, MLIR 22 quant dialect)
