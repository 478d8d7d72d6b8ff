// REQUIRES: mlir-opt-22

// Attributes that no dialect of LLVM knows, and aliases of traits: in MLIR's custom and generic
// forms they are the same module, before and after it is printed here.
// RUN: mlir-opt-22 %s --allow-unregistered-dialect -o %t
// RUN: mlir-opt-22 %s --allow-unregistered-dialect --mlir-print-op-generic -o %t.generic
// RUN: qdialect-opt %s --allow-unregistered-dialect | mlir-opt-22 --allow-unregistered-dialect | diff %t -
// RUN: qdialect-opt %t --allow-unregistered-dialect | mlir-opt-22 --allow-unregistered-dialect | diff %t -
// RUN: qdialect-opt %t.generic --allow-unregistered-dialect | mlir-opt-22 --allow-unregistered-dialect | diff %t -

#maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>]
#trait = {indexing_maps = #maps, iterator_types = ["parallel"], library_call = "copy"}

func.func @arithmetic(%a: i32, %c: i1, %t: tensor<?xf32>, %u: tensor<?xf32>) -> i32 {
  %0 = arith.cmpi eq, %a, %a {foo.x} : i32
  %1 = arith.cmpf ule, %t, %t fastmath<nnan> {foo.x} : tensor<?xf32>
  %2 = linalg.generic #trait ins(%t : tensor<?xf32>) outs(%u : tensor<?xf32>) attrs = {foo.x} {
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  } -> tensor<?xf32>
  %3 = scf.if %c -> i32 {
    scf.yield %a : i32
  } else {
    %k = arith.constant 3 : i32
    scf.yield %k : i32
  } {foo.x}
  return %3 : i32
}

func.func @shapes(%t: tensor<?xf32>, %s: tensor<2xindex>, %m: memref<?xf32>, %i: index) {
  %0 = tensor.empty(%i, %i) {foo.x = 2 : i32} : tensor<?x4x?xf32>
  %1 = tensor.reshape %t(%s) {foo.x} : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  %2 = memref.dim {foo.x} %m, %i : memref<?xf32>
  %3 = memref.dim %m, %i : memref<?xf32>
  return
}

func.func @tosa(%a: tensor<3x4xf32>) -> tensor<4xi32> {
  %0 = tosa.abs %a {foo.x} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = tosa.argmax %0 {axis = 0 : i32, foo.x = unit} : (tensor<3x4xf32>) -> tensor<4xi32>
  return %1 : tensor<4xi32>
}
