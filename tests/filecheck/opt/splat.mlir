// What a splat needs does not depend on how many elements it has.

// RUN: qdialect-opt %s | filecheck %s
// RUN: qdialect-opt %s --canonicalize --cse | filecheck %s

func.func @splats() -> (tensor<65536x65536xi8>, tensor<65536x65536xf32>, tensor<65536x65536xi16>, tensor<3xi8>) {
  // CHECK: dense<-1> : tensor<65536x65536xi8>
  %0 = arith.constant dense<-1> : tensor<65536x65536xi8>
  // CHECK: dense<1.500000e+00> : tensor<65536x65536xf32>
  %1 = arith.constant dense<1.5> : tensor<65536x65536xf32>
  // CHECK: dense<513> : tensor<65536x65536xi16>
  %2 = arith.constant dense<"0x0102"> : tensor<65536x65536xi16>
  // CHECK: dense<[1, 2, 3]> : tensor<3xi8>
  %3 = arith.constant dense<"0x010203"> : tensor<3xi8>
  return %0, %1, %2, %3 : tensor<65536x65536xi8>, tensor<65536x65536xf32>, tensor<65536x65536xi16>, tensor<3xi8>
}
