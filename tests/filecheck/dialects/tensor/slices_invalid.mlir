// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

// The messages of mlir-opt.
func.func @begins_behind_the_end(%x: tensor<4x6xf32>) {
  // expected-error @below {{offset 0 is out-of-bounds: 5 >= 4}}
  %0 = tensor.extract_slice %x[5, 0] [1, 2] [1, 1] : tensor<4x6xf32> to tensor<1x2xf32>
  return
}

// -----

func.func @is_empty_at_the_end(%x: tensor<4x6xf32>) {
  // expected-error @below {{offset 0 is out-of-bounds: 4 >= 4}}
  %0 = tensor.extract_slice %x[4, 0] [0, 2] [1, 1] : tensor<4x6xf32> to tensor<0x2xf32>
  return
}

// -----

func.func @runs_out(%x: tensor<4x6xf32>) {
  // expected-error @below {{slice along dimension 1 runs out-of-bounds: 7 >= 6}}
  %0 = tensor.extract_slice %x[0, 1] [4, 3] [1, 3] : tensor<4x6xf32> to tensor<4x3xf32>
  return
}

// -----

func.func @is_negative(%x: tensor<4xf32>) {
  // expected-error @below {{expected offsets to be non-negative, but got -1}}
  %0 = tensor.extract_slice %x[-1] [2] [1] : tensor<4xf32> to tensor<2xf32>
  return
}

// -----

func.func @known_axis(%x: tensor<?x6xf32>, %n: index) {
  // expected-error @below {{offset 1 is out-of-bounds: 6 >= 6}}
  %0 = tensor.extract_slice %x[9, 6] [1, %n] [1, 1] : tensor<?x6xf32> to tensor<1x?xf32>
  return
}

// -----

func.func @inserted(%x: tensor<4x6xf32>, %y: tensor<2x2xf32>) {
  // expected-error @below {{slice along dimension 0 runs out-of-bounds: 4 >= 4}}
  %0 = tensor.insert_slice %y into %x[3, 0] [2, 2] [1, 1] : tensor<2x2xf32> into tensor<4x6xf32>
  return
}

// -----

// Unknown at run time only, empty in the middle, and backwards.
func.func @valid(%x: tensor<4x6xf32>, %n: index) {
  %0 = tensor.extract_slice %x[%n, 0] [7, 2] [1, 1] : tensor<4x6xf32> to tensor<7x2xf32>
  %1 = tensor.extract_slice %x[3, 0] [%n, 2] [1, 1] : tensor<4x6xf32> to tensor<?x2xf32>
  %2 = tensor.extract_slice %x[3, 0] [3, 2] [%n, 1] : tensor<4x6xf32> to tensor<3x2xf32>
  %3 = tensor.extract_slice %x[3, 0] [0, 2] [1, 1] : tensor<4x6xf32> to tensor<0x2xf32>
  %4 = tensor.extract_slice %x[3, 0] [4, 2] [-1, 1] : tensor<4x6xf32> to tensor<4x2xf32>
  return
}
