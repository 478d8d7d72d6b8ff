// RUN: qdialect-opt %s --fold-quant-shapes | filecheck %s
// RUN: qdialect-opt %s --fold-quant-shapes --print-debuginfo | filecheck %s --check-prefix LOCATION
// RUN: qdialect-opt %s --canonicalize --print-debuginfo | filecheck %s --check-prefix LOCATION

!p = !quant.uniform<i8:f32, 0.5>

// What is cut out of a joined constant has the name of the part that it was.
// CHECK-LABEL: @fused
// CHECK-NEXT:    %q = quant.constant dense<[{{\[}}1], [2]]> {profile = "q"}
// CHECK-NEXT:    %k = quant.constant dense<[{{\[}}3], [4]]> {profile = "k"}
// CHECK-NEXT:    %q_1 = quant.constant dense<[{{\[}}2, 4], [1, 3]]> {profile = "q"}
// CHECK-NEXT:    func.return %q, %k, %q_1
func.func @fused() -> (tensor<2x1x!p>, tensor<2x1x!p>, tensor<2x2x!p>) {
  %q = quant.constant dense<[[1, 2]]> {profile = "q"} : tensor<1x2x!p>
  %k = quant.constant dense<[[3, 4]]> {profile = "k"} : tensor<1x2x!p>
  %both = quant.concat dim(0) %q, %k : (tensor<1x2x!p>, tensor<1x2x!p>) -> tensor<2x2x!p>
  %t = quant.transpose %both permutation = [1, 0] : tensor<2x2x!p> to tensor<2x2x!p>
  %0 = quant.slice %t [0, 0] [2, 1] [1, 1] : tensor<2x2x!p> to tensor<2x1x!p>
  %1 = quant.slice %t [0, 1] [2, 1] [1, 1] : tensor<2x2x!p> to tensor<2x1x!p>
  %r = quant.reverse %t dims = [0] : tensor<2x2x!p> to tensor<2x2x!p>
  return %0, %1, %r : tensor<2x1x!p>, tensor<2x1x!p>, tensor<2x2x!p>
}


// LOCATION-LABEL: @locations
// LOCATION-NEXT:    quant.constant dense<[2, 1]> : tensor<2x{{.*}}> loc("weights.py":3:7)
// LOCATION-NEXT:    quant.transpose %x permutation = [1, 2, 0] {{.*}} loc("model.py":5:1)
func.func @locations(%x: tensor<2x2x2x!p>) -> (tensor<2x!p>, tensor<2x2x2x!p>) {
  %w = quant.constant dense<[1, 2]> : tensor<2x!p> loc("weights.py":3:7)
  %0 = quant.reverse %w dims = [0] : tensor<2x!p> to tensor<2x!p> loc("model.py":4:1)
  %1 = quant.transpose %x permutation = [2, 0, 1] : tensor<2x2x2x!p> to tensor<2x2x2x!p>
  %2 = quant.transpose %1 permutation = [2, 0, 1] : tensor<2x2x2x!p> to tensor<2x2x2x!p> loc("model.py":5:1)
  return %0, %2 : tensor<2x!p>, tensor<2x2x2x!p>
}
