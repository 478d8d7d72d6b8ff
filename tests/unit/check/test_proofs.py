"""
The functions that `qdialect-check` proves equal, those that it only runs, and those it leaves
open.
"""

from __future__ import annotations

import cProfile

import pytest
from checked_modules import findings, folded, grounds, read
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from qdialect.check.compared_modules import Side
from qdialect.check.comparison import Grounds, compare_modules
from qdialect.passes.inline import InlinePass
from qdialect.passes.lower_quant_ops import LowerQuantOpsPass
from qdialect.passes.normalize_quant_types import NormalizeQuantTypesPass
from qdialect.passes.sink_quant_shapes import SinkQuantShapesPass

# Text of modules has long lines.
# ruff: noqa: E501

pytestmark = pytest.mark.usefixtures("without_plugins")


def after_pass(text: str, done: ModulePass) -> Side:
    side = read(text)
    done.apply(side.context, side.module)
    side.module.verify()
    return side


# Effects


LOGGED = """
func.func private @log(tensor<2xf32>)
func.func private @inner(%x: tensor<2xf32>) {{
  {effect}
  return
}}
func.func @f() -> tensor<2xf32> {{
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  func.call @inner(%c) : (tensor<2xf32>) -> ()
  return %c : tensor<2xf32>
}}
"""


def test_a_caller_says_nothing_of_what_it_calls():
    text = LOGGED.format(effect="func.call @log(%x) : (tensor<2xf32>) -> ()")
    assert findings(text, read(text)) == []
    (message,) = findings(text, read(LOGGED.format(effect="")))
    assert message == "function 'inner' is not the same: 'func.call' op was removed"


@pytest.mark.parametrize(
    ("effect", "other"),
    [
        ('"my.print"(%c) : (tensor<2xi8>) -> ()', ""),
        ('"my.print"(%c) : (tensor<2xi8>) -> ()', '"my.print"(%d) : (tensor<2xi8>) -> ()'),
        ("memref.dealloc %m : memref<2xi8>", ""),
        ('cf.assert %t, "text"', 'cf.assert %n, "text"'),
        ("memref.store %i, %m[%z] : memref<2xi8>", "memref.store %j, %m[%z] : memref<2xi8>"),
        (
            "%0 = scf.while (%a = %t) : (i1) -> i1 {\n scf.condition(%a) %a : i1\n} do {\n"
            "^bb0(%a: i1):\n scf.yield %a : i1\n}",
            "",
        ),
    ],
)
def test_functions_without_results(effect: str, other: str):
    text = """
    func.func @f(%m: memref<2xi8>) {{
      %c = arith.constant dense<[1, 2]> : tensor<2xi8>
      %d = arith.constant dense<[1, 3]> : tensor<2xi8>
      %i = arith.constant 1 : i8
      %j = arith.constant 2 : i8
      %z = arith.constant 0 : index
      %t = arith.constant true
      %n = arith.constant false
      {effect}
      return
    }}
    """
    texts = text.format(effect=effect), text.format(effect=other)
    assert findings(texts[0], read(texts[0])) == []
    assert findings(texts[0], read(texts[1]))
    assert findings(texts[1], read(texts[0]))


def test_what_is_read_from_memory_is_another_value_after_a_store():
    text = """
    func.func @f(%m: memref<2xf32>, %x: f32) -> (f32, f32) {
      %z = arith.constant 0 : index
      %0 = memref.load %m[%z] : memref<2xf32>
      memref.store %x, %m[%z] : memref<2xf32>
      %1 = memref.load %m[%z] : memref<2xf32>
      return %0, %1 : f32, f32
    }
    """
    assert grounds(text, read(text)) == {"proven"}
    assert findings(text, read(text.replace("return %0, %1", "return %0, %0")))


