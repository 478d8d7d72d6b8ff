"""Side by side with torch: the same scales, zero points and integers."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from qdialect.algebra.parameters import StorageFormat
from qdialect.ptq.schemes.arrays import quantize_array, quantize_values
from qdialect.ptq.schemes.presets import I8, U8, scheme_of
from qdialect.ptq.schemes.schemes import PER_TENSOR, Blocks

HAS_TORCH = find_spec("torch") is not None
torch: Any = import_module("torch") if HAS_TORCH else None
observers: Any = import_module("torch.ao.quantization.observer") if HAS_TORCH else None

pytestmark = [
    pytest.mark.exporters,
    pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed"),
]

DTYPES = {I8: "qint8", U8: "quint8"}

magnitudes = st.sampled_from([1e-30, 1e-9, 1e-6, 1e-3, 1.0, 37.0, 1e4, 1e30])


@st.composite
def tensors(draw: st.DrawFn) -> np.ndarray[Any, np.dtype[np.float32]]:
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    elements = st.floats(-1, 1, width=32)
    values = draw(arrays(np.float32, tuple(shape), elements=elements))
    shift = np.float32(draw(st.sampled_from([0, 0, -1, 1])))
    return (values + shift) * np.float32(draw(magnitudes))


@pytest.fixture(autouse=True)
def _without_warnings():
    """torch warns of types of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def quantized(tensor: Any, scales: Any, zero_points: Any, axis: int | None, dtype: Any) -> Any:
    if axis is None:
        codes = torch.quantize_per_tensor(tensor, scales.item(), zero_points.item(), dtype)
    else:
        codes = torch.quantize_per_channel(tensor, scales, zero_points, axis, dtype)
    return codes.int_repr().numpy()


@given(tensors(), st.data())
def test_observers_and_quantize(values: np.ndarray[Any, Any], data: st.DataObject):
    storage = data.draw(st.sampled_from([I8, U8]))
    is_symmetric = data.draw(st.booleans())
    # torch observes channels of at least two dimensions.
    axes = [None] if values.ndim == 1 else [None, *range(values.ndim)]
    axis = data.draw(st.sampled_from(axes))
    dtype = getattr(torch, DTYPES[storage])
    kind = "symmetric" if is_symmetric else "affine"
    if axis is None:
        qscheme = getattr(torch, f"per_tensor_{kind}")
        observer = observers.MinMaxObserver(dtype=dtype, qscheme=qscheme)
    else:
        qscheme = getattr(torch, f"per_channel_{kind}")
        observer = observers.PerChannelMinMaxObserver(ch_axis=axis, dtype=dtype, qscheme=qscheme)
    tensor = torch.from_numpy(values)
    observer(tensor)
    scales, zero_points = observer.calculate_qparams()
    scheme = scheme_of(str(qscheme).replace(".", "-").replace("_", "-"), storage)
    blocks = PER_TENSOR if axis is None else Blocks.per_axis(axis)
    found = quantize_array(values, scheme, blocks)
    assert found.choice.scales.ravel().tolist() == scales.tolist()
    assert found.choice.zero_points.ravel().tolist() == zero_points.tolist()
    codes = quantized(tensor, scales, zero_points, axis, dtype)
    assert np.array_equal(found.codes, codes)
    assert found.codes.dtype == codes.dtype


@given(tensors(), st.data())
def test_values_outside_of_the_range(values: np.ndarray[Any, Any], data: st.DataObject):
    storage = data.draw(st.sampled_from([I8, U8]))
    dtype = getattr(torch, DTYPES[storage])
    scheme = scheme_of("torch-per-tensor-affine", storage)
    scale = data.draw(st.floats(2.0**-23, 2.0**20, width=32))
    zero_point = data.draw(st.integers(scheme.minimum, scheme.maximum))
    choice = scheme.given(scale, zero_point)
    codes = quantized(torch.from_numpy(values), choice.scales, choice.zero_points, None, dtype)
    assert np.array_equal(quantize_values(values, choice), codes)


@pytest.mark.parametrize(("low", "high"), [(-8, 7), (-127, 127), (-100, 20)])
def test_fewer_codes(low: int, high: int):
    values = np.linspace(-3, 5, 1001, dtype="f4")
    for kind in ("affine", "symmetric"):
        observer = observers.MinMaxObserver(
            dtype=torch.qint8,
            qscheme=getattr(torch, f"per_tensor_{kind}"),
            quant_min=low,
            quant_max=high,
        )
        observer(torch.from_numpy(values))
        scales, zero_points = observer.calculate_qparams()
        scheme = scheme_of(f"torch-per-tensor-{kind}", I8).with_codes(low, high)
        choice = scheme.choose(values.min(), values.max())
        assert choice.scales.item() == scales.item()
        assert choice.zero_points.item() == zero_points.item()


def test_quint8_is_symmetric_around_the_middle():
    storage = StorageFormat(8, signed=False)
    choice = scheme_of("torch-per-tensor-symmetric", storage).choose(-2.0, 1.0)
    observer = observers.MinMaxObserver(dtype=torch.quint8, qscheme=torch.per_tensor_symmetric)
    observer(torch.tensor([-2.0, 1.0]))
    scales, zero_points = observer.calculate_qparams()
    assert (choice.scales.item(), choice.zero_points.item()) == (scales.item(), zero_points.item())
    assert choice.zero_points.item() == 128


@pytest.mark.parametrize("zero_point", [-128, -7, 0, 5, 100])
def test_numbers_between_two_codes(zero_point: int):
    """A product is rounded before the zero point is added, but not if there is one for all."""
    generator = np.random.default_rng(zero_point + 128)
    for _ in range(200):
        scale = np.float32(generator.random() + 0.1)
        halves = (generator.integers(-128, 128, 64) - zero_point + np.float32(0.5)).astype("f4")
        values = halves * scale
        values = np.concatenate((values, np.nextafter(values, np.float32(9)))).astype("f4")
        tensor = torch.from_numpy(values)
        for axis in (None, 1):
            kind = "tensor" if axis is None else "channel"
            choice = scheme_of(f"torch-per-{kind}-affine", I8).given(scale, zero_point)
            if axis is None:
                codes = quantized(tensor, choice.scales, choice.zero_points, axis, torch.qint8)
            else:
                scales, zeros = torch.tensor([float(scale)]), torch.tensor([zero_point])
                codes = quantized(tensor[:, None], scales, zeros, axis, torch.qint8)[:, 0]
            assert np.array_equal(quantize_values(values, choice), codes)
