// RUN: qdialect-opt %s --split-input-file --verify-diagnostics

func.func @no_output(%a: tensor<2xf32>) {
  // expected-error @below {{'linalg.exp' op expected an output}}
  linalg.exp ins(%a : tensor<2xf32>)
  return
}

// -----

func.func @too_few(%a: tensor<2xf32>) {
  // expected-error @below {{'linalg.add' op expected more than 1 inputs}}
  linalg.add ins(%a : tensor<2xf32>) outs(%a : tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @no_function(%a: tensor<2xi32>) {
  // expected-error @below {{'linalg.exp' op is not defined on 'i32'}}
  %0 = linalg.exp ins(%a : tensor<2xi32>) outs(%a : tensor<2xi32>) -> tensor<2xi32>
  return
}

// -----

func.func @types(%a: tensor<2xi8>, %b: tensor<2xi32>) {
  // expected-error @below {{'linalg.add' op is not defined on 'i32' and 'i8' together}}
  %0 = linalg.add ins(%a, %b : tensor<2xi8>, tensor<2xi32>) outs(%a : tensor<2xi8>) -> tensor<2xi8>
  return
}

// -----

func.func @shapes(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>, %c: tensor<2x5xf32>) {
  // expected-error @below {{has shape's dimension}}
  %0 = linalg.matmul ins(%a, %b : tensor<2x3xf32>, tensor<4x5xf32>) outs(%c : tensor<2x5xf32>) -> tensor<2x5xf32>
  return
}