def test_pure_ops_may_be_dead_or_in_another_order():
    text = """
    func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {{
      {ops}
      return %0, %1 : tensor<2xf32>, tensor<2xf32>
    }}
    """
    tanh, sine = (
        f'%{number} = "stablehlo.{name}"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n'
        for number, name in enumerate(("tanh", "sine"))
    )
    dead = '%2 = "stablehlo.floor"(%0) : (tensor<2xf32>) -> tensor<2xf32>\n'
    before = text.format(ops=tanh + sine + dead)
    assert grounds(before, read(text.format(ops=sine + tanh))) == {"proven"}
    # An op of a dialect that nothing is known of may do anything.
    before = before.replace("stablehlo.", "my.")
    assert findings(before, read(text.format(ops=sine + tanh).replace("stablehlo.", "my.")))


def test_a_division_is_not_added():
    text = """
    func.func @f(%x: i32, %y: i32) -> i32 {{
      {op}
      return %x : i32
    }}
    """
    comparison = compare_modules(
        read(text.format(op="")), read(text.format(op="%0 = arith.divsi %x, %y : i32"))
    )
    assert [str(verdict) for verdict in comparison.verdicts] != ["proven"]


# Terms


NESTED = """
#map = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<4xindex>) -> tensor<4xindex> {{
  %r = linalg.generic {{indexing_maps = [#map], iterator_types = ["parallel"]}} outs(%x : tensor<4xindex>) {{
  ^bb0(%a: index):
    %outer = linalg.index 0 : index
    %v = tensor.empty() : tensor<4xindex>
    %i = linalg.generic {{indexing_maps = [#map], iterator_types = ["parallel"]}} outs(%v : tensor<4xindex>) {{
    ^bb1(%b: index):
      %inner = linalg.index 0 : index
      %s = "index.popcount"(%{index}) : (index) -> index
      linalg.yield %s : index
    }} -> tensor<4xindex>
    %c = tensor.extract %i[%outer] : tensor<4xindex>
    linalg.yield %c : index
  }} -> tensor<4xindex>
  return %r : tensor<4xindex>
}}
"""


def test_an_index_of_another_loop():
    assert grounds(NESTED.format(index="inner"), read(NESTED.format(index="inner"))) == {"proven"}
    assert findings(NESTED.format(index="inner"), read(NESTED.format(index="outer")))
    other_argument = NESTED.format(index="inner").replace("yield %s", "yield %b")
    assert findings(other_argument, read(other_argument.replace("yield %b", "yield %a")))


def test_types_that_are_spelled_otherwise():
    text = """
    !q = {type}
    func.func @f(%x: tensor<2x2x!q>) -> tensor<2x2x!q> {{
      %0 = "stablehlo.tanh"(%x) : (tensor<2x2x!q>) -> tensor<2x2x!q>
      return %0 : tensor<2x2x!q>
    }}
    """
    rows = text.format(type="!quant.uniform<i8:f32:0, {0.5:1,0.25:3}>")
    blocks = text.format(type="!quant.uniform<i8:f32:{0:1,1:2}, {{0.5:1},{0.25:3}}>")
    assert grounds(rows, read(blocks)) == {"proven"}
    columns = text.format(type="!quant.uniform<i8:f32:1, {0.5:1,0.25:3}>")
    assert findings(rows, read(columns))


def test_types_and_attributes_of_unknown_dialects_are_of_no_context():
    text = """
    func.func @f(%x: !my.type<3>) -> tensor<4x!my.type<3>> {
      %0 = "stablehlo.tanh"(%x) {a = #my.attribute<1>} : (!my.type<3>) -> tensor<4x!my.type<3>>
      return %0 : tensor<4x!my.type<3>>
    }
    """
    assert grounds(text, read(text)) == {"proven"}
    for other in ("!my.type<4>", "#my.attribute<2>"):
        changed = text.replace("#my.attribute<1>", other)
        changed = changed if other.startswith("#") else text.replace("!my.type<3>", other)
        assert findings(text, read(changed))


RESOURCE = """
func.func @f() -> tensor<2xf32> {{
  %c = arith.constant dense_resource<{key}> : tensor<2xf32>
  %0 = "stablehlo.tanh"(%c) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}}
{{-#
  dialect_resources: {{
    builtin: {{
      {key}: "0x040000000000803F{data}"
    }}
  }}
#-}}
"""


