"""Profiles are read as they were written, merged in any order, and bad files are explained."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdialect.ptq.schemes.profile import Fingerprint, Profile, merge_profiles
from qdialect.ptq.schemes.ranges import Statistics
from qdialect.support.files import FileError

MODULE = Fingerprint(
    {"@main": "sha256:12", "arguments of @main": "tensor<1x4xf32>"},
    {"x": "12", "@main#0": "34"},
    frozenset(["@main#0"]),
)

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
floats32 = st.floats(width=32, allow_nan=False)


@st.composite
def statistics(draw: st.DrawFn, records: list[int], axes: tuple[int, ...]) -> Statistics:
    parts = [
        Statistics.observe(
            record,
            np.array(draw(st.lists(floats32, min_size=6, max_size=6)), "f4").reshape(2, 3),
            axes,
            histogram=True,
        )
        for record in records
    ]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.merge(part)
    return whole


@st.composite
def profiles(draw: st.DrawFn, records: list[int], names: list[str]) -> Profile:
    axes = [(), (1,), (0, 1)]
    values = {name: draw(statistics(records, axes[at % 3])) for at, name in enumerate(names)}
    aliases = {f"{name} folded": name for name in names}
    return Profile(MODULE, values, aliases)


@given(st.data())
def test_what_is_written_is_read(data: st.DataObject):
    names = data.draw(st.lists(keys, unique=True, max_size=4))
    profile = data.draw(profiles([3, 8, 2**40], names))
    text = profile.to_json()
    again = Profile.from_json(text)
    assert again.to_json() == text
    assert again.fingerprint == MODULE
    assert again.aliases == profile.aliases
    for name in names:
        one, other = profile.values[name], again.values[name]
        assert one.minima.tobytes() == other.minima.tobytes()
        assert one.maxima.tobytes() == other.maxima.tobytes()
        assert one.axes == other.axes
        assert one.records.tolist() == other.records.tolist()
        assert (one.count, one.nans) == (other.count, other.nans)
        assert again.statistics(f"{name} folded") is other
    # Any other program reads the same numbers.
    assert json.loads(text)["version"] == 2


@given(st.data())
def test_profiles_merge_in_any_order(data: st.DataObject):
    names = data.draw(st.lists(keys, unique=True, min_size=1, max_size=3))
    parts = [data.draw(profiles([at, at + 10], names)) for at in range(3)]
    one = parts[0].merge(parts[1]).merge(parts[2])
    other = parts[2].merge(parts[0].merge(parts[1]))
    assert one.to_json() == other.to_json() == merge_profiles(parts).to_json()
    assert one.values[names[0]].records.tolist() == [0, 1, 2, 10, 11, 12]


def observed(index: int, *values: float) -> Statistics:
    return Statistics.observe(index, np.array(values, "f4"))


def test_a_value_may_be_in_one_profile_only():
    one, other = Profile(MODULE, {"a": observed(0, 1)}), Profile(MODULE, {"b": observed(0, 2)})
    assert {*one.merge(other).values} == {"a", "b"}
    assert one.statistics("b") is None


def test_profiles_of_different_modules_are_not_merged():
    other = Fingerprint({"@main": "sha256:34", "@other": "sha256:12"})
    reason = (
        "'@main' differs; '@other' is only in the second; 'arguments of @main' is only in the first"
    )
    with pytest.raises(ValueError, match=f"different modules cannot be merged: {reason}"):
        Profile(MODULE, {}).merge(Profile(other, {}))
    assert MODULE.differences(Fingerprint(dict(MODULE.parts))) == []


def test_what_else_is_not_merged():
    one = Profile(MODULE, {"a": observed(0, 1)}, {"x": "a"})
    with pytest.raises(ValueError, match="value 'a': both have record 0"):
        one.merge(Profile(MODULE, {"a": observed(0, 1)}))
    other = Profile(MODULE, {"b": observed(1, 1)}, {"x": "b"})
    with pytest.raises(ValueError, match="'x' is an alias of 'a' in one profile, and of 'b'"):
        one.merge(other)


GOOD = """{
 "format": "qdialect-profile",
 "version": 1,
 "module": {"@main": "12"},
 "aliases": {"b": "a"},
 "values": {
  "a": {"axes": [], "records": [0, 2], "minima": [-0.5, "-inf"], "maxima": [1, 2.5],
        "count": 4, "nans": 0}
 }
}
"""


def test_a_file(tmp_path: Path):
    (tmp_path / "profile.json").write_text(GOOD)
    profile = Profile.read(tmp_path / "profile.json")
    found = profile.statistics("b")
    assert found is not None
    assert found.minima.tolist() == [-0.5, -math.inf]
    (tmp_path / "profile.json").write_text("")
    with pytest.raises(FileError, match=re.escape(f"{tmp_path / 'profile.json'}:1:1: this is not")):
        Profile.read(tmp_path / "profile.json")


def test_a_file_that_is_not_utf_8(tmp_path: Path):
    path = tmp_path / "profile"
    path.write_bytes(GOOD.replace("\n", "\r\n").encode())
    Profile.read(path)
    path.write_bytes(GOOD.encode().replace(b"\n", "\n\u00e9".encode() + b"\xe9", 1))
    with pytest.raises(FileError, match=r"profile:2:2: byte 0xE9 is not UTF-8; record"):
        Profile.read(path)


ALIASES = '"aliases": {"b": "a"},'
REDUCTION = f'{ALIASES}\n "reduction":'
PERCENTILE = '{"kind": "percentile", "low": 1, "high": %s}'


@pytest.mark.parametrize(
    ("before", "after", "place", "reason"),
    [
        ('"version"', "version", "3:2", "this is not JSON: Expecting property name"),
        (GOOD, "[]", "1:1", "it must be an object, but is []"),
        (GOOD, "[" * 100_000, "1:1", "it is nested too deeply"),
        ("qdialect-profile", "other", "1:1", 'there is no "format": "qdialect-profile"'),
        ('"version": 1', '"version": 3', "3:13", "version 3 is not supported"),
        (ALIASES, f'{ALIASES} "numbered": [1],', "5:38", "it must be a text, but is "),
        ('"version": 1', '"version": ' + "1" * 5000, "3:13", "an integer has too many digits"),
        (
            ALIASES,
            f'{ALIASES} "reductoin": 1,',
            "5:38",
            "'reductoin' is unknown: the keys are format",
        ),
        ('"count": 4', '"count": 4, "number": 4', "8:31", "'number' is unknown: the keys are axes"),
        ('"version": 1', '"version": true', "3:13", "it must be an integer, but is "),
        ('"12"', "12", "4:22", "it must be a text, but is "),
        ('"b": "a"', '"b": "c"', "5:13", "'b' is an alias of 'c', which has no statistics"),
        ('"b": "a"', '"a": "a"', "5:13", "'a' is an alias, but has statistics of its own"),
        ('"b": "a"', '"b": "a", "b": "a"', "5:29", "'b' is given twice"),
        (ALIASES, f"{REDUCTION} 1,", "6:15", "it must be an object, but is 1"),
        (
            ALIASES,
            f'{REDUCTION} {{"kind": "mean", "low": 1, "high": 2}},',
            "6:24",
            "this must be one of whole",
        ),
        (ALIASES, f'{REDUCTION} {{"kind": "whole"}},', "6:15", "'low' is missing"),
        (ALIASES, f"{REDUCTION} {PERCENTILE % '101'},", "6:15", "high must be from 0 to 100"),
        (ALIASES, f"{REDUCTION} {PERCENTILE % '0.5'},", "6:15", "low must not exceed high"),
        (
            ALIASES,
            f"{REDUCTION} {PERCENTILE % 'true'},",
            "6:56",
            "it must be a number, but is True",
        ),
        (ALIASES, f"{REDUCTION} {PERCENTILE % ('1' * 400)},", "6:56", "it is too large"),
        (ALIASES, f"{REDUCTION} {PERCENTILE % 'NaN'},", "6:15", "high must be from 0 to 100"),
        (
            ALIASES,
            REDUCTION + ' {"kind": "whole", "of": 1},',
            "6:39",
            "'of' is unknown: the keys are kind",
        ),
        ('"records": [0, 2], ', "", "7:8", "'records' is missing"),
        ("[0, 2]", "[0, 2.5]", "7:36", "it must be an integer, but is "),
        ("[0, 2]", "[2, 0]", "7:8", "indices of records must be ascending"),
        ("[0, 2]", "[-2, 0]", "7:8", "ascending and not negative"),
        ("[0, 2]", "[0, 9223372036854775808]", "7:36", "does not fit 64 bits"),
        ("-0.5", "-0.1", "7:51", '-0.1 is neither a float32 nor "inf" or "-inf"'),
        ("-0.5", "NaN", "7:51", "NaN is neither a float32"),
        ("-0.5", "1e300", "7:51", "1e+300 is neither a float32"),
        ("-0.5", "[1]", "7:50", "its elements differ in length"),
        ('"axes": []', '"axes": [-1]', "7:8", "axes must be ascending and not negative"),
        ('"count": 4', '"count": -4', "8:18", "counts of elements are from 0 to"),
        ('"count": 4', '"count": 9007199254740992', "8:18", "counts of elements are from 0 to"),
        ("-0.5", "9", "7:8", "a minimum exceeds its maximum"),
        (
            '"nans": 0',
            '"nans": 0, "histogram": {"bins": [1], "counts": []}',
            "8:45",
            "1 bins do not",
        ),
        *(
            ('"nans": 0', f'"nans": 0, "histogram": {{"bins": {bins}, "counts": {counts}}}', *told)
            for bins, counts, *told in (
                ([1, 1], [2, 2], "8:45", "bins must be ascending"),
                ([2048], [2], "8:45", "bins are from -2048 to 2047"),
                ([1], [-1], "8:70", "counts of elements are from 0 to"),
                ([1], [1 << 53], "8:70", "counts of elements are from 0 to"),
            )
        ),
    ],
)
def test_bad_files_are_explained(before: str, after: str, place: str, reason: str):
    assert before in GOOD
    text = GOOD.replace(before, after, 1)
    with pytest.raises(FileError) as caught:
        Profile.from_json(text, "profile.json")
    message = str(caught.value)
    assert message.startswith(f"profile.json:{place}")
    assert reason in message
    assert message.endswith(
        ("; record the profile again", "this one supports the versions 1 and 2")
    )


@given(st.data())
def test_whatever_a_file_has_is_read_or_explained(data: st.DataObject):
    """A part of a good file is left out, doubled, or replaced by a part of any."""
    text = GOOD
    for _ in range(data.draw(st.integers(1, 3))):
        start, stop, first, last = (data.draw(st.integers(0, len(text))) for _ in range(4))
        other = data.draw(st.sampled_from(["", text[first:last], *"[]{}\":,-. \n'\\#", "1e999"]))
        text = text[:start] + other + text[max(start, min(stop, start + 20)) :]
    explained: FileError | None = None
    try:
        Profile.from_json(text, "profile")
    except FileError as error:
        explained = error
    if explained is not None:
        lines = text.split("\n")
        assert 1 <= explained.line <= len(lines)
        assert 1 <= explained.column <= len(lines[explained.line - 1]) + 1
