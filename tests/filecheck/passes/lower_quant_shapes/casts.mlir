// RUN: qdialect-opt %s --lower-quant-shapes | filecheck %s
// RUN: xdsl-opt %s -p lower-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --lower-quant-shapes --print-debuginfo | filecheck %s --check-prefix LOCATION

!p = !quant.uniform<i8:f32, 0.5>

// Casts are only where a chain begins and ends, and none where it does so as integers.
// CHECK-LABEL: @chain(
// CHECK-NEXT:      %0 = tensor.empty() : tensor<3x2xi8>
// CHECK-NEXT:      %t = linalg.transpose ins(%x:tensor<2x3xi8>)
// CHECK-NEXT:      %r = tensor.collapse_shape %t
// CHECK-NEXT:      %1 = quant.scast %r : tensor<6xi8> to tensor<6x!quant.uniform
// CHECK-NEXT:      %f = quant.dcast %1
// CHECK-NEXT:      func.return %r, %f
func.func @chain(%x: tensor<2x3xi8>) -> (tensor<6xi8>, tensor<6xf32>) {
  %q = quant.scast %x : tensor<2x3xi8> to tensor<2x3x!p>
  %t = quant.transpose %q permutation = [1, 0] : tensor<2x3x!p> to tensor<3x2x!p>
  %r = quant.reshape %t : tensor<3x2x!p> to tensor<6x!p>
  %s = quant.scast %r : tensor<6x!p> to tensor<6xi8>
  %f = quant.dcast %r : tensor<6x!p> to tensor<6xf32>
  return %s, %f : tensor<6xi8>, tensor<6xf32>
}

// What several ops move is cast once, where it is made.
// CHECK-LABEL: @shared(
// CHECK-NEXT:      %q = quant.qcast %x
// CHECK-NEXT:      %0 = quant.scast %q
// CHECK-NEXT:      %1 = tensor.expand_shape %0
// CHECK-NEXT:      tensor.extract_slice %0
// CHECK-NOT:       quant.scast %q
func.func @shared(%x: tensor<4xf32>) -> (tensor<2x2xi8>, tensor<2x!p>) {
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!p>
  %0 = quant.reshape %q : tensor<4x!p> to tensor<2x2x!p>
  %1 = quant.scast %0 : tensor<2x2x!p> to tensor<2x2xi8>
  %2 = quant.slice %q [0] [2] [1] : tensor<4x!p> to tensor<2x!p>
  return %1, %2 : tensor<2x2xi8>, tensor<2x!p>
}

// In other regions, and in blocks that are not in order.
// CHECK-LABEL: @regions(
// CHECK-NEXT:      %0 = quant.scast %x
// CHECK:         ^last:
// CHECK:           scf.if
// CHECK-NEXT:        tensor.expand_shape %s
// CHECK-NEXT:        quant.scast
// CHECK-NEXT:        scf.yield
// CHECK:         ^next:
// CHECK-NEXT:      %s = tensor.extract_slice %0
func.func @regions(%c: i1, %x: tensor<4x!p>, %f: tensor<2x1xf32>) -> tensor<2x1x!p> {
  cf.br ^next
^last:
  %4 = scf.if %c -> (tensor<2x1x!p>) {
    %5 = quant.reshape %s : tensor<2x!p> to tensor<2x1x!p>
    scf.yield %5 : tensor<2x1x!p>
  } else {
    %6 = quant.qcast %f : tensor<2x1xf32> to tensor<2x1x!p>
    scf.yield %6 : tensor<2x1x!p>
  }
  return %4 : tensor<2x1x!p>
^next:
  %s = quant.slice %x [0] [2] [1] : tensor<4x!p> to tensor<2x!p>
  cf.br ^last
}

// LOCATION-LABEL: @locations(
// LOCATION-NEXT:   arith.constant dense<[1, 2]> : tensor<2xi8> loc("weights.py":3:7)
// LOCATION-NEXT:   tensor.expand_shape {{.*}} loc("model.py":4:1)
// LOCATION-NEXT:   quant.scast {{.*}} loc("model.py":4:1)
func.func @locations() -> tensor<2x1x!p> {
  %w = quant.constant dense<[1, 2]> : tensor<2x!p> loc("weights.py":3:7)
  %0 = quant.reshape %w : tensor<2x!p> to tensor<2x1x!p> loc("model.py":4:1)
  return %0 : tensor<2x1x!p>
}
