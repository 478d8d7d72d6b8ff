// Each part is processed, what is wrong with one does not keep the others from being
// printed, and lines are those of the file.

// RUN: not qdialect-opt %s --split-input-file 2>/dev/null | filecheck %s --match-full-lines
// RUN: not qdialect-opt %s --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix=ERROR

// CHECK:      builtin.module {
// CHECK-NEXT:   func.func private @first() -> ()
// CHECK-NEXT: }
// CHECK-NEXT: // {{-+}}
// CHECK-NEXT: // {{-+}}
// CHECK-NEXT: builtin.module {
// CHECK-NEXT:   func.func private @third() -> ()
// CHECK-NEXT: }
// CHECK-NEXT: // {{-+}}
func.func private @first()

// -----

func.func private @second(%unexpected)

// -----

func.func private @third()

// -----

func.func @fourth(%a: f32) {
  %0 = quant.qcast %a : f16 to !quant.any<i8:f16>
  return
}

// ERROR:      {{.*}}split_input_file.mlir:20:38: error: expected ':' after block argument name!
// ERROR-NEXT: func.func private @second(%unexpected)
// ERROR-NEXT:                                      ^
// ERROR-NEXT: {{.*}}split_input_file.mlir:29:20: error: use of value '%a' expects different type than prior uses: 'f16' vs 'f32'
// ERROR-NEXT:   %0 = quant.qcast %a : f16 to !quant.any<i8:f16>
// ERROR-NEXT:                    ^
// ERROR-NEXT: {{.*}}split_input_file.mlir:28:19: note: prior use here
// ERROR-NEXT: func.func @fourth(%a: f32) {
// ERROR-NEXT:                   ^
