// RUN: not qdialect-opt %s -t x86-asm 2>&1 >/dev/null | filecheck %s

// A target says what is wrong with a module as a pass does, and is not told to have failed.

// CHECK: {{^.*}}target_errors.mlir: error: Unexpected visibility odd for function "f"
"x86_func.func"() ({
  "x86_func.ret"() : () -> ()
}) {sym_name = "f", function_type = () -> (), sym_visibility = "odd"} : () -> ()
