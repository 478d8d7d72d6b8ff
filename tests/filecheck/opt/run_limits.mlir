// RUN: not qdialect-run %s --symbol argument --random-inputs 1 2>&1 | filecheck %s --check-prefix=ARGUMENT
// RUN: not qdialect-run %s --symbol loop --max-steps=1000 2>&1 | filecheck %s --check-prefix=STEPS
// RUN: qdialect-run %s --symbol counted --max-steps=9 | filecheck %s --check-prefix=COUNTED
// RUN: not qdialect-run %s --symbol counted --max-steps=8 2>&1 | filecheck %s --check-prefix=TOO-FEW
// RUN: not qdialect-run %s --symbol doubled --max-memory=1000000 2>&1 | filecheck %s --check-prefix=DOUBLED
// RUN: qdialect-run %s --symbol doubled --max-memory=5000000 | filecheck %s --check-prefix=ROOM
// RUN: qdialect-run %s --symbol splat | filecheck %s --check-prefix=SPLAT
// RUN: not qdialect-run %s --max-steps=-1 2>&1 | filecheck %s --check-prefix=NEGATIVE

// A run ends at its bounds, with an error that names the option.

// NEGATIVE: qdialect-run: error: --max-steps must not be negative, but is -1

// ARGUMENT: run_limits.mlir: error: argument #0 of type 'tensor<8589934592xf32>' is not made: it would take {{[0-9]+}} more bytes, but only 536870912 of the allowed 536870912 are left (--max-memory) [memory]
func.func @argument(%x: tensor<8589934592xf32>) {
  return
}

// STEPS: run_limits.mlir:23:3: error: 'cf.br' op is not run: 1000 steps have been taken before it (--max-steps)
func.func @loop() {
  cf.br ^bb1
^bb1:
  cf.br ^bb1
}

// Three constants, the loop, two rounds of an addition and a yield, the return.
// COUNTED: 2 : index
// TOO-FEW: run_limits.mlir:37:3: error: 'func.return' op is not run: 8 steps have been taken before it (--max-steps)
func.func @counted() -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %0 = scf.for %i = %c0 to %c2 step %c1 iter_args(%sum = %c0) -> (index) {
    %1 = arith.addi %sum, %c1 : index
    scf.yield %1 : index
  }
  return %0 : index
}

// The loop holds the last result and the next one: 2 MiB + 1 MiB at the end.
// DOUBLED: run_limits.mlir:50:10: error: 'tensor.concat' op is not run: it would take 1048576 more bytes, but only 475712 of the allowed 1000000 are left (--max-memory) [memory]
// ROOM: 0
func.func @doubled() -> index {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 20 : index
  %x = arith.constant dense<[1, 2]> : tensor<2xi8>
  %dynamic = tensor.cast %x : tensor<2xi8> to tensor<?xi8>
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%before = %dynamic) -> (tensor<?xi8>) {
    %1 = tensor.concat dim(0) %before, %before : (tensor<?xi8>, tensor<?xi8>) -> tensor<?xi8>
    scf.yield %1 : tensor<?xi8>
  }
  return %c0 : index
}

// What is equal everywhere is computed once.
// SPLAT: dense<7.000000e+00> : tensor<64x4294967296xf32>
!q = !quant.uniform<i8:f32, 0.5>
func.func @splat() -> tensor<64x4294967296xf32> {
  %0 = quant.constant dense<7> : tensor<4294967296x64x!q>
  %1 = quant.transpose %0 permutation = [1, 0] : tensor<4294967296x64x!q> to tensor<64x4294967296x!q>
  %2 = quant.dcast %1 : tensor<64x4294967296x!q> to tensor<64x4294967296xf32>
  %3 = arith.addf %2, %2 : tensor<64x4294967296xf32>
  return %3 : tensor<64x4294967296xf32>
}