def test_resources_are_their_content():
    text = RESOURCE.format(key="one", data="00000040")
    assert grounds(text, read(RESOURCE.format(key="two", data="00000040"))) == {"proven"}
    assert findings(text, read(RESOURCE.format(key="one", data="00000041")))
    elided = text[: text.index("{-#")]
    assert findings(elided, read(elided))


LENGTHS = """
func.func @f(%x: tensor<?x3xf32>, %n: index) -> tensor<?x3xf32> {{
  %0 = tensor.extract_slice %x[0, 0] [%n, 3] [{stride}, 1] : tensor<?x3xf32> to tensor<?x3xf32>
  %1 = "stablehlo.tanh"(%0) : (tensor<?x3xf32>) -> tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}}
"""


def test_data_that_is_not_here():
    text = """func.func @f() -> tensor<2xi8> {
      %0 = arith.constant dense_resource<gone> : tensor<2xi8>
      return %0 : tensor<2xi8>
    }"""
    (message,) = findings(text, read(text))
    assert "the data of resource 'gone' is missing" in message
    text = "module attributes {my.data = dense_resource<gone> : tensor<2xi8>} {}"
    (message,) = findings(text, read(text))
    assert message.endswith("the data of resource 'gone' is missing")


def test_shape_ops_of_unknown_lengths_are_terms():
    text = LENGTHS.format(stride=1)
    assert grounds(text, read(text)) == {"proven"}
    assert findings(text, read(LENGTHS.format(stride=2)))


MOVED = """
func.func @f(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>) -> tensor<4x3xf32> {{
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x2xf32>
  {ops}
  %0 = linalg.matmul ins(%r, %y : tensor<4x3xf32>, tensor<3x3xf32>) outs(%o : tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}}
"""
TWICE = """
  %t = linalg.transpose ins(%x : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %p = tensor.pad %t low[0, 1] high[0, 1] {{
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  }} : tensor<3x2xf32> to tensor<3x4xf32>
  %o = tensor.empty() : tensor<4x3xf32>
  %r = linalg.transpose ins(%p : tensor<3x4xf32>) outs(%o : tensor<4x3xf32>) permutation = [1, 0]
"""
ONCE = """
  %o = tensor.empty() : tensor<4x3xf32>
  %c = arith.constant dense<{padding}> : tensor<1x3xf32>
  %r = tensor.concat dim(0) %c, %{of}, %c : (tensor<1x3xf32>, tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
"""


def test_other_movements_of_arguments():
    before = MOVED.format(ops=TWICE.format())
    assert grounds(before, read(MOVED.format(ops=ONCE.format(padding="0.0", of="x")))) == {"proven"}
    assert findings(before, read(MOVED.format(ops=ONCE.format(padding="1.0", of="x"))))
    # Added to other products, zeros of both signs are the same; only runs tell.
    (ground,) = grounds(before, read(MOVED.format(ops=ONCE.format(padding="-0.0", of="x"))))
    assert ground.startswith("run with ")


# Calls


CALLS = """
func.func {visibility} @g(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {{
  %0 = "stablehlo.tanh"(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}}
func.func private @h(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {{
  %0 = func.call @g(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = func.call @g(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}}
func.func @f(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {{
  %0 = func.call @h(%x) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}}
"""


@pytest.mark.parametrize("visibility", ["private", "public"])
def test_calls_that_are_inlined(visibility: str):
    text = CALLS.format(visibility=visibility)
    assert grounds(text, read(text)) == {"proven"}
    assert grounds(text, after_pass(text, InlinePass())) == {"proven"}
    changed = text.replace("@g(%0)", "@g(%x)")
    assert findings(text, after_pass(changed, InlinePass()))


