// RUN: sed -e '/LOG/d' %s > %t.log
// RUN: sed -e '/PRINT/d' %s > %t.print
// RUN: sed -e s/true/false/ %s > %t.assert
// RUN: sed -e s/@weight/@gone/ %s > %t.name
// RUN: sed -e 's/@weight/private @weight/' %s > %t.private
// RUN: sed -e 's/my.tag = 1/my.tag = 2/' %s > %t.tag
// RUN: sed -e 's/"high"/"low"/' %s > %t.model
// RUN: sed -e 's/1.0, 2.0.,/4.0, 2.0],/' %s > %t.element
// RUN: qdialect-check --allow-unregistered-dialect %s %s | filecheck %s --check-prefix=SAME
// RUN: not qdialect-check --allow-unregistered-dialect %s %t.log 2>&1 | filecheck %s --check-prefix=LOG
// RUN: not qdialect-check --allow-unregistered-dialect %s %t.print 2>&1 | filecheck %s --check-prefix=PRINT
// RUN: not qdialect-check --allow-unregistered-dialect %s %t.assert 2>&1 | filecheck %s --check-prefix=ASSERT
// RUN: not qdialect-check --allow-unregistered-dialect %s %t.name 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not qdialect-check --allow-unregistered-dialect %s %t.private 2>&1 | filecheck %s --check-prefix=PRIVATE
// RUN: not qdialect-check --allow-unregistered-dialect %s %t.tag 2>&1 | filecheck %s --check-prefix=TAG
// RUN: qdialect-check --allow-unregistered-dialect --ignore-attributes=my.other,my.tag %s %t.tag
// RUN: not qdialect-check --allow-unregistered-dialect %s %t.model 2>&1 | filecheck %s --check-prefix=MODEL
// RUN: not qdialect-check --allow-unregistered-dialect %s %t.element 2>&1 | filecheck %s --check-prefix=ELEMENT

// SAME: the same: 3 functions, 1 declared, 2 proven

// LOG: effects.mlir:[[#]]:3: error: function 'weight' is not the same: 'func.call' op was removed
// PRINT: effects.mlir:[[#]]:3: error: function 'weight' is not the same: 'my.print' op was removed
// ASSERT: assert:[[#]]:3: error: function 'weight' is not shown to be the same: operand #0 of 'cf.assert' op is 0, but was -1 before
// NAME: effects.mlir:[[#]]:1: error: function 'weight' was removed
// NAME: name:[[#]]:1: error: function 'gone' was added
// PRIVATE: private:[[#]]:1: error: function 'weight' is private, but was public before
// TAG: tag:[[#]]:1: error: function 'weight' attribute 'my.tag' is 2 : i32, but was 1 : i32 before
// MODEL: effects.mlir:[[#]]:8: error: function 'model' is not shown to be the same: result #0 is a result of 'stablehlo.triangular_solve', which has different attributes; and it cannot be run: 'stablehlo.triangular_solve' op
// ELEMENT: effects.mlir:[[#]]:8: error: function 'model' is not shown to be the same: operand #1 of 'stablehlo.triangular_solve' op element [0, 0] is 4.0, but was 1.0 before

func.func private @log(tensor<2xf32>)

func.func @weight() -> tensor<2xf32> attributes {my.tag = 1 : i32} {
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  func.call @log(%c) : (tensor<2xf32>) -> () // LOG
  "my.print"(%c) : (tensor<2xf32>) -> () // PRINT
  %t = arith.constant true
  cf.assert %t, "always"
  return %c : tensor<2xf32>
}

func.func @model(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %t = "stablehlo.transpose"(%w) <{permutation = array<i64: 1, 0>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = "stablehlo.triangular_solve"(%x, %t) <{precision = "high"}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
