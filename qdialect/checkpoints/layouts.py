"""
The table of layouts: where each one has its codes, scales and zero points.

    value[n, k] = (code - zero) * scale, or table[code] * scale    of N rows (results), K columns

Sources: the code of AutoGPTQ and gptqmodel, AutoAWQ, compressed-tensors, bitsandbytes, gpt-oss,
MLX, llama.cpp's `ggml-common.h`, and ONNX Runtime's `MatMulNBits`. docs/checkpoints.md has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from qdialect.checkpoints.bit_fields import Order
from qdialect.support.memory import registered_cache
from qdialect.weights.tensor_files import DTYPES


class Turn(Enum):
    """Which axis of a stored tensor belongs to rows."""

    NONE = "none"
    """The first one; fields follow each other along the last one."""
    BEFORE = "before"
    """The last one; fields follow each other along the first one."""
    AFTER = "after"
    """The last one, and fields follow each other along it."""
    BOTH = "both"
    """The first one, and fields follow each other along it."""


class Plane(NamedTuple):
    """Bits of codes, in fields of a tensor."""

    name: str
    """The end of the name of the tensor, or the field of a record."""
    bits: int
    dtype: str = "U8"
    """The dtype of the tensor, of whose words there is a whole number."""
    order: Order | None = None
    """The order of the fields of a period that the codes have."""
    place: Order | None = None
    """The order of the codes of a period that these fields are of; None for all."""
    shift: int = 0
    """The lowest bit of the code that they are."""
    turn: Turn = Turn.NONE
    fan: int = 1
    """The rows whose fields are in one row of the tensor."""

    @property
    def is_stream(self) -> bool:
        """Whether its fields follow each other along the columns of a matrix."""
        return self.order is None and self.turn in (Turn.NONE, Turn.BEFORE)

    def stored(self, rows: int, columns: int) -> tuple[int, int]:
        """The shape of a tensor with fields for rows and columns, in whole words."""
        is_along_rows = self.turn in (Turn.AFTER, Turn.BOTH)
        along, other = (rows, columns) if is_along_rows else (columns * self.fan, rows // self.fan)
        words = -(-along * self.bits // DTYPES[self.dtype].bits)
        return (words, other) if self.turn in (Turn.BEFORE, Turn.BOTH) else (other, words)


class Meaning(Enum):
    """What the numbers of a tensor do to a scale."""

    FACTOR = "factor"
    NEGATIVE = "negative"
    """They are factors with the other sign."""
    EXPONENT = "exponent"
    """A power of two, with `EXPONENT_BIAS`."""
    DIVISOR = "divisor"
    INDEX = "index"
    """They are positions in another tensor, of factors."""
    SUMMAND = "summand"
    """It is one number, in the state that is saved beside a flat matrix."""


EXPONENT_BIAS: Final = 127
"""What is added to an exponent to be stored, as in `f8E8M0FNU`."""


class Numbers(NamedTuple):
    """A tensor of numbers: scales, what is multiplied to be one, or zero points."""

    name: str
    dtypes: tuple[str, ...] = ("F16", "BF16", "F32")
    meaning: Meaning = Meaning.FACTOR
    is_turned: bool = False
    table: str = ""
    padding: int = 1
    """The blocks in a multiple of which a row ends, more for blocks of fewer than 128 columns."""


class Planes(NamedTuple):
    """Whole numbers whose bits are in planes, with a bias."""

    planes: tuple[Plane, ...]
    bias: int = 0


@dataclass(frozen=True)
class Layout:
    """How a family of checkpoints has a matrix."""

    name: str
    bits: int
    codes: tuple[Plane, ...]
    scale: tuple[Numbers | Planes, ...]
    zero: Planes | Numbers | int | None = None
    """None for codes with a sign, and for numbers of a table."""
    storage: str = ""
    """The float type whose bits the codes are, if they are not integers."""
    table: str = ""
    """The tensor with the numbers of the codes."""
    block: tuple[int, int] = (1, 0)
    """The rows and columns of a block; 0 columns are found from the scales."""
    record: tuple[tuple[str, int], ...] = ()
    """The fields of a block that lie together, and their bytes."""
    is_flat: bool = False
    """Whether blocks are of the flat tensor."""
    groups: str = ""
    """The tensor with the block of each column."""
    always_has_groups: bool = False
    shape: str = ""
    """The tensor with the numbers of rows and columns."""
    absent: str = ""
    """The tensor that another layout has."""
    is_signed: bool = False
    offset: tuple[Numbers | Planes, ...] = ()
    """What is added to values: no type of quant has that, but a second constant."""

    @property
    def names(self) -> tuple[str, ...]:
        """The ends of the names of the tensors that must be there."""
        if self.record:
            return ("",)
        ends = [plane.name for plane in self.codes]
        for part in (*self.scale, *self.offset):
            if isinstance(part, Numbers) and part.meaning is not Meaning.SUMMAND:
                ends += [part.name, part.table]
        ends.append(self.table)
        if isinstance(self.zero, Planes):
            ends += [plane.name for plane in self.zero.planes]
        return tuple(dict.fromkeys(filter(None, ends)))


_EIGHT = Order((2, 4), (1, 0))
"""Fields 0, 2, 4, 6, 1, 3, 5, 7."""
_HALVES = Order((16, 2), (1, 0))
"""The low halves of 16 bytes, and then the high ones."""
_FAST = Order((4, 2, 4, 2, 4), (0, 1, 4, 2, 3))
"""Four rows of 64 columns."""
_CHUNKS = Order((4, 32, 2), (0, 2, 1))
_HIGH_FIRST = Order((2,), (0,), slice(None, None, -1))
_QUARTERS = Order((2, 32, 4), (0, 2, 1))
_SIXTEEN, _THIRTY_TWO, _WHOLE = (Order((count,), (0,)) for count in (16, 32, 256))
_E8: Final = Meaning.EXPONENT


PLAIN: Final = "qdialect"
"""The layout of quantized weights of a manifest, which is written by `import` and `quantize`."""


# fmt: off
def _words(name: str, bits: int, turn: Turn = Turn.NONE, order: Order | None = None) -> Plane:
    return Plane(name, bits, "I32", order, turn=turn)


def _f4(name: str, codes: str, *scale: Numbers, block: int = 32) -> Layout:
    return Layout(name, 4, (Plane(codes, 4),), scale, storage="f4E2M1FN", block=(1, block))


def _f8(name: str, scale: Numbers, block: tuple[int, int] = (1, 0)) -> Layout:
    codes = Plane(".weight", 8, "F8_E4M3")
    return Layout(name, 8, (codes,), (scale,), storage="f8E4M3FN", block=block)


def _ggml(
    name: str, bits: int, zero: int | None, record: str, *codes: Plane,
    scale: tuple[Numbers | Planes, ...] = (Numbers("d", ("F16",)),), block: int = 32,
    offset: tuple[Numbers | Planes, ...] = (), storage: str = "",
) -> Layout:
    """`record` is the fields of a block, and their bytes."""
    words = record.split()
    return Layout(
        name, bits, codes, scale, zero, storage, block=(1, block), offset=offset,
        record=tuple(zip(words[::2], map(int, words[1::2]), strict=True)),
        is_signed=zero is None and not storage,
    )


def _sixes(at: int) -> Planes:
    """
    Eight numbers of six bits: bytes of the first half have the top bits of the second one, too.

    `at` is 0 for scales, and 1 for what is subtracted.
    """
    name, halves = f"s{4 * at}", tuple(Order((2, 4), (0, 1), slice(i, i + 1)) for i in range(2))
    def pairs(i: int) -> Order:
        return Order((4, 4), (1, 0), slice(i, i + 1))
    low = Order((4, 2), (1, 0), slice(at, at + 1))
    return Planes((
        *(Plane(name, 2, "U8", pairs(i), halves[0], 2 * i) for i in range(3)),
        Plane("s8", 4, "U8", low, halves[1]), Plane(name, 2, "U8", pairs(3), halves[1], 4),
    ))


def _sixteen(at: int) -> Planes:
    """The low or high half of each of 16 bytes."""
    return Planes((Plane("sc", 4, "U8", Order((16, 2), (1, 0), slice(at, at + 1)), _SIXTEEN),))


@registered_cache
@cache
def layouts(bits: int = 4) -> Mapping[str, Layout]:
    """All layouts by name, where those of any width have codes of `bits` bits."""
    turned = (Numbers(".scales", is_turned=True),)
    gptq_zeros = Planes((_words(".qzeros", bits, Turn.AFTER),))
    gptq = Layout(
        "gptq_v2", bits, (_words(".qweight", bits, Turn.BEFORE),), turned, gptq_zeros,
        groups=".g_idx", always_has_groups=True,
    )
    compressed = Layout(
        "pack-quantized", bits, (_words(".weight_packed", bits),), (Numbers(".weight_scale"),),
        Planes((_words(".weight_zero_point", bits, Turn.BOTH),)),
        groups=".weight_g_idx", shape=".weight_shape",
    )
    nf4 = Layout(
        "bitsandbytes", 4, (Plane(".weight", 4, order=_HIGH_FIRST),),
        (Numbers(".weight.absmax", ("F32",)),), table=".weight.quant_map", is_flat=True,
    )
    halves, d = Plane("qs", 4, order=_HALVES), Numbers("d", ("F16",))
    fives = halves._replace(place=_THIRTY_TWO), Plane("qh", 1, place=_THIRTY_TWO, shift=4)
    minimum = (Numbers("m", ("F16",)),)
    dmin = Numbers("dmin", ("F16",), Meaning.NEGATIVE)
    high_bit = Plane("qh", 1, "U8", Order((32, 8), (1, 0)), _WHOLE, 4)
    threes = (
        Plane("lo", 4, "U8", Order((8, 2), (1, 0)), _SIXTEEN),
        Plane("hi", 2, "U8", Order((4, 4), (1, 0)), _SIXTEEN, 4),
    )
    rows = [
        replace(gptq, name="gptq", zero=gptq_zeros._replace(bias=1)),
        gptq,
        Layout("awq", bits, (_words(".qweight", bits, Turn.AFTER, _EIGHT),), turned,
               Planes((_words(".qzeros", bits, Turn.AFTER, _EIGHT),))),
        Layout("awq_gemv", bits, (_words(".qweight", bits),), (Numbers(".scales", padding=8),),
               Planes((_words(".qzeros", bits),))),
        Layout("awq_gemv_fast", 4, (Plane(".qweight", 4, "I16", _FAST, fan=4),),
               (Numbers(".scales", is_turned=True, padding=8),), 0,
               offset=(Numbers(".qzeros", is_turned=True, padding=8),)),
        compressed,
        replace(compressed, name="pack-quantized-symmetric", zero=1 << (bits - 1),
                absent=".weight_zero_point"),
        Layout("int-quantized", 8, (Plane(".weight", 8, "I8"),), (Numbers(".weight_scale"),),
               Numbers(".weight_zero_point", ("I8",)), is_signed=True),
        _f8("float-quantized", Numbers(".weight_scale")),
        _f4("nvfp4-pack-quantized", ".weight_packed", Numbers(".weight_scale", ("F8_E4M3",)),
            Numbers(".weight_global_scale", ("F32",), Meaning.DIVISOR), block=16),
        _f4("mxfp4-pack-quantized", ".weight_packed", Numbers(".weight_scale", ("U8",), _E8)),
        _f4("gpt-oss", "_blocks", Numbers("_scales", ("U8",), _E8)),
        _f8("fp8-blocks", Numbers(".weight_scale_inv", ("F32",)), (128, 128)),
        nf4,
        replace(nf4, name="bitsandbytes-double", scale=(
            Numbers(".weight.absmax", ("U8",), Meaning.INDEX, table=".weight.nested_quant_map"),
            Numbers(".weight.nested_absmax", ("F32",)),
            Numbers("nested_offset", ("F32",), Meaning.SUMMAND))),
        Layout("torchao", 8, (Plane("._weight_qdata", 8, "I8"),), (Numbers("._weight_scale"),),
               Numbers("._weight_zero_point", ("I8",)), is_signed=True),
        Layout("torchao-float", 8, (Plane("._weight_qdata", 8, "F8_E4M3"),),
               (Numbers("._weight_scale"),), storage="f8E4M3FN"),
        Layout("quark", bits, (_words(".weight", bits, Turn.AFTER, _EIGHT),),
               (Numbers(".weight_scale", is_turned=True),),
               Planes((_words(".weight_zero_point", bits, Turn.AFTER, _EIGHT),))),
        Layout("mlx", bits, (Plane(".weight", bits, "U32"),), (Numbers(".scales"),), 0,
               offset=(Numbers(".biases"),)),
        Layout("matmulnbits", bits, (Plane(".B", bits),), (Numbers(".scales"),),
               Planes((Plane(".zero_points", bits),))),
        _ggml("q4_0", 4, 8, "d 2 qs 16", halves),
        _ggml("q4_1", 4, 0, "d 2 m 2 qs 16", halves, offset=minimum),
        _ggml("q5_0", 5, 16, "d 2 qh 4 qs 16", *fives),
        _ggml("q5_1", 5, 0, "d 2 m 2 qh 4 qs 16", *fives, offset=minimum),
        _ggml("q8_0", 8, None, "d 2 qs 32", Plane("qs", 8)),
        _ggml("q2_k", 2, 0, "sc 16 qs 64 d 2 dmin 2", Plane("qs", 2, "U8", _QUARTERS),
              scale=(d, _sixteen(0)), block=16, offset=(dmin, _sixteen(1))),
        _ggml("q3_k", 3, 4, "hm 32 qs 64 lo 8 hi 4 d 2",
              Plane("qs", 2, "U8", _QUARTERS, _WHOLE),
              high_bit._replace(name="hm", shift=2),
              scale=(d, Planes(threes, -32)), block=16),
        _ggml("q4_k", 4, 0, "d 2 dmin 2 s0 4 s4 4 s8 4 qs 128", Plane("qs", 4, "U8", _CHUNKS),
              scale=(d, _sixes(0)), offset=(dmin, _sixes(1))),
        _ggml("q5_k", 5, 0, "d 2 dmin 2 s0 4 s4 4 s8 4 qh 32 qs 128",
              Plane("qs", 4, "U8", _CHUNKS, _WHOLE), high_bit,
              scale=(d, _sixes(0)), offset=(dmin, _sixes(1))),
        _ggml("q6_k", 6, 32, "ql 128 qh 64 sc 16 d 2",
              Plane("ql", 4, "U8", Order((2, 2, 32, 2), (0, 3, 1, 2)), _WHOLE),
              Plane("qh", 2, "U8", _QUARTERS, _WHOLE, 4),
              scale=(d, Numbers("sc", ("I8",))), block=16),
        _ggml("mxfp4", 4, None, "e 1 qs 16", halves, scale=(Numbers("e", ("U8",), _E8),),
              storage="f4E2M1FN"),
    ]
    return MappingProxyType({row.name: row for row in rows})
