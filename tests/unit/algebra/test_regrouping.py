"""The factors that a reshape moves."""

import math
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from qdialect.algebra.movement import Shape
from qdialect.algebra.run_map import regroup
from qdialect.testing.movements import reshaped
from qdialect.testing.tensors import shapes

pairs = shapes().flatmap(lambda shape: st.tuples(st.just(shape), reshaped(shape)))


@given(pairs)
def test_factors_are_those_of_both_shapes(pair: tuple[Shape, Shape]):
    operand, result = pair
    regrouping = regroup(operand, result)
    assert tuple(map(math.prod, regrouping.operand_factors)) == operand
    assert tuple(map(math.prod, regrouping.result_factors)) == result
    before = list(chain.from_iterable(group for group, _ in regrouping.groups))
    after = list(chain.from_iterable(group for _, group in regrouping.groups))
    assert before == list(chain.from_iterable(regrouping.operand_factors))
    assert after == list(chain.from_iterable(regrouping.result_factors))
    for group_before, group_after in regrouping.groups:
        assert math.prod(group_before) == math.prod(group_after) > 1


def test_split():
    assert regroup((24,), (2, 12)).operand_factors == ((2, 12),)


def test_merge():
    assert regroup((2, 12), (24,)).result_factors == ((2, 12),)


def test_unit_axes_have_no_factors():
    regrouping = regroup((1, 6, 1), (6, 1))
    assert regrouping.operand_factors == ((), (6,), ())
    assert regrouping.result_factors == ((6,), ())


def test_only_what_does_not_divide_is_flattened():
    # 6 x 4 to 4 x 6: two is the outermost and the innermost factor of both.
    assert regroup((6, 4), (4, 6)).groups == (((2,), (2,)), ((3, 2), (2, 3)), ((2,), (2,)))