CALLS_WITH_EFFECTS = """
func.func private @log(tensor<2xf32>)
func.func private @next(tensor<2xf32>) -> tensor<2xf32>
func.func private @step(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = arith.addf %x, %c : tensor<2xf32>
  call @log(%0) : (tensor<2xf32>) -> ()
  %1 = call @next(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @step(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = call @step(%0) : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func @f(%c: i1, %x: tensor<2xf32>, %n: i32) -> (tensor<2xf32>, i32) {
  %0 = call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = scf.if %c -> (tensor<2xf32>) {
    %2 = call @step(%0) : (tensor<2xf32>) -> tensor<2xf32>
    scf.yield %2 : tensor<2xf32>
  } else {
    scf.yield %0 : tensor<2xf32>
  }
  %3 = call @quotient(%n) : (i32) -> i32
  return %1, %3 : tensor<2xf32>, i32
}
func.func private @quotient(%n: i32) -> i32 {
  %0 = arith.divsi %n, %n : i32
  return %0 : i32
}
"""


def test_calls_with_effects_that_are_inlined():
    side = read(CALLS_WITH_EFFECTS)
    InlinePass().apply(side.context, side.module)
    assert [op.sym_name.data for op in side.module.ops if isinstance(op, FuncOp)] == [
        "log",
        "next",
        "f",
    ]
    assert grounds(CALLS_WITH_EFFECTS, side) == {"declared", "proven"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[1.0, 2.0]", "[1.0, 3.0]"),
        ("%1 = call @step(%0)", "%1 = call @step(%x)"),
        ("call @log(%0)", "call @log(%c)"),
        ("call @log(%0) : (tensor<2xf32>) -> ()", ""),
        ("call @next(%x)", "call @next(%0)"),
        (
            "return %1 : tensor<2xf32>\n}\nfunc.func private @twice",
            "return %0 : tensor<2xf32>\n}\nfunc.func private @twice",
        ),
        ("divsi %n, %n", "remsi %n, %n"),
        ("%2 = call @step(%0)", "%2 = call @twice(%0)"),
    ],
)
def test_effects_that_are_inlined_otherwise(old: str, new: str):
    assert old in CALLS_WITH_EFFECTS
    side = read(CALLS_WITH_EFFECTS.replace(old, new, 1))
    InlinePass().apply(side.context, side.module)
    assert findings(CALLS_WITH_EFFECTS, side)


def test_effects_that_are_doubled_take_no_more_than_the_steps():
    lines = [
        f"func.func private @g{n}() "
        f"{{\ncall @g{n + 1}() : () -> ()\ncall @g{n + 1}() : () -> ()\nreturn\n}}"
        for n in range(40)
    ]
    text = "\n".join(lines) + (
        '\nfunc.func private @g40() {\n"my.effect"() : () -> ()\nreturn\n}\n'
        "func.func @f() {\ncall @g0() : () -> ()\nreturn\n}"
    )
    inlined = 'func.func @f() {\n"my.effect"() : () -> ()\nreturn\n}'
    comparison = compare_modules(read(text), read(inlined), max_steps=100_000)
    (finding,) = comparison.findings
    assert "proofs would take more than" in finding.message
    assert grounds(text, read(text)) == {"proven"}


def test_a_function_that_calls_itself():
    text = """
    func.func @f(%x: f32) -> f32 {
      %0 = func.call @f(%x) : (f32) -> f32
      return %0 : f32
    }
    """
    assert grounds(text, read(text)) == {"proven"}
    assert findings(text, read(text.replace("return %0", "return %x")))


def test_private_functions_that_nothing_calls():
    public = "func.func @f(%x: f32) -> f32 {\nreturn %x : f32\n}\n"
    private = "func.func private @g() -> f32 {\n%0 = arith.constant 1.0 : f32\nreturn %0 : f32\n}\n"
    for before, after in ((public + private, public), (public, public + private)):
        assert findings(before, read(after)) == []
    assert findings(public + private, read(public + private.replace("1.0", "2.0"))) == []
    assert findings(private + public, read(private.replace("@g", "@f").replace(" private", "")))
    named = public + private + '"my.table"() {of = [@g]} : () -> ()\n'
    assert findings(named, read(named.replace("1.0", "2.0")))
    assert findings(named, read(public + '"my.table"() {of = [@g]} : () -> ()\n')) == [
        "there is no function 'g' any more, but it is named in both"
    ]


