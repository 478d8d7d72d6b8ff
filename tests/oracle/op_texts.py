"""
Texts of ops of MLIR 22 in custom form, which xDSL lacks or reads only in part, and of their kin.

Each line of OPS is `arguments || op`, where `;;` stands for a line break.
"""

from __future__ import annotations

from typing import Final

OPS: Final = r"""
%a: i32, %b: i32, %c: f32, %d: f32 || %0 = arith.addi %a, %b overflow<nsw> : i32
%a: i32, %b: i32 || %0, %1 = arith.addui_extended %a, %b : i32, i1
%a: vector<4xi32>, %b: vector<4xi32> || %0, %1 = arith.addui_extended %a, %b : vector<4xi32>, vector<4xi1>
%a: i32, %b: i32 || %0, %1 = arith.mulsi_extended %a, %b : i32
%a: i32, %b: i32 || %0, %1 = arith.mului_extended %a, %b : i32
%a: i32, %b: i32 || %0 = arith.ceildivsi %a, %b : i32
%a: i32, %b: i32 || %0 = arith.ceildivui %a, %b : i32
%a: i32, %b: i32 || %0 = arith.divsi %a, %b : i32
%a: i32, %b: i32 || %0 = arith.divui %a, %b exact : i32
%a: i32, %b: i32 || %0 = arith.shrsi %a, %b exact : i32
%a: i32, %b: i32 || %0 = arith.shli %a, %b overflow<nuw> : i32
%a: f32, %b: f32 || %0 = arith.remf %a, %b : f32
%a: f32, %b: f32 || %0 = arith.addf %a, %b fastmath<fast> : f32
%a: f32, %b: f32 || %0 = arith.cmpf oeq, %a, %b fastmath<nnan> : f32
%a: f32, %b: f32 || %0 = arith.cmpf uge, %a, %b : f32
%a: tensor<4xindex>, %b: tensor<4xindex> || %0 = arith.cmpi slt, %a, %b : tensor<4xindex>
%a: tensor<4xi1>, %b: tensor<4xindex> || %0 = arith.select %a, %b, %b : tensor<4xi1>, tensor<4xindex>
%a: i1, %b: tensor<4xindex> || %0 = arith.select %a, %b, %b : tensor<4xindex>
%a: tensor<4xi32> || %0 = arith.index_cast %a : tensor<4xi32> to tensor<4xindex>
%a: tensor<4xi32> || %0 = arith.index_castui %a : tensor<4xi32> to tensor<4xindex>
%a: tensor<4xi32> || %0 = arith.bitcast %a : tensor<4xi32> to tensor<4xf32>
%a: tensor<4xf4E2M1FN>, %b: tensor<4xf8E8M0FNU> || %0 = arith.scaling_extf %a, %b : tensor<4xf4E2M1FN>, tensor<4xf8E8M0FNU> to tensor<4xf32>
%a: tensor<4xf32>, %b: tensor<4xf8E8M0FNU> || %0 = arith.scaling_truncf %a, %b to_nearest_even : tensor<4xf32>, tensor<4xf8E8M0FNU> to tensor<4xf4E2M1FN>
|| %0 = arith.constant 1 : i32
|| %0 = arith.constant true
|| %0 = arith.constant dense<[1.0, 2.0]> : vector<2xf32>
%a: f32, %b: f32 || %0 = math.atan2 %a, %b : f32
%a: tensor<2xf32> || %0 = math.absf %a fastmath<fast> : tensor<2xf32>
%a: tensor<2xi32> || %0 = math.absi %a : tensor<2xi32>
%a: tensor<2xi32> || %0 = math.ipowi %a, %a : tensor<2xi32>
%a: tensor<2xi32>, %f: tensor<2xf32> || %0 = math.fpowi %f, %a : tensor<2xf32>, tensor<2xi32>
%f: tensor<2xf32> || %0 = math.fma %f, %f, %f : tensor<2xf32>
%f: tensor<2xf32> || %0 = math.clampf %f to [%f, %f] : tensor<2xf32>
%f: tensor<2xf32> || %0 = math.clampf %f to [%f, %f] fastmath<nnan> : tensor<2xf32>
%f: tensor<2xf32> || %0 = math.erfc %f : tensor<2xf32>
%f: tensor<2xf32> || %0 = math.isfinite %f : tensor<2xf32>
%f: f32 || %0 = math.isnan %f : f32
%f: f32 || %0 = math.isnormal %f : f32
%f: f32 || %0, %1 = math.sincos %f : f32
%f: f32 || %0 = math.rsqrt %f fastmath<nnan,ninf> : f32
%f: f32 || %0 = math.roundeven %f : f32
%f: f32 || %0 = math.powf %f, %f : f32
%f: f32 || %0 = math.copysign %f, %f : f32
%f: f32 || %0 = math.tanh %f {my.note} : f32
%c: complex<f32>, %i: i32 || %0 = complex.powi %c, %i : complex<f32>, i32
%c: complex<f32>, %i: i32 || %0 = complex.powi %c, %i fastmath<nnan> : complex<f32>, i32
%c: complex<f32> || %0 = complex.abs %c : complex<f32>
%c: complex<f32> || %0 = complex.add %c, %c : complex<f32>
%c: complex<f32> || %0 = complex.mul %c, %c fastmath<nnan> : complex<f32>
%c: complex<f32> || %0 = complex.re %c : complex<f32>
%c: complex<f32> || %0 = complex.im %c : complex<f32>
%c: f32 || %0 = complex.create %c, %c : complex<f32>
|| %0 = complex.constant [0.1 : f32, -1.0 : f32] : complex<f32>
%c: complex<f32> || %0 = complex.eq %c, %c : complex<f32>
%c: complex<f32> || %0 = complex.atan2 %c, %c : complex<f32>
%c: complex<f32> || %0 = complex.pow %c, %c : complex<f32>
%c: complex<f32> || %0 = complex.conj %c : complex<f32>
%c: complex<f32> || %0 = complex.bitcast %c : complex<f32> to i64
%c: complex<f32> || %0 = complex.angle %c : complex<f32>
%c: complex<f32> || %0 = complex.tanh %c fastmath<fast> : complex<f32>
%a: index, %b: index || %0 = index.add %a, %b
%a: index, %b: index || %0 = index.sub %a, %b {my.note}
%a: index, %b: index || %0 = index.cmp slt(%a, %b)
%a: index || %0 = index.casts %a : index to i32
%a: i64 || %0 = index.castu %a : i64 to index
|| %0 = index.constant 42
|| %0 = index.constant {my.note} -42
|| %0 = index.bool.constant true
|| %0 = index.sizeof
%a: tensor<4xf32> || %0 = tensor.bitcast %a : tensor<4xf32> to tensor<4xi32>
%a: tensor<4x4x4xf32>, %i: tensor<1x2x3xindex> || %0 = tensor.gather %a[%i] gather_dims([0, 1, 2]) : (tensor<4x4x4xf32>, tensor<1x2x3xindex>) -> tensor<1x2xf32>
%a: tensor<4x4x4xf32>, %i: tensor<1x2x3xindex> || %0 = tensor.gather %a[%i] gather_dims([0, 1, 2]) unique : (tensor<4x4x4xf32>, tensor<1x2x3xindex>) -> tensor<1x2x1x1x1xf32>
%a: tensor<4x4x4xf32>, %i: tensor<1x2x3xi32>, %s: tensor<1x2xf32> || %0 = tensor.scatter %s into %a[%i] scatter_dims([0, 1, 2]) unique : (tensor<1x2xf32>, tensor<4x4x4xf32>, tensor<1x2x3xi32>) -> tensor<4x4x4xf32>
%m: index || %0 = tensor.generate %m {;;^bb0(%i: index, %j: index):;;%z = arith.constant 0.0 : f32;;tensor.yield %z : f32;;} : tensor<?x3xf32>
%m: index || %0 = tensor.generate {;;^bb0(%i: index, %j: index):;;%z = arith.constant 0.0 : f32;;tensor.yield %z : f32;;} : tensor<2x3xf32>
%a: tensor<*xf32> || %0 = tensor.rank %a : tensor<*xf32>
%a: f32 || %0 = tensor.splat %a : tensor<8x16xf32>
%a: f32, %m: index || %0 = tensor.splat %a[%m, %m] : tensor<?x16x?xf32>
%a: f32 || %0 = tensor.from_elements %a, %a : tensor<2xf32>
%a: tensor<2x3xf32>, %i: index || %0 = tensor.extract %a[%i, %i] : tensor<2x3xf32>
%a: tensor<2x3xf32>, %i: index, %f: f32 || %0 = tensor.insert %f into %a[%i, %i] : tensor<2x3xf32>
%a: tensor<2x3xf32> || %0 = tensor.cast %a : tensor<2x3xf32> to tensor<?x?xf32>
%a: tensor<2x3xf32>, %i: index || %0 = tensor.dim %a, %i : tensor<2x3xf32>
%i: index || %0 = tensor.empty(%i) : tensor<?x3xf32>
|| %0 = tensor.empty() : tensor<3xf32, "e">
%a: tensor<8x16x4xf32>, %i: index || %0 = tensor.extract_slice %a[%i, 0, 0] [1, %i, 4] [1, 1, %i] : tensor<8x16x4xf32> to tensor<1x?x4xf32>
%a: tensor<8x16x4xf32>, %i: index || %0 = tensor.extract_slice %a[0, 0, 0] [1, 16, 4] [1, 1, 1] : tensor<8x16x4xf32> to tensor<16x4xf32>
%a: tensor<8x16x4xf32>, %b: tensor<16x4xf32>, %i: index || %0 = tensor.insert_slice %b into %a[%i, 0, 0] [1, 16, 4] [1, 1, 1] : tensor<16x4xf32> into tensor<8x16x4xf32>
%a: tensor<8x?xf32>, %i: index || %0 = tensor.expand_shape %a [[0, 1], [2, 3]] output_shape [2, 4, %i, 2] : tensor<8x?xf32> into tensor<2x4x?x2xf32>
%a: tensor<8x?xf32>, %i: index || %0 = tensor.collapse_shape %a [[0, 1]] : tensor<8x?xf32> into tensor<?xf32>
%a: tensor<8x2xf32> || %0 = tensor.concat dim(1) %a, %a : (tensor<8x2xf32>, tensor<8x2xf32>) -> tensor<8x4xf32>
%a: tensor<8x2xf32>, %s: tensor<1xi32> || %0 = tensor.reshape %a(%s) : (tensor<8x2xf32>, tensor<1xi32>) -> tensor<16xf32>
%a: tensor<8x2xf32>, %f: f32 || %0 = tensor.pad %a nofold low[0, 1] high[1, 0] {;;^bb0(%x: index, %y: index):;;tensor.yield %f : f32;;} : tensor<8x2xf32> to tensor<9x3xf32>
%a: tensor<8x2xf32> || %0 = linalg.softmax dimension(1) ins(%a : tensor<8x2xf32>) outs(%a : tensor<8x2xf32>) -> tensor<8x2xf32>
%a: memref<8x2xf32> || linalg.softmax dimension(1) ins(%a : memref<8x2xf32>) outs(%a : memref<8x2xf32>)
%a: tensor<2x3x3x5xf32>, %o: tensor<6x6x5x2xf32> || %0 = linalg.winograd_filter_transform fmr(F_4_3) ins(%a : tensor<2x3x3x5xf32>) outs(%o : tensor<6x6x5x2xf32>) -> tensor<6x6x5x2xf32>
%a: tensor<2x10x10x5xf32>, %o: tensor<6x6x2x2x2x5xf32> || %0 = linalg.winograd_input_transform fmr(F_4_3) ins(%a : tensor<2x10x10x5xf32>) outs(%o : tensor<6x6x2x2x2x5xf32>) -> tensor<6x6x2x2x2x5xf32>
%a: tensor<6x6x2x2x2x2xf32>, %o: tensor<2x8x8x2xf32> || %0 = linalg.winograd_output_transform fmr(F_4_3) ins(%a : tensor<6x6x2x2x2x2xf32>) outs(%o : tensor<2x8x8x2xf32>) -> tensor<2x8x8x2xf32>
%a: tensor<128x256xf32>, %o: tensor<16x8x8x32xf32> || %0 = linalg.pack %a inner_dims_pos = [0, 1] inner_tiles = [8, 32] into %o : tensor<128x256xf32> -> tensor<16x8x8x32xf32>
%a: tensor<128x256xf32>, %o: tensor<8x16x8x32xf32> || %0 = linalg.pack %a outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [8, 32] into %o : tensor<128x256xf32> -> tensor<8x16x8x32xf32>
%a: tensor<127x?xf32>, %i: index, %f: f32, %o: tensor<16x?x8x?xf32> || %0 = linalg.pack %a padding_value(%f : f32) inner_dims_pos = [0, 1] inner_tiles = [8, %i] into %o : tensor<127x?xf32> -> tensor<16x?x8x?xf32>
%a: tensor<128x256xf32>, %o: tensor<16x8x8x32xf32> || %0 = linalg.unpack %o inner_dims_pos = [0, 1] inner_tiles = [8, 32] into %a : tensor<16x8x8x32xf32> -> tensor<128x256xf32>
%a: tensor<128x256xf32>, %o: tensor<8x16x8x32xf32> || %0 = linalg.unpack %o outer_dims_perm = [1, 0] inner_dims_pos = [0, 1] inner_tiles = [8, 32] into %a {my.note} : tensor<8x16x8x32xf32> -> tensor<128x256xf32>
%a: tensor<8xf32> || %0 = linalg.elementwise kind=#linalg.elementwise_kind<exp> ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
%a: tensor<8xf32> || %0 = linalg.elementwise kind=#linalg.elementwise_kind<add> ins(%a, %a : tensor<8xf32>, tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
%a: tensor<8xf32>, %b: tensor<4x8xf32> || %0 = linalg.elementwise kind=#linalg.elementwise_kind<add> indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>] ins(%a, %b : tensor<8xf32>, tensor<4x8xf32>) outs(%b : tensor<4x8xf32>) -> tensor<4x8xf32>
%a: tensor<8xf32>, %c: tensor<8xi1> || %0 = linalg.elementwise kind=#linalg.elementwise_kind<select> ins(%c, %a, %a : tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
%a: tensor<4x2xf32>, %b: tensor<2x8xf32>, %c: tensor<4x8xf32> || %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<4x2xf32>, tensor<2x8xf32>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>
%a: tensor<8xf32> || %0 = linalg.map { math.exp } ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>)
%a: tensor<8xf32> || %0 = linalg.map ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) (%x: f32, %y: f32) {;;%1 = arith.addf %x, %x : f32;;linalg.yield %1 : f32;;}
%a: tensor<8x2xf32>, %b: tensor<8xf32> || %0 = linalg.reduce { arith.addf } ins(%a : tensor<8x2xf32>) outs(%b : tensor<8xf32>) dimensions = [1]
%a: tensor<8x2xf32>, %b: tensor<8xf32> || %0 = linalg.reduce { arith.addf {fastmath = #arith.fastmath<fast>} } ins(%a : tensor<8x2xf32>) outs(%b : tensor<8xf32>) dimensions = [1] {my.note}
%a: tensor<8x2xf32>, %b: tensor<2x8xf32> || %0 = linalg.transpose ins(%a : tensor<8x2xf32>) outs(%b : tensor<2x8xf32>) permutation = [1, 0] {my.note}
%a: tensor<8xf32>, %b: tensor<2x8xf32> || %0 = linalg.broadcast ins(%a : tensor<8xf32>) outs(%b : tensor<2x8xf32>) dimensions = [0]
%a: f32, %b: tensor<2x8xf32> || %0 = linalg.fill ins(%a : f32) outs(%b : tensor<2x8xf32>) -> tensor<2x8xf32>
%a: tensor<2x8xf32> || %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%a : tensor<2x8xf32>) {;;^bb0(%x: f32):;;%i = linalg.index 0 : index;;linalg.yield %x : f32;;} -> tensor<2x8xf32>
%a: tensor<2x8xf32>, %n: index || %0 = scf.forall (%i, %j) in (2, %n) shared_outs(%o = %a) -> (tensor<2x8xf32>) {;;%s = tensor.extract_slice %o[%i, %j] [1, 1] [1, 1] : tensor<2x8xf32> to tensor<1x1xf32>;;scf.forall.in_parallel {;;tensor.parallel_insert_slice %s into %o[%i, %j] [1, 1] [1, 1] : tensor<1x1xf32> into tensor<2x8xf32>;;};;} {mapping = [#gpu.thread<x>, #gpu.thread<y>]}
%m: memref<4xf32>, %n: index || scf.forall (%i) = (0) to (%n) step (4) {;;%v = memref.load %m[%i] : memref<4xf32>;;}
%m: memref<4xf32>, %n: index || scf.forall (%i, %j) = (0, %n) to (8, %n) step (4, %n) {;;}
%m: index, %f: f32 || %0 = scf.parallel (%i) = (%m) to (%m) step (%m) init (%f) -> f32 {;;scf.reduce(%f : f32) {;;^bb0(%x: f32, %y: f32):;;%1 = arith.addf %x, %y : f32;;scf.reduce.return %1 : f32;;};;}
%m: index, %f: f32 || scf.parallel (%i, %j) = (%m, %m) to (%m, %m) step (%m, %m) {;;scf.reduce;;}
%m: index, %f: f32 || %0 = scf.for %i = %m to %m step %m iter_args(%x = %f) -> (f32) {;;scf.yield %x : f32;;}
%m: i32, %f: f32 || scf.for %i = %m to %m step %m : i32 {;;}
%c: i1, %f: f32 || %0 = scf.if %c -> (f32) {;;scf.yield %f : f32;;} else {;;scf.yield %f : f32;;}
%c: i1, %f: f32 || scf.if %c {;;}
%c: index, %f: f32 || %0 = scf.index_switch %c -> f32;;case 2 {;;scf.yield %f : f32;;};;case 5 {;;scf.yield %f : f32;;};;default {;;scf.yield %f : f32;;}
%c: index, %f: f32 || scf.index_switch %c;;case 2 {;;scf.yield;;};;default {;;};;
%f: f32, %c: i1 || %0 = scf.while (%x = %f) : (f32) -> f32 {;;scf.condition(%c) %x : f32;;} do {;;^bb0(%y: f32):;;scf.yield %y : f32;;}
%f: f32, %c: i1 || %0 = scf.while (%x = %f) : (f32) -> f32 {;;scf.condition(%c) %x : f32;;} do {;;^bb0(%y: f32):;;scf.yield %y : f32;;} attributes {my.note}
%f: f32 || %0 = scf.execute_region -> f32 {;;scf.yield %f : f32;;}
%f: f32 || scf.execute_region no_inline {;;scf.yield;;}
%c: i1 || cf.assert %c, "no"
%c: i1 || cf.br ^a;;^a:;;
%c: i1, %x: i32 || cf.cond_br %c, ^a(%x : i32), ^b;;^a(%y: i32):;;cf.br ^b;;^b:;;
%c: i1, %x: i32 || cf.switch %x : i32, [;;default: ^a(%x : i32),;;42: ^b,;;43: ^a(%x : i32);;];;^a(%y: i32):;;cf.br ^b;;^b:;;
%a: vector<4xf32> || %0 = vector.shape_cast %a : vector<4xf32> to vector<2x2xf32>
%a: vector<4x2xf32> || %0 = vector.transpose %a, [1, 0] : vector<4x2xf32> to vector<2x4xf32>
%a: f32 || %0 = vector.broadcast %a : f32 to vector<4xf32>
%a: vector<4x2xf32> || %0 = vector.extract %a[1] : vector<2xf32> from vector<4x2xf32>
%a: vector<4x2xf32>, %i: index || %0 = vector.extract %a[%i, 0] : f32 from vector<4x2xf32>
%a: vector<4x2xf32>, %b: vector<2xf32> || %0 = vector.insert %b, %a[1] : vector<2xf32> into vector<4x2xf32>
%a: vector<4x2xf32> || %0 = vector.extract_strided_slice %a {offsets = [0, 1], sizes = [2, 1], strides = [1, 1]} : vector<4x2xf32> to vector<2x1xf32>
%a: vector<4x2xf32>, %b: vector<2x1xf32> || %0 = vector.insert_strided_slice %b, %a {offsets = [0, 1], strides = [1, 1]} : vector<2x1xf32> into vector<4x2xf32>
%a: vector<4x2xf32>, %b: vector<4xf32> || %0 = vector.multi_reduction <add>, %a, %b [1] : vector<4x2xf32> to vector<4xf32>
%a: vector<4xf32>, %b: f32 || %0 = vector.reduction <add>, %a, %b : vector<4xf32> into f32
%a: vector<4xf32>, %b: f32 || %0 = vector.reduction <maximumf>, %a fastmath<nnan> : vector<4xf32> into f32
%a: vector<4x2xf32>, %b: vector<2x8xf32>, %c: vector<4x8xf32> || %0 = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %c : vector<4x2xf32>, vector<2x8xf32> into vector<4x8xf32>
%a: vector<4x2xf32>, %b: vector<2x8xf32>, %c: vector<4x8xf32> || %0 = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} %a, %b, %c : vector<4x2xf32>, vector<2x8xf32> into vector<4x8xf32>
%a: vector<4xf32>, %b: vector<8xf32>, %c: vector<4x8xf32> || %0 = vector.outerproduct %a, %b, %c {kind = #vector.kind<mul>} : vector<4xf32>, vector<8xf32>
%a: vector<4xf32>, %b: vector<8xf32>, %c: vector<4x8xf32> || %0 = vector.outerproduct %a, %b : vector<4xf32>, vector<8xf32>
%a: vector<4xf32>, %b: f32 || %0 = vector.outerproduct %a, %b : vector<4xf32>, f32
%a: vector<4xf32> || %0 = vector.fma %a, %a, %a : vector<4xf32>
%a: vector<4xf32> || %0 = vector.interleave %a, %a : vector<4xf32> -> vector<8xf32>
%a: vector<4xf32> || %0, %1 = vector.deinterleave %a : vector<4xf32> -> vector<2xf32>
%a: vector<4xf32> || %0 = vector.shuffle %a, %a [0, 5, 1, 7] : vector<4xf32>, vector<4xf32>
%a: f32 || %0 = vector.from_elements %a, %a : vector<2xf32>
%a: vector<2xf32> || %0:2 = vector.to_elements %a : vector<2xf32>
%a: vector<4xf32> || %0 = vector.bitcast %a : vector<4xf32> to vector<4xi32>
|| %0 = vector.step : vector<4xindex>
|| %0 = vector.vscale
|| %0 = vector.constant_mask [2, 1] : vector<4x2xi1>
%i: index || %0 = vector.create_mask %i, %i : vector<4x2xi1>
%m: memref<8xf32>, %i: index, %k: vector<4xi1>, %v: vector<4xf32>, %x: vector<4xi32> || %0 = vector.gather %m[%i] [%x], %k, %v : memref<8xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
%m: memref<8xf32>, %i: index, %k: vector<4xi1>, %v: vector<4xf32>, %x: vector<4xi32> || vector.scatter %m[%i] [%x], %k, %v : memref<8xf32>, vector<4xi32>, vector<4xi1>, vector<4xf32>
%m: memref<8xf32>, %i: index, %k: vector<4xi1>, %v: vector<4xf32> || %0 = vector.expandload %m[%i], %k, %v : memref<8xf32>, vector<4xi1>, vector<4xf32> into vector<4xf32>
%m: memref<8xf32>, %i: index, %k: vector<4xi1>, %v: vector<4xf32> || vector.compressstore %m[%i], %k, %v : memref<8xf32>, vector<4xi1>, vector<4xf32>
%m: memref<8xf32>, %i: index, %v: vector<4xf32> || %0 = vector.load %m[%i] : memref<8xf32>, vector<4xf32>
%m: memref<8xf32>, %i: index, %v: vector<4xf32> || vector.store %v, %m[%i] : memref<8xf32>, vector<4xf32>
%m: memref<8xf32>, %i: index, %f: f32 || %0 = vector.transfer_read %m[%i], %f : memref<8xf32>, vector<4xf32>
%m: memref<8x8xf32>, %i: index, %f: f32 || %0 = vector.transfer_read %m[%i, %i], %f {in_bounds = [true], permutation_map = affine_map<(d0, d1) -> (d0)>} : memref<8x8xf32>, vector<4xf32>
%m: tensor<8xf32>, %i: index, %v: vector<4xf32> || %0 = vector.transfer_write %v, %m[%i] {in_bounds = [true]} : vector<4xf32>, tensor<8xf32>
%m: memref<8xf32>, %i: index, %v: vector<4xf32>, %k: vector<4xi1> || vector.transfer_write %v, %m[%i], %k : vector<4xf32>, memref<8xf32>
%v: vector<4xf32> || vector.print %v : vector<4xf32>
|| vector.print punctuation <comma>
|| vector.print str "hello"
%a: vector<4x2xf32>, %b: vector<2xf32> || %0, %1 = vector.scan <add>, %a, %b {inclusive = true, reduction_dim = 0 : i64} : vector<4x2xf32>, vector<2xf32>
%m: memref<4xf32> || %0 = vector.type_cast %m : memref<4xf32> to memref<vector<4xf32>>
%v: vector<[4]xf32> || %0 = vector.scalable.extract %v[0] : vector<2xf32> from vector<[4]xf32>
%v: vector<[4]xf32>, %w: vector<2xf32> || %0 = vector.scalable.insert %w, %v[2] : vector<2xf32> into vector<[4]xf32>
%m: memref<8xf32>, %i: index || %0 = memref.load %m[%i] : memref<8xf32>
%m: memref<8xf32>, %i: index || %0 = memref.load %m[%i] {nontemporal = true} : memref<8xf32>
%m: memref<8xf32>, %i: index, %f: f32 || memref.store %f, %m[%i] : memref<8xf32>
|| %0 = memref.alloc() : memref<8xf32>
%i: index || %0 = memref.alloc(%i) {alignment = 64 : i64} : memref<?xf32>
%i: index || %0 = memref.alloc(%i)[%i] : memref<?xf32, affine_map<(d0)[s0] -> (d0 + s0)>>
|| %0 = memref.alloca() : memref<8xf32>
%m: memref<8xf32> || memref.dealloc %m : memref<8xf32>
%m: memref<8xf32> || memref.copy %m, %m : memref<8xf32> to memref<8xf32>
%m: memref<8xf32> || %0 = memref.cast %m : memref<8xf32> to memref<?xf32>
%m: memref<8xf32> || %0 = memref.cast %m : memref<8xf32> to memref<*xf32>
%m: memref<8xf32>, %i: index || %0 = memref.dim %m, %i : memref<8xf32>
%m: memref<8xf32> || %0 = memref.rank %m : memref<8xf32>
%m: memref<*xf32> || %0 = memref.rank %m : memref<*xf32>
%m: memref<8xf32>, %i: index || %0 = memref.subview %m[%i] [2] [1] : memref<8xf32> to memref<2xf32, strided<[1], offset: ?>>
%m: memref<8x4xf32> || %0 = memref.collapse_shape %m [[0, 1]] : memref<8x4xf32> into memref<32xf32>
%m: memref<32xf32> || %0 = memref.expand_shape %m [[0, 1]] output_shape [8, 4] : memref<32xf32> into memref<8x4xf32>
%m: memref<?xf32>, %i: index || %0 = memref.expand_shape %m [[0, 1]] output_shape [%i, 4] : memref<?xf32> into memref<?x4xf32>
%m: memref<32xf32>, %i: index || %0 = memref.reinterpret_cast %m to offset: [%i], sizes: [4, 4], strides: [4, 1] : memref<32xf32> to memref<4x4xf32, strided<[4, 1], offset: ?>>
%m: memref<*xf32>, %i: index || %0 = memref.reinterpret_cast %m to offset: [0], sizes: [4, 4], strides: [4, 1] : memref<*xf32> to memref<4x4xf32>
%m: memref<32xf32>, %s: memref<2xi32> || %0 = memref.reshape %m(%s) : (memref<32xf32>, memref<2xi32>) -> memref<?x?xf32>
%m: memref<8x4xf32> || %0 = memref.transpose %m (i, j) -> (j, i) : memref<8x4xf32> to memref<4x8xf32, strided<[1, 4]>>
%m: memref<8xi8>, %i: index || %0 = memref.view %m[%i][] : memref<8xi8> to memref<2xf32>
%m: memref<8xi8>, %i: index || %0 = memref.view %m[%i][%i] : memref<8xi8> to memref<?xf32>
%m: memref<8xf32>, %i: index || %0 = memref.realloc %m : memref<8xf32> to memref<16xf32>
%m: memref<8xf32>, %i: index || %0 = memref.realloc %m(%i) : memref<8xf32> to memref<?xf32>
%m: memref<8xf32>, %i: index || %0 = memref.realloc %m(%i) {alignment = 64 : i64} : memref<8xf32> to memref<?xf32>
%m: memref<8xf32>, %i: index || memref.prefetch %m[%i], read, locality<3>, data : memref<8xf32>
%m: memref<8xf32>, %i: index, %f: f32 || %0 = memref.atomic_rmw addf %f, %m[%i] : (f32, memref<8xf32>) -> f32
%m: memref<8xf32>, %i: index, %f: f32 || %0 = memref.generic_atomic_rmw %m[%i] : memref<8xf32> {;;^bb0(%x: f32):;;memref.atomic_yield %x : f32;;}
%m: memref<8xf32> || %b, %o, %s, %t = memref.extract_strided_metadata %m : memref<8xf32> -> memref<f32>, index, index, index
%m: memref<8xf32> || %0 = memref.extract_aligned_pointer_as_index %m : memref<8xf32> -> index
%m: memref<8xf32>, %i: index || memref.assume_alignment %m, 64 : memref<8xf32>
%m: memref<8xf32>, %i: index || %0 = memref.assume_alignment %m, 64 : memref<8xf32>
%m: memref<8xf32> || %0, %1 = memref.distinct_objects %m, %m : memref<8xf32>, memref<8xf32>
%m: memref<8xf32, 1>, %i: index || %0 = memref.memory_space_cast %m : memref<8xf32, 1> to memref<8xf32>
%m: memref<8xf32>, %i: index, %t: memref<1xi32> || memref.dma_wait %t[%i], %i : memref<1xi32>
%m: memref<8xf32> || memref.alloca_scope {;;}
%m: memref<8xf32> || %0 = memref.alloca_scope -> (memref<8xf32>) {;;memref.alloca_scope.return %m : memref<8xf32>;;}
%i: index || %0 = affine.apply affine_map<(d0)[s0] -> (d0 + s0)>(%i)[%i]
%i: index || %0 = affine.max affine_map<(d0)[s0] -> (d0, s0)>(%i)[%i]
%i: index || %0 = affine.min affine_map<(d0)[s0] -> (d0, s0)>(%i)[%i]
%i: index || %0:2 = affine.delinearize_index %i into (4, 8) : index, index
%i: index || %0:3 = affine.delinearize_index %i into (%i, 4, 8) : index, index, index
%i: index || %0 = affine.linearize_index [%i, %i] by (4, 8) : index
%i: index || %0 = affine.linearize_index disjoint [%i, %i] by (%i, 8) : index
%m: memref<8xf32> || affine.for %i = 0 to 8 {;;%v = affine.load %m[%i + 3] : memref<8xf32>;;affine.store %v, %m[%i] : memref<8xf32>;;}
%m: memref<8xf32>, %n: index || affine.for %i = 0 to %n step 2 {;;%v = affine.load %m[%i] : memref<8xf32>;;}
%m: f32, %n: index || %0 = affine.for %i = max affine_map<(d0) -> (d0, 3)>(%n) to min affine_map<(d0) -> (d0, 8)>(%n) iter_args(%x = %m) -> (f32) {;;affine.yield %x : f32;;}
%n: index || affine.if affine_set<(d0) : (d0 - 1 >= 0)>(%n) {;;} else {;;}
%m: memref<8xf32>, %n: index || %0 = affine.vector_load %m[0] : memref<8xf32>, vector<4xf32>
%m: memref<8xf32>, %v: vector<4xf32> || affine.vector_store %v, %m[0] : memref<8xf32>, vector<4xf32>
%i: index || %0 = bufferization.alloc_tensor(%i) : tensor<?xf32>
%a: tensor<4xf32> || %0 = bufferization.alloc_tensor() copy(%a) {memory_space = 1 : i64} : tensor<4xf32>
%a: memref<4xf32> || %0 = bufferization.clone %a : memref<4xf32> to memref<4xf32>
%a: memref<4xf32> || %0 = bufferization.to_tensor %a restrict writable : memref<4xf32> to tensor<4xf32>
%a: memref<4xf32> || %0 = bufferization.to_tensor %a : memref<4xf32> to tensor<4xf32>
%a: tensor<4xf32> || %0 = bufferization.to_buffer %a : tensor<4xf32> to memref<4xf32>
%a: tensor<4xf32> || %0 = bufferization.to_buffer %a read_only : tensor<4xf32> to memref<4xf32>
%a: tensor<4xf32> || bufferization.dealloc_tensor %a : tensor<4xf32>
%a: tensor<4xf32> || %0 = bufferization.materialize_in_destination %a in %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
%a: tensor<4xf32>, %m: memref<4xf32> || bufferization.materialize_in_destination %a in restrict writable %m : (tensor<4xf32>, memref<4xf32>) -> ()
%m: memref<4xf32>, %c: i1 || bufferization.dealloc (%m : memref<4xf32>) if (%c)
%m: memref<4xf32>, %c: i1 || %0 = bufferization.dealloc (%m : memref<4xf32>) if (%c) retain (%m : memref<4xf32>)
%a: !shape.shape, %b: tensor<?xindex> || %0 = shape.broadcast %a, %b : !shape.shape, tensor<?xindex> -> !shape.shape
%b: tensor<?xindex> || %0 = shape.broadcast %b, %b : tensor<?xindex>, tensor<?xindex> -> tensor<?xindex>
%b: tensor<2xf32> || %0 = shape.shape_of %b : tensor<2xf32> -> tensor<1xindex>
%b: tensor<*xf32> || %0 = shape.shape_of %b : tensor<*xf32> -> !shape.shape
|| %0 = shape.const_shape [1, 2, 3] : !shape.shape
|| %0 = shape.const_shape [1, 2, 3] : tensor<3xindex>
|| %0 = shape.const_shape [] : tensor<0xindex>
|| %0 = shape.const_size 3
|| %0 = shape.const_witness true
%b: tensor<?xindex> || %0 = shape.cstr_broadcastable %b, %b : tensor<?xindex>, tensor<?xindex>
%b: !shape.shape || %0 = shape.cstr_eq %b, %b : !shape.shape, !shape.shape
%b: i1 || %0 = shape.cstr_require %b, "no"
%b: tensor<?xindex> || %0 = shape.is_broadcastable %b, %b : tensor<?xindex>, tensor<?xindex>
%b: tensor<?xindex> || %0 = shape.concat %b, %b : tensor<?xindex>, tensor<?xindex> -> tensor<?xindex>
%b: tensor<?xindex>, %i: index || %0 = shape.get_extent %b, %i : tensor<?xindex>, index -> index
%b: tensor<?xf32>, %i: index || %0 = shape.dim %b, %i : tensor<?xf32>, index -> index
%b: tensor<?xindex> || %0 = shape.rank %b : tensor<?xindex> -> index
%b: tensor<?xindex> || %0 = shape.num_elements %b : tensor<?xindex> -> index
%b: tensor<?xindex> || %0 = shape.to_extent_tensor %b : tensor<?xindex> -> tensor<3xindex>
%b: tensor<3xindex> || %0 = shape.from_extent_tensor %b : tensor<3xindex>
%b: index || %0 = shape.from_extents %b, %b : index, index
%b: index || %0 = shape.index_to_size %b
%b: !shape.size || %0 = shape.size_to_index %b : !shape.size
%b: index || %0 = shape.size_to_index %b : index
%b: index || %0 = shape.add %b, %b : index, index -> index
%b: !shape.size || %0 = shape.mul %b, %b : !shape.size, !shape.size -> !shape.size
%b: !shape.size || %0 = shape.div %b, %b : !shape.size, !shape.size -> !shape.size
%b: !shape.size || %0 = shape.max %b, %b : !shape.size, !shape.size -> !shape.size
%b: !shape.size || %0 = shape.min %b, %b : !shape.size, !shape.size -> !shape.size
%b: !shape.shape || %0 = shape.meet %b, %b : !shape.shape, !shape.shape -> !shape.shape
%b: !shape.shape || %0 = shape.any %b, %b : !shape.shape, !shape.shape -> !shape.shape
%b: !shape.shape || %0 = shape.shape_eq %b, %b : !shape.shape, !shape.shape
%b: !shape.witness || %0 = shape.assuming_all %b, %b
%b: !shape.witness, %x: tensor<2xf32> || %0 = shape.assuming %b -> (tensor<2xf32>) {;;shape.assuming_yield %x : tensor<2xf32>;;}
%b: !shape.value_shape || %0 = shape.value_of %b : tensor<?xf32>
%b: tensor<?xindex> || %0 = shape.value_as_shape %b : tensor<?xindex> -> !shape.shape
%b: tensor<?xf32>, %s: !shape.shape || %0 = shape.with_shape %b, %s : tensor<?xf32>, !shape.shape
%s: !shape.shape, %i: !shape.size || %0 = shape.reduce(%s, %i) : !shape.shape -> !shape.size {;;^bb0(%x: index, %d: !shape.size, %y: !shape.size):;;shape.yield %y : !shape.size;;}
%s: tensor<?xindex>, %i: index || %h, %t = "shape.split_at"(%s, %i) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
%s: () -> () || func.call_indirect %s() : () -> ()
%s: (i32) -> i32, %i: i32 || %0 = func.call_indirect %s(%i) : (i32) -> i32
%i: i32 || %0 = func.constant @f : (i32) -> ()
|| %0 = ub.poison : i32
%i: tensor<4xi32> || %0 = builtin.unrealized_conversion_cast %i : tensor<4xi32> to tensor<4xui32>
%i: tensor<4xi32> || %0:2 = builtin.unrealized_conversion_cast %i, %i : tensor<4xi32>, tensor<4xi32> to i32, i64
|| %0 = builtin.unrealized_conversion_cast to i32
"""

MODULES: Final = r"""
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
"""
