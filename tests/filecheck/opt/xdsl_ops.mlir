// RUN: not qdialect-opt %s 2>&1 | filecheck %s --check-prefix=OURS
// RUN: qdialect-opt --xdsl-ops %s | filecheck %s
// RUN: printf '"func.func"() ({ "func.return"() : () -> () }) : () -> ()' | qdialect-opt --disable-verify | filecheck %s --check-prefix=UNNAMED

// OURS: error: expected offsets to be non-negative, but got -1
// CHECK: tensor.extract_slice %x[-1] [510] [1] : tensor<512xf32> to tensor<510xf32>
%x = "test.op"() : () -> tensor<512xf32>
%0 = tensor.extract_slice %x[-1] [510] [1] : tensor<512xf32> to tensor<510xf32>

// UNNAMED:      "func.func"() ({
// UNNAMED-NEXT:   func.return
// UNNAMED-NEXT: }) : () -> ()