def test_a_proof_is_no_better_than_what_it_takes_for_granted():
    text = """
    func.func private @g(%x: f32) -> f32 {{
      %0 = arith.{op} %x, %x : f32
      return %0 : f32
    }}
    func.func @f(%x: f32) -> f32 {{
      %0 = func.call @g(%x) : (f32) -> f32
      return %0 : f32
    }}
    """
    comparison = compare_modules(read(text.format(op="maximumf")), read(text.format(op="minimumf")))
    assert comparison.findings == []
    verdicts = {verdict.name: str(verdict) for verdict in comparison.verdicts}
    assert verdicts["f"] == verdicts["g"]
    assert verdicts["f"].startswith("run with ")
    assert not verdicts["f"].startswith("run with all")


# Runs


SCALAR = """
func.func @f(%x: i8) -> i1 {{
  %c = arith.constant 77 : i8
  %0 = arith.cmpi {predicate}, {operands} : i8
  return %0 : i1
}}
"""


def test_all_inputs_are_run_where_they_are_few():
    before = SCALAR.format(predicate="slt", operands="%x, %c")
    after = SCALAR.format(predicate="sgt", operands="%c, %x")
    assert grounds(before, read(after)) == {"run with all 256 inputs"}


QUANTIZED = """
!q = !quant.uniform<i8:f32, 0.5:3>
func.func @f(%x: tensor<2x3x!q>) -> tensor<3x2xf32> {
  %t = quant.transpose %x permutation = [1, 0] : tensor<2x3x!q> to tensor<3x2x!q>
  %0 = quant.dcast %t : tensor<3x2x!q> to tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}
"""


@pytest.mark.parametrize(
    "done", [LowerQuantOpsPass(), SinkQuantShapesPass(), NormalizeQuantTypesPass()], ids=str
)
def test_passes_that_change_what_is_done_to_arguments(done: ModulePass):
    assert findings(QUANTIZED, after_pass(QUANTIZED, done)) == []


# Bounds


HUGE = "tensor<65536x65536x!quant.uniform<i8:f32, 0.5:3>>"


def constant(code: int) -> str:
    return (
        f"func.func @f() -> {HUGE} {{\n%w = quant.constant dense<{code}> : {HUGE}\n"
        f"return %w : {HUGE}\n}}"
    )


def test_splats_of_any_size():
    assert grounds(constant(3), read(constant(3))) == {"proven"}
    (message,) = findings(constant(3), read(constant(4)))
    assert message == (
        "function 'f' result #0 element [0, 0] is 0.5 (stored 4), but was 0.0 (stored 3) before"
    )


LOOP = "func.func @f() {{\n  cf.br ^bb1\n^bb1:\n  {op}\n  cf.br ^bb1\n}}"


def test_what_takes_too_long_is_not_the_same():
    before, after = LOOP.format(op=""), LOOP.format(op="%0 = arith.constant 1 : i8")
    assert grounds(before, read(before)) == {"proven"}
    assert grounds(before, read(after)) == {"proven"}
    after = LOOP.format(op="cf.br ^bb2\n^bb2:")
    comparison = compare_modules(read(before), read(after), max_steps=100_000)
    (finding,) = comparison.findings
    assert "runs would take more than" in finding.message
    assert finding.message.endswith(" steps")


def test_a_function_takes_no_steps_from_others():
    swapped = (
        "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {{\n{ops}return %y : tensor<2xf32>\n}}\n"
    )
    inlined = swapped.format(ops="%y = arith.negf %x : tensor<2xf32>\n").replace("@f", "@g")
    negated = "func.func private @n(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
    negated += "%y = arith.negf %x : tensor<2xf32>\nreturn %y : tensor<2xf32>\n}\n"
    called = swapped.format(ops="%y = call @n(%x) : (tensor<2xf32>) -> tensor<2xf32>\n")
    called = called.replace("@f", "@g") + negated
    before, after = LOOP.format(op=""), LOOP.format(op="cf.br ^bb2\n^bb2:")
    ops = "%c = arith.constant dense<0.5> : tensor<2xf32>\n%y = arith.addf {} : tensor<2xf32>\n"
    before += "\n" + swapped.replace("@f", "@h").format(ops=ops.format("%x, %c")) + called
    after += "\n" + swapped.replace("@f", "@h").format(ops=ops.format("%c, %x")) + inlined
    comparison = compare_modules(read(before), read(after), max_steps=300_000)
    (finding,) = comparison.findings
    assert finding.message.startswith("function 'f' is not shown to be the same: ")
    assert "its part of" not in finding.message
    grounds = {verdict.name: str(verdict) for verdict in comparison.verdicts}
    assert grounds["g"] == "proven"
    assert grounds["h"].startswith("run with ")


