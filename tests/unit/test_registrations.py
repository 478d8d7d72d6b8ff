"""What is registered for all contexts can be taken back, of whichever kind it is."""

from registrations import taken_back
from xdsl.dialects.builtin import UnregisteredOp, i8
from xdsl.ir import Operation

from qdialect.dialects.arrays.elements import find_run
from qdialect.ops.along_axis import STATISTICS, is_statistics
from qdialect.ops.fields import CastReads, Contraction, own
from qdialect.ops.interface import is_cast, is_known_dialect
from qdialect.ops.model import OpModel, OpModels, model_named, register_models


def of_one(name: str) -> Operation:
    source = UnregisteredOp.with_name("test.source").create(result_types=[i8])
    return UnregisteredOp.with_name(name).create(operands=source.results, result_types=[i8])


def known() -> list[bool]:
    """What is known of ops of a dialect that nothing comes with."""
    return [
        is_known_dialect("forgotten"),
        is_cast(of_one("forgotten.cast")),
        is_statistics(of_one("forgotten.stats")),
        model_named("forgotten.layer").product is not None,
        model_named("forgotten.rule").rule is not None,
        model_named("forgotten.left").stays_float is not None,
        find_run("forgotten.run") is not None,
    ]


def test_what_is_registered_is_taken_back() -> None:
    assert not any(known())
    with taken_back():
        models = {
            "cast": OpModel(cast=CastReads.UNKNOWN),
            "stats": STATISTICS,
            "layer": OpModel(product=Contraction.of("nc,cf->nf")),
            "rule": OpModel(rule=own()),
            "left": OpModel(stays_float="of a test"),
            "run": OpModel(run=lambda interpreter, op, args: args),
        }
        register_models(OpModels("forgotten", models))
        assert all(known())
    assert not any(known())
    # What comes with the package stays.
    assert is_known_dialect("tosa")
    assert model_named("tosa.matmul").product
