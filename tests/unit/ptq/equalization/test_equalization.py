"""
Equalization keeps what a module computes, and its ranges are those of the values that there are.

Networks are random, and numpy computes what they return.
"""

from __future__ import annotations

import numpy as np
import pytest
from equalized_modules import Model, are_close
from hypothesis import given, note
from hypothesis import strategies as st
from random_networks import Array, Network, held, powers, random_network, type_of
from xdsl.ir import Operation

from qdialect.folding.report import Outcome
from qdialect.ops.along_axis import is_statistics
from qdialect.ops.interface import RefusalCode, shape_of

pytestmark = pytest.mark.usefixtures("without_plugins")

seeds = st.integers(0, 2**32 - 1)


def model_of(net: Network, results: list[str]) -> Model:
    text = net.text(results)
    note(text)
    return Model(text, [net.numbers[of] for of in net.arguments])


@given(seeds, st.sampled_from([{}, {"forks": "joined"}, {"strength": 0.3}, {"layers": ("v1",)}]))
def test_results_and_ranges_of_random_networks(seed: int, options: dict[str, object]) -> None:
    net, results = random_network(seed)
    model = model_of(net, results)
    expected = [net.numbers[of] for of in results]
    assert are_close(expected, model.run())
    model.equalize(**options)
    note(model.printed)
    assert are_close(expected, model.run())
    assert model.check_ranges() >= len([op for op in net.lines if "quant.stats" in op])
    if not options:
        assert not model.refusals()


@given(seeds, st.booleans())
def test_powers_of_two_change_no_bit(seed: int, weights_only: bool) -> None:
    net, results = random_network(seed)
    model = model_of(net, results)
    before = model.run()
    model.equalize(power_of_two=True, weights_only=weights_only)
    note(model.printed)
    assert [of.tobytes() for of in model.run()] == [of.tobytes() for of in before]
    model.check_ranges()


@given(seeds, st.booleans(), st.integers(1, 30))
def test_weights_only_of_random_networks(seed: int, is_recorded: bool, sweeps: int) -> None:
    """No product is inserted, and the rows of a layer are as large as the columns of the next."""
    net, results = random_network(seed, is_recorded=is_recorded)
    model = model_of(net, results)
    count = len(model.ops)
    model.equalize(weights_only=True, sweeps=sweeps)
    note(model.printed)
    assert are_close([net.numbers[of] for of in results], model.run())
    assert len(model.ops) == count
    model.check_ranges()


@pytest.mark.iree
@pytest.mark.parametrize("seed", [0, 5, 7])
def test_results_of_iree(seed: int) -> None:
    net, results = random_network(seed)
    inputs = [net.numbers[of] for of in net.arguments]
    model = Model(net.text(results), inputs)
    before = model.run(with_iree=True)
    assert are_close(before, model.run())
    model.equalize(power_of_two=True)
    after = model.run(with_iree=True)
    assert [of.tobytes() for of in before] == [of.tobytes() for of in after]
    other = Model(net.text(results), inputs)
    other.equalize()
    assert are_close(before, other.run(with_iree=True))


@given(seeds)
def test_a_second_time_changes_nothing(seed: int) -> None:
    """Ranges of inputs and weights are equal already, where their scale is free."""
    random = np.random.default_rng(seed)
    net = Network(random)
    x = net.argument((2, 3, 3, 4))
    y = net.conv(net.clamp(net.conv(x, 3, 3), 6.0), 2, 1)
    model = model_of(net, [y])
    model.equalize()
    first = model.printed
    model.equalize()
    assert model.printed == first
    assert not [of for of in model.outcomes.records if of.outcome is Outcome.EQUALIZED]


@given(seeds)
def test_rows_do_not_let_the_next_run_equalize_again(seed: int) -> None:
    """Rows of one layer change the columns that the next run would see."""
    random = np.random.default_rng(seed)
    net = Network(random)
    value = net.argument((2, 3, 3, 4))
    for channels in (3, 4, 2):
        value = net.clamp(net.conv(value, channels, 1), 3e38)
    model = model_of(net, [value])
    model.equalize()
    first, changed = model.printed, model.outcomes.records
    model.equalize()
    assert model.printed == first
    kept = [record for record in model.outcomes.records if record.code is RefusalCode.KEPT]
    assert len(kept) == sum(record.outcome is Outcome.EQUALIZED for record in changed)


