ml_program.func @f(%a: i32) -> i32 {
  ml_program.return %a : i32
}
// -----
ml_program.func private @f(i32) -> i32
// -----
ml_program.global public mutable @g(dense<4> : tensor<4xi32>) : tensor<4xi32>
ml_program.global private @h(dense<4> : tensor<4xi32>) : tensor<4xi32>
ml_program.global private @e(#ml_program.extern : i32) : i32
ml_program.func @f() -> tensor<4xi32> {
  %0 = ml_program.global_load @g : tensor<4xi32>
  %1 = ml_program.global_load_const @h : tensor<4xi32>
  ml_program.global_store @g = %0 : tensor<4xi32>
  ml_program.return %0 : tensor<4xi32>
}
// -----
ml_program.global private mutable @g(dense<4> : tensor<4xi32>) : tensor<4xi32>
ml_program.subgraph @f(%a: tensor<4xi32>) -> (tensor<4xi32>, !ml_program.token) {
  %t0 = ml_program.token
  %0, %t = ml_program.global_load_graph @g ordering( -> !ml_program.token) : tensor<4xi32>
  %t1 = ml_program.global_store_graph @g = %0 ordering(%t -> !ml_program.token) : tensor<4xi32>
  %t2 = ml_program.global_store_graph @g = %0 ordering(%t, %t0 -> !ml_program.token) : tensor<4xi32>
  ml_program.output %0, %t1 : tensor<4xi32>, !ml_program.token
}
// -----
memref.global "private" constant @g : memref<2xf32> = dense<[1.0, 2.0]>
memref.global "private" @h : memref<2xf32> = uninitialized
memref.global @k : memref<2xf32>
memref.global constant @l : memref<2xf32> = dense<[1.0, 2.0]> {alignment = 64 : i64}
func.func @f() {
  %0 = memref.get_global @g : memref<2xf32>
  return
}
// -----
func.func private @f(tensor<2xf32> {a.b}, i32) -> (tensor<2xf32> {x.y = 1 : i32}, i32)
func.func @g(%a: i32 {x.y}) -> (i32 {x.z = "a"}) attributes {my.note} {
  return %a : i32
}
func.func nested @h() {
  return
}
// -----
func.func private @f(tensor<2xf32>) -> tensor<2xf32>
func.func @g(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = call @f(%0) {my.note} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
// -----
module @m attributes {a.b} {
  module @n {
  }
  module {
  }
}
// -----
func.func private @f(tensor<2xf32>) -> (tensor<2xf32> {x.y}, i8)
// -----
func.func @g() -> (i32 {x.z = "a"}) attributes {my.note} {
  %0 = arith.constant 1 : i32
  return %0 : i32
}
// -----
#loc = loc("x":3:4)
module @m attributes {a.b = #loc} {
} loc(#loc)
// -----
shape.function_library @lib {
  shape.func @same(%x: !shape.value_shape) -> !shape.shape {
    %0 = shape.shape_of %x : !shape.value_shape -> !shape.shape
    shape.return %0 : !shape.shape
  }
} mapping {my.op = @same}
