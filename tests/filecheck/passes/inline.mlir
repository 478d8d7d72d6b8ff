// RUN: qdialect-opt %s --inline --allow-unregistered-dialect | filecheck %s

// CHECK-LABEL: builtin.module {

// Calls in private functions that are inlined themselves, and these are gone.
// CHECK-NEXT:    func.func @twice(%x: f32) -> f32 {
// CHECK-NEXT:      %0 = arith.addf %x, %x : f32
// CHECK-NEXT:      %1 = arith.addf %0, %0 : f32
// CHECK-NEXT:      func.return %1 : f32
func.func @twice(%x: f32) -> f32 {
  %0 = call @four(%x) : (f32) -> f32
  return %0 : f32
}
func.func private @four(%x: f32) -> f32 {
  %0 = call @double(%x) : (f32) -> f32
  %1 = call @double(%0) : (f32) -> f32
  return %1 : f32
}
func.func private @double(%x: f32) -> f32 {
  %0 = arith.addf %x, %x : f32
  return %0 : f32
}

// CHECK:         func.func @calls_endless
// CHECK-NEXT:      func.call @endless
func.func @calls_endless(%x: f32) -> f32 {
  %0 = call @endless(%x) : (f32) -> f32
  return %0 : f32
}
// CHECK:         func.func private @endless(%x: f32) -> f32 {
// CHECK-NEXT:      func.call @endless(%x)
func.func private @endless(%x: f32) -> f32 {
  %0 = call @endless(%x) : (f32) -> f32
  return %0 : f32
}

// What has no body is called, and what has several blocks.
// CHECK:         func.func @others
// CHECK-NEXT:      func.call @declared
// CHECK-NEXT:      func.call @blocks
func.func @others(%x: f32) -> f32 {
  %0 = call @declared(%x) : (f32) -> f32
  %1 = call @blocks(%0) : (f32) -> f32
  return %1 : f32
}
func.func private @declared(f32) -> f32
func.func private @blocks(%x: f32) -> f32 {
  cf.br ^next
^next:
  return %x : f32
}

// A function that is named elsewhere stays.
// CHECK:         func.func private @named
func.func private @named(%x: f32) -> f32 {
  return %x : f32
}
func.func @names(%x: f32) -> f32 attributes {uses = [@named]} {
  return %x : f32
}

// So does one that is named in an attribute of a dialect that is not known.
// CHECK:         func.func private @named_in_text
func.func private @named_in_text(%x: f32) -> f32 {
  return %x : f32
}
"my.op"() {uses = #my.table<1 = @named_in_text>} : () -> ()

// Private functions that only each other use are gone.
// CHECK-NOT:     @ping
func.func private @ping(%x: f32) -> f32 {
  %0 = call @pong(%x) : (f32) -> f32
  return %0 : f32
}
func.func private @pong(%x: f32) -> f32 {
  %0 = call @ping(%x) : (f32) -> f32
  return %0 : f32
}
