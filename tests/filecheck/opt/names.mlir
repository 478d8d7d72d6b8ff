// RUN: qdialect-opt %s --allow-unregistered-dialect | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect | qdialect-opt --allow-unregistered-dialect | filecheck %s
// RUN: qdialect-opt %s --allow-unregistered-dialect --print-op-generic | qdialect-opt --allow-unregistered-dialect | filecheck %s

// Names are printed as they are written, whatever number they end in.
// CHECK-LABEL: func.func @kept(%x_3: f32)
func.func @kept(%x_3: f32) -> f32 {
  // CHECK-NEXT: %h_2 = "test.op"(%x_3)
  %h_2 = "test.op"(%x_3) : (f32) -> f32
  // CHECK-NEXT: %conv_10 = "test.op"(%h_2)
  %conv_10 = "test.op"(%h_2) : (f32) -> f32
  // CHECK-NEXT: %h = "test.op"(%conv_10)
  %h = "test.op"(%conv_10) : (f32) -> f32
  // CHECK-NEXT: cf.br ^bb_1(%h : f32)
  cf.br ^bb_1(%h : f32)
// CHECK-NEXT: ^bb_1(%y_0: f32):
^bb_1(%y_0: f32):
  // CHECK-NEXT: cf.br ^bb1_2
  cf.br ^bb1_2
// CHECK-NEXT: ^bb1_2:
^bb1_2:
  // CHECK-NEXT: return %y_0
  return %y_0 : f32
}

// A second value with a name gets a number that no other name ends in.
// CHECK-LABEL: func.func @numbered
func.func @numbered() {
  // CHECK-NEXT: %r, %r_2 = "test.op"()
  %r:2 = "test.op"() : () -> (f32, f32)
  // CHECK-NEXT: %r_1, %r_1.1 = "test.op"(%r, %r_2)
  %r_1:2 = "test.op"(%r#0, %r#1) : (f32, f32) -> (f32, f32)
  // CHECK-NEXT: "test.op"(%r_1, %r_1.1) ({
  "test.op"(%r_1#0, %r_1#1) ({
    // CHECK-NEXT: %a = "test.op"()
    %a = "test.op"() : () -> f32
    // CHECK-NEXT: "test.termop"
    "test.termop"() : () -> ()
    // CHECK-NEXT: }, {
  }, {
    // CHECK-NEXT: %a_1 = "test.op"()
    %a = "test.op"() : () -> f32
    // CHECK-NEXT: "test.termop"
    "test.termop"() : () -> ()
    // CHECK-NEXT: })
  }) : (f32, f32) -> ()
  return
}
