"""
The table of layouts: where each one has its codes, scales and zero points.

    value[n, k] = (code - zero) * scale, or table[code] * scale    of N rows (results), K columns

Sources: the code of AutoGPTQ and gptqmodel, AutoAWQ, compressed-tensors, bitsandbytes, gpt-oss,
MLX, torchao, Quark, llama.cpp's `ggml-common.h`, and ONNX Runtime's `MatMulNBits`, and what NNCF
writes for OpenVINO. docs/checkpoints.md has them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Final, NamedTuple

from qdialect.checkpoints.bit_fields import Order
from qdialect.support.memory import registered_cache
from qdialect.weights.tensor_files import DTYPES, PACKED


class Plane(NamedTuple):
    """Bits of whole numbers, in fields of a tensor."""

    name: str
    """The end of the name of the tensor, or the field of a record."""
    bits: int
    dtype: str = "U8"
    """The dtype of the tensor, of whose words there is a whole number."""
    order: Order | None = None
    """The order of the fields of a period that the numbers have."""
    place: Order | None = None
    """The order of the numbers of a period that these fields are of; None for all."""
    shift: int = 0
    """The lowest bit of the number that they are."""
    is_turned: bool = False
    """Whether rows are the last axis, and not the first ones."""
    is_along_rows: bool = False
    """Whether fields follow each other along rows, so that a word has those of several."""
    has_blocks: bool = False
    """Whether the words of each block are an axis."""
    fan: int = 1
    """The rows whose fields are in one row of the tensor."""
    flip: int = 0
    """The bits of fields along rows that numbers have the complements of."""

    @property
    def word(self) -> int:
        """The bits of a word."""
        return 8 * DTYPES[self.dtype].itemsize

    @property
    def is_stream(self) -> bool:
        """Whether its fields follow each other along the columns of a matrix."""
        return self.order is None and not self.is_along_rows

    def stored(self, leading: Sequence[int], columns: int, width: int) -> tuple[int, ...]:
        """The shape of a tensor for rows and columns in blocks of `width`, in whole words."""
        rows = math.prod(leading)
        if self.has_blocks:
            return *leading, -(-columns // width), -(-width * self.bits // self.word)
        along, other = (rows, columns) if self.is_along_rows else (columns * self.fan, rows)
        words = -(-along * self.bits // self.word)
        if not (self.is_turned or self.is_along_rows):
            return (*leading, words) if self.fan == 1 else (rows // self.fan, words)
        return (other, words) if self.is_turned and self.is_along_rows else (words, other)


class Meaning(Enum):
    """What the numbers of a tensor do to a scale."""

    FACTOR = "factor"
    NEGATIVE = "negative"
    """They are factors with the other sign."""
    EXPONENT = "exponent"
    """Powers of two."""
    DIVISOR = "divisor"
    INDEX = "index"
    """They are positions in another tensor, of factors."""
    SUMMAND = "summand"
    """It is one number, in the state that is saved beside a flat matrix."""


class Numbers(NamedTuple):
    """What is stored for blocks: scales, what is multiplied to be one, zero points or offsets."""

    name: str
    """The end of the name of the tensor, or the field of a record."""
    dtypes: tuple[str, ...] = ("F16", "BF16", "F32")
    """Those of elements that the tensor may have; none for whole numbers of planes."""
    is_turned: bool = False
    meaning: Meaning = Meaning.FACTOR
    bias: int = 0
    """What is added to a stored number, or an exponent."""
    table: str = ""
    """The tensor with the numbers of an index."""
    padding: int = 1
    """The blocks in a multiple of which a row ends, more for blocks of fewer than 128 columns."""
    planes: tuple[Plane, ...] = ()

    @property
    def dtype(self) -> str:
        """The first dtype of elements; none of whole numbers of planes."""
        return self.dtypes[0] if self.dtypes else ""

    def planes_of(self, dtype: str) -> tuple[Plane, ...]:
        """The planes, where elements have a dtype."""
        return self.planes or (
            Plane(self.name, 8 * DTYPES[dtype].itemsize, dtype, is_turned=self.is_turned),
        )


@dataclass(frozen=True)
class Layout:
    """How a family of checkpoints has a matrix."""

    name: str
    bits: int
    codes: tuple[Plane, ...]
    scale: tuple[Numbers, ...]
    """The scale of each block, and what else is multiplied to it."""
    zero: Numbers | int | None = None
    """None for codes with a sign, and for numbers of a table."""
    storage: str = ""
    """The float type whose bits the codes are, if they are not integers."""
    table: str | tuple[int, ...] = ""
    """The tensor with the numbers of the codes, or these themselves, of 8 bits with a sign."""
    block: tuple[int, int] = (1, 0)
    """The rows and columns of a block; 0 columns are found from the scales."""
    record: tuple[tuple[str, int], ...] = ()
    """The fields of a block that lie together, and their bytes."""
    shape: str = ""
    """The tensor with the numbers of rows and columns; of flat matrices, the start of its name."""
    groups: str = ""
    """The tensor with the block of each column; `?` at the end if only another order has it."""
    is_signed: bool = False
    offset: tuple[Numbers, ...] = ()
    """What is added to values: no type of quant has that, but a second constant."""
    refused: tuple[str, str] | None = None
    """The word and the reason why values are known, but no type has them."""

    @property
    def is_flat(self) -> bool:
        """Whether blocks are of the flat tensor."""
        return self.shape == STATE

    @property
    def elements(self) -> int:
        """The codes of a record."""
        plane = self.codes[0]
        return dict(self.record)[plane.name] * 8 // plane.bits

    @property
    def dtypes(self) -> Mapping[str, tuple[str, ...]]:
        """The dtypes of the tensors that must be there, by the ends of their names."""
        if self.record:
            return {"": ("U8",)}
        zero = (self.zero,) if isinstance(self.zero, Numbers) else ()
        own = {plane.name: (plane.dtype,) for plane in self.codes}
        tables = [self.table] if isinstance(self.table, str) else []
        for part in (*self.scale, *self.offset, *zero):
            if part.meaning is not Meaning.SUMMAND:
                own |= {plane.name: (plane.dtype,) for plane in part.planes}
                own |= {part.name: part.dtypes, part.table: ("F32",)}
        own |= dict.fromkeys(tables, ("F32",))
        # Files have two codes of 4 bits in a byte.
        own |= {name: ("U8",) for name, dtypes in own.items() if PACKED in dtypes}
        return {name: dtypes for name, dtypes in own.items() if name}

    @property
    def outer(self) -> tuple[str, ...]:
        """The tensors or fields without which a product does not say what its factors are."""
        names = [part.table for part in (*self.scale, *self.offset)]
        names += [part.name for part in self.scale[:1] if part.meaning is Meaning.INDEX]
        later = (*self.scale[1:], *self.offset[1:])
        names += [part.name for part in later if part.meaning is not Meaning.SUMMAND]
        names.append(self.table if isinstance(self.table, str) else "")
        return tuple(filter(None, names))


class Hints(NamedTuple):
    """What is known of layouts beside names and shapes."""

    allowed: tuple[str, ...] | None = None
    """The names of layouts; None for all."""
    bits: int | None = None
    columns: int | None = None
    """The columns of a block; -1 for all."""
    block: tuple[int, int] | None = None
    is_symmetric: bool = False


_EIGHT = Order((2, 4), (1, 0))
"""Fields 0, 2, 4, 6, 1, 3, 5, 7."""
_HALVES = Order((16, 2), (1, 0))
"""The low halves of 16 bytes, and then the high ones."""
_FAST = Order((4, 2, 4, 2, 4), (0, 1, 4, 2, 3))
"""Four rows of 64 columns."""
_CHUNKS = Order((4, 32, 2), (0, 2, 1))
_HIGH_FIRST = Order((2,), (0,), slice(None, None, -1))
_QUARTERS = Order((2, 32, 4), (0, 2, 1))
_EIGHTH, _SIXTEEN, _THIRTY_TWO, _WHOLE = (Order((count,), (0,)) for count in (8, 16, 32, 256))
_IQ4: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""The numbers of the codes of IQ4_NL, in the library gguf."""


