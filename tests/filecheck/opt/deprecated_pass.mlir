// RUN: qdialect-opt %s -p test-deprecation 2>&1 >/dev/null | filecheck %s
// RUN: qdialect-opt %s -p test-deprecation | filecheck %s --check-prefix=OUTPUT

// CHECK: qdialect-opt: warning: DeprecationWarning: hello
// CHECK-NOT: {{.}}
// OUTPUT: func.func private @f
func.func private @f()