def calls_to_compare_nested(depth: int) -> int:
    """How many calls of functions it takes to compare regions in regions."""
    opened = "".join(f"%r{n} = scf.if %c -> (f32) {{\n" for n in range(depth))
    closed = "".join(
        f"scf.yield %{f'r{n + 1}' if n + 1 < depth else 'y'} : f32\n}} else {{\n"
        "scf.yield %x : f32\n}\n"
        for n in reversed(range(depth))
    )
    text = (
        f"func.func @f(%c: i1, %x: f32) -> f32 {{\n{opened}%y = arith.negf %x : f32\n{closed}"
        "return %r0 : f32\n}"
    )
    return calls_to_compare(text)


def calls_to_compare(text: str) -> int:
    """How many calls of functions it takes to compare a module with itself."""
    sides = read(text), read(text)
    profile = cProfile.Profile()
    profile.enable()
    try:
        assert compare_modules(*sides).findings == []
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


def ring(count: int) -> str:
    """Functions that call the next one each, and the last one the first."""
    return "".join(
        f"func.func @f{n}(%x: f32) -> f32 {{\n"
        f"%0 = func.call @f{(n + 1) % count}(%x) : (f32) -> f32\nreturn %0 : f32\n}}\n"
        for n in range(count)
    )


def test_functions_that_call_each_other_are_compared_in_linear_time():
    assert calls_to_compare(ring(80)) < 3 * calls_to_compare(ring(40))


def test_a_proof_is_as_good_as_the_callees_of_its_callees():
    # Both forms of @h are run, @g is proven with @h, and @f with @g.
    text = """
    func.func @f(%x: i32) -> i32 {
      %0 = func.call @g(%x) : (i32) -> i32
      %1 = func.call @f(%0) : (i32) -> i32
      return %1 : i32
    }
    func.func @g(%x: i32) -> i32 {
      %0 = func.call @h(%x) : (i32) -> i32
      return %0 : i32
    }
    func.func @h(%x: i32) -> i32 {
      %0 = arith.addi %x, %x : i32
      return %0 : i32
    }
    func.func @alone(%x: i32) -> i32 {
      return %x : i32
    }
    """
    after = text.replace("arith.addi %x, %x", "arith.muli %x, %two").replace(
        "%0 = arith.muli", "%two = arith.constant 2 : i32\n%0 = arith.muli"
    )
    comparison = compare_modules(read(text), read(after))
    assert comparison.findings == []
    found = {verdict.name: verdict.grounds for verdict in comparison.verdicts}
    assert found == {
        "f": Grounds.SAMPLES,
        "g": Grounds.SAMPLES,
        "h": Grounds.SAMPLES,
        "alone": Grounds.PROVEN,
    }


def test_regions_in_regions_are_not_read_again_by_each_around_them():
    assert calls_to_compare_nested(60) < 4 * calls_to_compare_nested(30)


def test_doubling():
    """60 lines make 2**60 elements."""
    lines = [
        f"%x{n + 1} = tensor.concat dim(0) %x{n}, %x{n} : "
        f"(tensor<{1 << n}xf32>, tensor<{1 << n}xf32>) -> tensor<{2 << n}xf32>"
        for n in range(60)
    ]
    type = f"tensor<{1 << 60}xf32>"
    text = "func.func @f(%x0: tensor<1xf32>) -> " + type + " {\n" + "\n".join(lines)
    before = f"{text}\nreturn %x60 : {type}\n}}"
    after = f"{text}\n%r = tosa.reverse %x60 {{axis = 0 : i32}} : ({type}) -> {type}\nreturn %r : {type}\n}}"
    assert grounds(before, read(before)) == {"proven"}
    (message,) = findings(before, read(after))
    assert "elements are too many to compare each" in message