PLAIN: Final = "qdialect"
"""The layout of quantized weights of a manifest, which is written by `import` and `quantize`."""


STATE: Final = ".weight.quant_state.bitsandbytes__"
"""What bitsandbytes has its JSON in: the shape of a flat matrix, and the elements of a block."""


# fmt: off
def _words(
    name: str, bits: int, *, is_turned: bool = False, is_along_rows: bool = False
) -> Plane:
    return Plane(name, bits, "I32", is_turned=is_turned, is_along_rows=is_along_rows)


def _down(name: str, bits: int, order: Order | None = None) -> Plane:
    """Words of several rows, which are the last axis."""
    return Plane(name, bits, "I32", order, is_turned=True, is_along_rows=True)


def _bits(planes: tuple[Plane, ...], bias: int = 0, padding: int = 1) -> Numbers:
    """Whole numbers."""
    return Numbers("", (), bias=bias, padding=padding, planes=planes)


def _powers(name: str) -> Numbers:
    """Exponents as `f8E8M0FNU` has them."""
    return Numbers(name, ("U8",), meaning=Meaning.EXPONENT, bias=-127)


def _f4(
    name: str, codes: str, *scale: Numbers, block: int = 32, has_blocks: bool = False
) -> Layout:
    plane = Plane(codes, 4, has_blocks=has_blocks)
    return Layout(name, 4, (plane,), scale, storage="f4E2M1FN", block=(1, block))


