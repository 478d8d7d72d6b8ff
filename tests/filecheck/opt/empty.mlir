// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt /dev/null | filecheck %s
// RUN: not qdialect-opt %s --no-implicit-module 2>&1 | filecheck %s --check-prefix=NO-MODULE
// RUN: echo "builtin.module {}" | qdialect-opt --no-implicit-module | filecheck %s

// CHECK:      builtin.module {
// CHECK-NEXT: }
// NO-MODULE: error: source must contain a single top-level builtin.module, found: 0 operations
!alias = i8