def is_read(op: Operation) -> bool:
    """Whether the result of an op is read, and not only its ranges recorded."""
    users = [use.operation for use in op.results[0].uses]
    return any(not is_statistics(user) or is_read(user) for user in users)


@given(seeds)
def test_without_ranges_of_channels_there_is_a_remark(seed: int) -> None:
    """Ranges of whole tensors do not say how to scale channels."""
    net, results = random_network(seed)
    text = net.text(results)
    model = Model(text, [net.numbers[of] for of in net.arguments])
    for op in model.ops:
        if is_statistics(op):
            for name in ("axisStats", "axis"):
                op.properties.pop(name, None)
    before = model.printed
    # What nothing reads does not matter.
    layers = [
        op
        for op in model.named("tosa.conv2d") + model.named("tosa.depthwise_conv2d")
        if is_read(op)
    ]
    expected = {op for op in layers if shape_of(op.operands[0])[3] > 1}
    model.equalize()
    refused = [of for of in model.outcomes.records if "one for each index is needed" in of.reason]
    assert {str(of.code) for of in refused} <= {"no-record"}
    assert {of.op for of in refused} & {*layers} == expected
    if not model.report.layers:
        assert model.printed == before
    assert are_close([net.numbers[of] for of in results], model.run())
    model.check_ranges()


def contracted(
    random: np.random.Generator, name: str, x: str, array: Array
) -> tuple[list[str], Array]:
    """A `linalg.generic` that sums over some axes of a value, and what numpy computes of it."""
    rank = array.ndim
    order = [int(axis) for axis in random.permutation(rank)]
    summed, batch = order[: int(random.integers(1, 3))], order[2 : 2 + int(random.integers(0, 2))]
    free = [axis for axis in range(rank) if axis not in (*summed, *batch)]
    shared = [*summed, *batch]
    labels = [*random.permutation([*shared, rank])]
    result = [*random.permutation([*batch, *free, rank])]
    lengths = [*array.shape, 3]
    weights = random.normal(size=[lengths[at] for at in labels]) * powers(random, 1)
    weights = (weights * powers(random, weights.shape[0]).reshape(-1, *[1] * len(shared))).astype(
        "f4"
    )
    found = np.einsum(array.astype("f8"), range(rank), weights.astype("f8"), labels, result)
    loops = ", ".join(f"d{at}" for at in range(rank + 1))
    maps = ", ".join(
        f"affine_map<({loops}) -> ({', '.join(f'd{at}' for at in axes)})>"
        for axes in (range(rank), labels, result)
    )
    kinds = ", ".join(f'"{"reduction" if at in summed else "parallel"}"' for at in range(rank + 1))
    types = type_of(array), type_of(weights), type_of(found)
    lines = [
        f"%{name}_w = arith.constant {held(weights)}",
        f"%{name}_zeros = arith.constant dense<0.0> : {types[2]}",
        f"%{name}_sums = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} "
        f"ins({x}, %{name}_w : {types[0]}, {types[1]}) outs(%{name}_zeros : {types[2]}) {{",
        "^bb0(%a: f32, %b: f32, %c: f32):",
        "%m = arith.mulf %a, %b : f32",
        "%s = arith.addf %c, %m : f32",
        f"linalg.yield %s : f32 }} -> {types[2]}",
        f"%{name} = arith.maximumf %{name}_sums, %{name}_zeros : {types[2]}",
    ]
    return lines, np.maximum(found, 0).astype("f4")


@given(seeds, st.booleans())
def test_random_sums_of_products(seed: int, power_of_two: bool) -> None:
    """Over several axes, in batches, and in any order of axes."""
    random = np.random.default_rng(seed)
    shape = [int(n) for n in random.integers(1, 5, int(random.integers(3, 5)))]
    x = (random.normal(size=shape) * powers(random, shape[-1])).astype("f4")
    first, between = contracted(random, "y", "%x", x)
    second, expected = ([], between) if between.ndim < 3 else contracted(random, "r", "%y", between)
    result = "%r" if second else "%y"
    types = type_of(x), type_of(expected)
    body = "\n  ".join([*first, *second, f"return {result} : {types[1]}"])
    text = f"func.func @f(%x: {types[0]}) -> {types[1]} {{\n  {body}\n}}\n"
    note(text)
    model = Model(text, [x]).calibrate()
    before = model.run()
    assert are_close([expected], before)
    model.equalize(power_of_two=power_of_two)
    assert are_close([expected], model.run())
    if power_of_two:
        assert model.run()[0].tobytes() == before[0].tobytes()
    model.check_ranges()