def _f8(
    name: str, scale: Numbers, codes: str = ".weight", block: tuple[int, int] = (1, 0)
) -> Layout:
    plane = Plane(codes, 8, "F8_E4M3")
    return Layout(name, 8, (plane,), (scale,), storage="f8E4M3FN", block=block)


def _with_symmetric(row: Layout) -> tuple[Layout, Layout]:
    """A layout, and the one without zero points: of codes without a sign, they are the middle."""
    zero = None if row.is_signed else 1 << (row.bits - 1)
    return row, replace(row, name=f"{row.name}-symmetric", zero=zero)


def _ggml(
    name: str, bits: int, zero: int | None, record: str, *codes: Plane,
    scale: tuple[Numbers, ...] = (), block: int = 32, offset: tuple[Numbers, ...] = (),
    storage: str = "", table: tuple[int, ...] = (),
) -> Layout:
    """`record` is the fields of a block, and their bytes; `d` is the last factor, if it is one."""
    words = record.split()
    own = (*scale, Numbers("d", ("F16",))) if "d" in words else scale
    return Layout(
        name, bits, codes, own, zero, storage, table or "", block=(1, block), offset=offset,
        record=tuple(zip(words[::2], map(int, words[1::2]), strict=True)),
        is_signed=zero is None and not storage,
    )


def _sixes(at: int) -> Numbers:
    """
    Eight numbers of six bits: bytes of the first half have the top bits of the second one, too.

    `at` is 0 for scales, and 1 for what is subtracted.
    """
    name, halves = f"s{4 * at}", tuple(Order((2, 4), (0, 1), slice(i, i + 1)) for i in range(2))
    def pairs(i: int) -> Order:
        return Order((4, 4), (1, 0), slice(i, i + 1))
    low = Order((4, 2), (1, 0), slice(at, at + 1))
    return _bits((
        *(Plane(name, 2, "U8", pairs(i), halves[0], 2 * i) for i in range(3)),
        Plane("s8", 4, "U8", low, halves[1]), Plane(name, 2, "U8", pairs(3), halves[1], 4),
    ))


def _sixteen(at: int) -> Numbers:
    """The low or high half of each of 16 bytes."""
    return _bits((Plane("sc", 4, "U8", Order((16, 2), (1, 0), slice(at, at + 1)), _SIXTEEN),))


