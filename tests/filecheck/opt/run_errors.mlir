// RUN: not qdialect-run %s --symbol nothing --allow-unregistered-dialect 2>&1 | filecheck %s --check-prefix=SYMBOL
// RUN: not qdialect-run %s --symbol unknown --allow-unregistered-dialect 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not qdialect-run %s --symbol unknown 2>&1 | filecheck %s --check-prefix=UNREGISTERED
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol taken 2>&1 | filecheck %s --check-prefix=COUNT
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol taken --args '300 : i8' 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol taken --args 'dense<9> : tensor<2x!quant.uniform<i8<0:7>:f32, 0.5>>' 2>&1 | filecheck %s --check-prefix=STORED
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol taken --args '1 : i8 2' 2>&1 | filecheck %s --check-prefix=COMMA
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol taken --args '1.0, 2.0' 2>&1 | filecheck %s --check-prefix=TYPE
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol taken --args 'one' 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not qdialect-run %s --max-memory=1GiB 2>&1 | filecheck %s --check-prefix=BYTES
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol taken --args '1 : tensor<*xi8>' 2>&1 | filecheck %s --check-prefix=UNRANKED
// RUN: not qdialect-run %s --allow-unregistered-dialect --symbol taken --args 'dense<1> : tensor<?xi8>' 2>&1 | filecheck %s --check-prefix=DYNAMIC
// RUN: not qdialect-run %s --args 1 --random-inputs=1 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not qdialect-run %s --random-inputs=-3 2>&1 | filecheck %s --check-prefix=SEED
// RUN: not qdialect-run %s --max-steps=x 2>&1 | filecheck %s --check-prefix=STEPS
// RUN: not qdialect-run %s --simbol=taken 2>&1 | filecheck %s --check-prefix=NEAR
// RUN: not qdialect-run %s.nothing 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not qdialect-run %s --args-file %s.nothing --allow-unregistered-dialect 2>&1 | filecheck %s --check-prefix=MISSING

// SYMBOL: run_errors.mlir: error: there is no function 'nothing', but 'taken', 'unknown'
// SEED: qdialect-run: error: --random-inputs must not be negative, but is -3
// STEPS: qdialect-run: error: --max-steps must be a number, but is 'x'
// NEAR: qdialect-run: error: unrecognized arguments: --simbol=taken; did you mean '--symbol'?
// UNKNOWN: run_errors.mlir:39:3: error: 'other.op' op cannot be run: it has no implementation
// UNKNOWN-NEXT: "other.op"() : () -> ()
// UNREGISTERED: run_errors.mlir:39:13: error: operation being parsed with an unregistered dialect
// COUNT: run_errors.mlir:37:1: error: 'func.func' op 'taken' takes 1 arguments, but 0 are given
// RANGE: <args>:1:1: error: integer constant out of range for type
// STORED: <args>:1:12: error: every element is 9, outside the storage range [0, 7]
// COMMA: <args>:1:7: error: expected ','
// TYPE: <args>:1:4: error: expected ':' and a type, as in `1.5 : f32` or `dense<[1, 2]> : tensor<2xi8>`
// VALUE: <args>:1:1: error: expected a value, as in `1.5 : f32` or `dense<[1, 2]> : tensor<2xi8>`
// BYTES: qdialect-run: error: --max-memory must be a number of bytes, but is '1GiB'
// BOTH: qdialect-run: error: argument --random-inputs: not allowed with argument --args
// MISSING: qdialect-run: error: cannot open input file '{{.*}}nothing': No such file or directory

func.func @taken(%x: i8) { return }
func.func @unknown() {
  "other.op"() : () -> ()
  return
}
// UNRANKED: <args>:1:5: error: a number cannot have a tensor type
// DYNAMIC: <args>:1:12: error: a tensor must have a static shape