def test_ignored_attributes():
    text = 'module attributes {{my.a = {a}}} {{\nfunc.func @f() attributes {{my.b = {b}}} {{\n"my.op"() {{my.c = {c}}} : () -> ()\nreturn\n}}\n}}'
    one = read(text.format(a=1, b=1, c=1))
    for changed, names in (
        ({"a": 2, "b": 1, "c": 1}, ["my.a"]),
        ({"a": 1, "b": 2, "c": 1}, ["my.b"]),
        ({"a": 1, "b": 1, "c": 2}, ["my.c"]),
    ):
        other = read(text.format(**changed))
        assert compare_modules(one, other).findings
        assert not compare_modules(one, other, ignored_attributes=names).findings


def test_folding_keeps_a_model_proven():
    text = """
    !q = !quant.uniform<i8:f32:0, {0.5,0.25:3}>
    func.func @f(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
      %w = quant.constant dense<[[1, 2], [3, 4]]> : tensor<2x2x!q>
      %f = quant.dcast %w : tensor<2x2x!q> to tensor<2x2xf32>
      %e = tensor.empty() : tensor<2x2xf32>
      %t = linalg.transpose ins(%f : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) permutation = [1, 0]
      %z = arith.constant 0.0 : f32
      %o = tensor.empty() : tensor<4x2xf32>
      %i = linalg.fill ins(%z : f32) outs(%o : tensor<4x2xf32>) -> tensor<4x2xf32>
      %0 = linalg.matmul ins(%x, %t : tensor<4x2xf32>, tensor<2x2xf32>) outs(%i : tensor<4x2xf32>) -> tensor<4x2xf32>
      %1 = arith.addf %0, %x : tensor<4x2xf32>
      return %1 : tensor<4x2xf32>
    }
    """
    assert grounds(text, folded(text)) == {"proven"}


def test_sides_are_read_when_they_are_compared():
    side = Side(ModuleOp([]), Context())
    assert compare_modules(side, side).verdicts == []


SLICED = """
func.func @f() -> tensor<2x2xi8> {{
  %w = arith.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi8>
  %s = "stablehlo.slice"(%w) <{{start_indices = array<i64: {}, 0>,
    limit_indices = array<i64: {}, {}>, strides = array<i64: 1, {}>}}>
    : (tensor<3x2xi8>) -> tensor<2x2xi8>
  return %s : tensor<2x2xi8>
}}
"""


def sliced(start: int, stride: int) -> str:
    """Two rows from a start, and two elements of each in steps."""
    return SLICED.format(start, start + 2, stride + 1, stride)


@pytest.mark.parametrize("numbers", [(2, 1), (0, 2), (1, 2)])
def test_slices_beyond_the_end(numbers: tuple[int, int]):
    """Within the constant, or beyond its end: each is only what it is itself."""
    text = sliced(*numbers)
    assert grounds(text, read(text)) == {"proven"}
    for other in (sliced(1, 1), sliced(0, 1)):
        assert findings(text, read(other))
        assert findings(other, read(text))


@pytest.mark.parametrize(
    "type",
    [
        "tensor<2x!quant.uniform<i8:f32:3, {0.5,0.25}>>",
        "tensor<?x!quant.uniform<i8:f32:{0:2,1:1}, {{0.5,0.25}}>>",
        f"tensor<?x2x!quant.uniform<i8:f32:{{0:{2**63 - 1}}}, {{{{0.5}},{{0.25}}}}>>",
        f"tensor<{2**63 - 1}x2x!quant.uniform<i8:f32:1, {{0.5,0.25}}>>",
    ],
)
def test_types_that_no_tensor_of_numbered_elements_has(type: str):
    """An axis that is out of range, and more elements than numbers of 64 bits."""
    text = f"func.func @f(%x: {type}) -> {type} {{\n  return %x : {type}\n}}"
    assert grounds(text, read(text)) == {"proven"}
    assert findings(text, read(text.replace("0.25", "0.125")))