@registered_cache
@cache
def layouts(bits: int = 4) -> Mapping[str, Layout]:
    """All layouts by name, where those of any width have codes of `bits` bits."""
    turned = (Numbers(".scales", is_turned=True),)
    gptq_zeros = _bits((_down(".qzeros", bits),))
    gptq = Layout("gptq_v2", bits, (_words(".qweight", bits, is_turned=True),), turned, gptq_zeros,
                  groups=".g_idx")
    nf4 = Layout("bitsandbytes", 4, (Plane(".weight", 4, order=_HIGH_FIRST),),
                 (Numbers(".weight.absmax", ("F32",)),), table=".weight.quant_map", shape=STATE)
    halves = Plane("qs", 4, order=_HALVES)
    fives = halves._replace(place=_THIRTY_TWO), Plane("qh", 1, place=_THIRTY_TWO, shift=4)
    minimum = (Numbers("m", ("F16",)),)
    dmin = Numbers("dmin", ("F16",), meaning=Meaning.NEGATIVE)
    high_bit = Plane("qh", 1, "U8", Order((32, 8), (1, 0)), _WHOLE, 4)
    threes = (
        Plane("lo", 4, "U8", Order((8, 2), (1, 0)), _SIXTEEN),
        Plane("hi", 2, "U8", Order((4, 4), (1, 0)), _SIXTEEN, 4),
    )
    fours = Plane("lo", 4, place=_EIGHTH), Plane("hi", 2, place=_EIGHTH, shift=4)
    tiles = Layout("torchao-tiles", 4, (Plane("._weight_qdata", 4, "I32"),),
                   (Numbers("._weight_scale_and_zero"),),
                   refused=("storage", "codes are in the order of a kernel of another device"))
    quark_zeros = _down(".weight_zero_point", bits, _EIGHT)
    quark = Layout("quark", bits, (_down(".weight", bits, _EIGHT),),
                   (Numbers(".weight_scale", is_turned=True),), _bits((quark_zeros,)))
    mxfp6 = Layout("quark-mxfp6-e2m3", 6, (Plane(".weight", 6),), (_powers(".weight_scale"),),
                   storage="f6E2M3FN", block=(1, 32))
    openvino = Layout("openvino", bits, (Plane(".weight", bits),), (Numbers(".weight/scale"),),
                      Numbers(".weight/zero_point", (PACKED if bits == 4 else "U8",)))
    k_record = "d 2 dmin 2 s0 4 s4 4 s8 4 qs 128"
    rows = [
        replace(gptq, name="gptq", zero=gptq_zeros._replace(bias=1)),
        gptq,
        Layout("awq", bits, (_down(".qweight", bits, _EIGHT),), turned,
               _bits((_down(".qzeros", bits, _EIGHT),))),
        Layout("awq_gemv", bits, (_words(".qweight", bits),), (Numbers(".scales", padding=8),),
               _bits((_words(".qzeros", bits),), padding=8)),
        Layout("awq_gemv_fast", 4, (Plane(".qweight", 4, "I16", _FAST, fan=4),),
               (Numbers(".scales", is_turned=True, padding=8),), 0,
               offset=(Numbers(".qzeros", is_turned=True, padding=8),)),
        *_with_symmetric(Layout(
            "pack-quantized", bits, (_words(".weight_packed", bits),),
            (Numbers(".weight_scale"),),
            _bits((_words(".weight_zero_point", bits, is_along_rows=True),)),
            groups=".weight_g_idx?", shape=".weight_shape")),
        *_with_symmetric(Layout(
            "int-quantized", 8, (Plane(".weight", 8, "I8"),), (Numbers(".weight_scale"),),
            Numbers(".weight_zero_point", ("I8",)), is_signed=True)),
        _f8("float-quantized", Numbers(".weight_scale")),
        _f4("nvfp4-pack-quantized", ".weight_packed", Numbers(".weight_scale", ("F8_E4M3",)),
            Numbers(".weight_global_scale", ("F32",), meaning=Meaning.DIVISOR), block=16),
        _f4("mxfp4-pack-quantized", ".weight_packed", _powers(".weight_scale")),
        _f4("gpt-oss", "_blocks", _powers("_scales"), has_blocks=True),
        _f8("fp8-blocks", Numbers(".weight_scale_inv", ("F32",)), block=(128, 128)),
        nf4,
        replace(nf4, name="bitsandbytes-double", scale=(
            Numbers(".weight.absmax", ("U8",), meaning=Meaning.INDEX,
                       table=".weight.nested_quant_map"),
            Numbers(".weight.nested_absmax", ("F32",)),
            Numbers("nested_offset", ("F32",), meaning=Meaning.SUMMAND))),
        Layout("bitsandbytes-int8", 8, (Plane(".weight", 8, "I8"),), (Numbers(".SCB", ("F32",)),),
               is_signed=True,
               refused=("scale", "the product of code and 'SCB' is rounded before it is divided")),
        Layout("hqq", 4, (Plane(".W_q", 8),), (Numbers(".scale"),), Numbers(".zero"),
               refused=("zero", "zero points are floats, and the difference is rounded")),
        *_with_symmetric(Layout(
            "torchao", 8, (Plane("._weight_qdata", 8, "I8"),), (Numbers("._weight_scale"),),
            Numbers("._weight_zero_point", ("I8",)), is_signed=True)),
        _f8("torchao-float", Numbers("._weight_scale"), "._weight_qdata"),
        Layout("torchao-int4", 4, (Plane("._weight_qdata", 4, "I8"),),
               (Numbers("._weight_scale", is_turned=True),), is_signed=True,
               offset=(Numbers("._weight_zero_point", is_turned=True),)),
        replace(tiles, name="torchao-int32", scale=(Numbers("._weight_scale", is_turned=True),),
                zero=Numbers("._weight_zero_point", ("I8", "F16", "BF16"), is_turned=True)),
        tiles,
        *_with_symmetric(quark),
        # Codes without a sign are 8 higher: they have the complement of the bit of the sign.
        replace(quark, name="quark-int4", codes=(quark.codes[0]._replace(flip=1 << (bits - 1)),),
                zero=_bits((quark_zeros._replace(flip=1 << (bits - 1)),))),
        _f4("quark-mxfp4", ".weight", _powers(".weight_scale")),
        mxfp6,
        replace(mxfp6, name="quark-mxfp6-e3m2", storage="f6E3M2FN"),
        Layout("mlx", bits, (Plane(".weight", bits, "U32"),), (Numbers(".scales"),), 0,
               offset=(Numbers(".biases"),)),
        *_with_symmetric(Layout(
            "matmulnbits", bits, (Plane(".B", bits, has_blocks=True),), (Numbers(".scales"),),
            _bits((Plane(".zero_points", bits),)))),
        openvino,
        replace(openvino, name="openvino-symmetric", zero=None, is_signed=True),
        _ggml("q4_0", 4, 8, "d 2 qs 16", halves),
        _ggml("q4_1", 4, 0, "d 2 m 2 qs 16", halves, offset=minimum),
        _ggml("q5_0", 5, 16, "d 2 qh 4 qs 16", *fives),
        _ggml("q5_1", 5, 0, "d 2 m 2 qh 4 qs 16", *fives, offset=minimum),
        _ggml("q8_0", 8, None, "d 2 qs 32", Plane("qs", 8)),
        _ggml("q2_k", 2, 0, "sc 16 qs 64 d 2 dmin 2", Plane("qs", 2, "U8", _QUARTERS),
              scale=(_sixteen(0),), block=16, offset=(_sixteen(1), dmin)),
        _ggml("q3_k", 3, 4, "hm 32 qs 64 lo 8 hi 4 d 2",
              Plane("qs", 2, "U8", _QUARTERS, _WHOLE),
              high_bit._replace(name="hm", shift=2),
              scale=(_bits(threes, bias=-32),), block=16),
        _ggml("q4_k", 4, 0, k_record, Plane("qs", 4, "U8", _CHUNKS),
              scale=(_sixes(0),), offset=(_sixes(1), dmin)),
        _ggml("q5_k", 5, 0, k_record.replace("qs", "qh 32 qs"),
              Plane("qs", 4, "U8", _CHUNKS, _WHOLE), high_bit,
              scale=(_sixes(0),), offset=(_sixes(1), dmin)),
        _ggml("q6_k", 6, 32, "ql 128 qh 64 sc 16 d 2",
              Plane("ql", 4, "U8", Order((2, 2, 32, 2), (0, 3, 1, 2)), _WHOLE),
              Plane("qh", 2, "U8", _QUARTERS, _WHOLE, 4),
              scale=(Numbers("sc", ("I8",)),), block=16),
        _ggml("iq4_nl", 4, None, "d 2 qs 16", halves, table=_IQ4),
        _ggml("iq4_xs", 4, None, "d 2 hi 2 lo 4 qs 128", halves,
              scale=(_bits(fours, bias=-32),), table=_IQ4),
        _ggml("mxfp4", 4, None, "e 1 qs 16", halves, scale=(_powers("e"),), storage="f4E2M1FN"),
    ]
    return MappingProxyType({row.name: row for row in rows})
