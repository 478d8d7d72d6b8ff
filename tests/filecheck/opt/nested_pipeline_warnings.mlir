// RUN: qdialect-opt %s --pass-pipeline='builtin.module(func.fun(cse))' 2>&1 >/dev/null | filecheck %s --check-prefix=NAME
// RUN: qdialect-opt %s --pass-pipeline='builtin.module(llvm.func(cse))' 2>&1 | filecheck %s --check-prefix=ABSENT
// RUN: qdialect-opt %s --pass-pipeline='builtin.module(scf.for(cse))' 2>&1 >/dev/null | filecheck %s --check-prefix=DEEPER
// RUN: not qdialect-opt %s --pass-pipeline='builtin.module(func.func(scf.for(cse)))' 2>&1 >/dev/null | filecheck %s --check-prefix=ISOLATED
// RUN: qdialect-opt %s --pass-pipeline='builtin.module(func.func(builtin.module(canonicalize)))' | filecheck %s --check-prefix=INNER

// NAME: nested_pipeline_warnings.mlir: warning: no operation 'func.fun' in the module; did you mean 'func.func'?
// DEEPER: nested_pipeline_warnings.mlir: warning: operation 'scf.for' is deeper in the module: it is not directly in 'builtin.module', so its pipeline does nothing
// ISOLATED: nested_pipeline_warnings.mlir:19:3: error: 'scf.for' op is not isolated from above: no pass can run on it alone

// A module need not have the ops of a pipeline.

// ABSENT-NOT: warning
// ABSENT: func.func @f

func.func @f(%n: index) -> index {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %n step %one {
    "test.op"(%i) : (index) -> ()
  }
  %sum = arith.addi %n, %zero : index

  // In a function, the pipeline of a pipeline finds a module.

  // INNER: arith.addi %n, %zero
  // INNER: builtin.module {
  // INNER-NEXT: func.func @g(%x: index) -> index {
  // INNER-NEXT: func.return %x
  builtin.module {
    func.func @g(%x: index) -> index {
      %none = arith.constant 0 : index
      %same = arith.addi %x, %none : index
      return %same : index
    }
  }
  return %sum : index
}
