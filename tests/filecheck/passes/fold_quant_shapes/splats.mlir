// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --canonicalize | filecheck %s
// RUN: xdsl-opt %s -p fold-quant-shapes | filecheck %s

// Four billion elements, and one of them in memory.
// CHECK-LABEL: @splats
// CHECK-NEXT:    %w = quant.constant dense<0> : tensor<4294967296x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT:    func.return %w
!p = !quant.uniform<i8:f32, 0.5>
func.func @splats() -> tensor<4294967296x!p> {
  %w = quant.constant dense<0> : tensor<65536x65536x!p>
  %t = quant.transpose %w permutation = [1, 0] : tensor<65536x65536x!p> to tensor<65536x65536x!p>
  %v = quant.reverse %t dims = [0, 1] : tensor<65536x65536x!p> to tensor<65536x65536x!p>
  %c = quant.concat dim(1) %v, %t : (tensor<65536x65536x!p>, tensor<65536x65536x!p>) -> tensor<65536x131072x!p>
  %b = quant.broadcast_in_dim %c dims = [1, 2] : tensor<65536x131072x!p> to tensor<7x65536x131072x!p>
  %d = quant.pad %b low = [0, 0, 1] high = [0, 0, 0] : tensor<7x65536x131072x!p> to tensor<7x65536x131073x!p>
  %s = quant.slice %d [6, 0, 0] [1, 65536, 65536] [1, 1, 2] : tensor<7x65536x131073x!p> to tensor<1x65536x65536x!p>
  %r = quant.reshape %s : tensor<1x65536x65536x!p> to tensor<4294967296x!p>
  return %r : tensor<4294967296x!p>
}

// Padded with something else, it would have to be written, and is left as it is.
// CHECK-LABEL: @too_large
// CHECK:         quant.pad
!q = !quant.uniform<i8:f32, 0.5:1>
func.func @too_large() -> tensor<65537x65536x!q> {
  %w = quant.constant dense<0> : tensor<65536x65536x!q>
  %d = quant.pad %w low = [1, 0] high = [0, 0] : tensor<65536x65536x!q> to tensor<65537x65536x!q>
  return %d : tensor<65537x65536x!q>
}

// More elements than any array can have.
// CHECK-LABEL: @beyond_arrays
// CHECK:         quant.pad
// CHECK:         quant.concat
!huge = tensor<1099511627776x1099511627776x!q>
func.func @beyond_arrays() -> (tensor<1099511627777x1099511627776x!q>, tensor<2199023255552x1099511627776x!q>) {
  %a = quant.constant dense<0> : !huge
  %b = quant.constant dense<2> : !huge
  %d = quant.pad %a low = [1, 0] high = [0, 0] : !huge to tensor<1099511627777x1099511627776x!q>
  %c = quant.concat dim(0) %a, %b : (!huge, !huge) -> tensor<2199023255552x1099511627776x!q>
  return %d, %c : tensor<1099511627777x1099511627776x!q>, tensor<2199023255552x1099511627776x!q>
}
