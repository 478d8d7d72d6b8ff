"""Profiles are read as they were written, merged in any order, and bad files are explained."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdialect.quantization.file_errors import FileError
from qdialect.quantization.glow_profile import GlowProfile, GlowValue
from qdialect.quantization.histograms import GlowHistogram
from qdialect.quantization.profile import Fingerprint, Profile, merged_profiles
from qdialect.quantization.ranges import Statistics

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
    assert one.to_json() == other.to_json() == merged_profiles(parts).to_json()
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


GLOW = """\
---
GlowToolsVersion: '2021-05-06'
...
---
GraphPreLowerHash: 0x00F00BA4C0FFEE12
...
---
- NodeOutputName:  'A:0'
  Min:             -1.5
  Max:             2.25
  Histogram:       [ 1, 0, 2 ]
- NodeOutputName:  'it''s__1:0'
  Min:             0.100000001490116119384765625
  Max:             0.100000001490116119384765625
  Histogram:       [  ]
...
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


@pytest.mark.parametrize(("read", "text"), [(Profile.read, GOOD), (GlowProfile.read, GLOW)])
def test_a_file_that_is_not_utf_8(read: Callable[[Path], object], text: str, tmp_path: Path):
    path = tmp_path / "profile"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    read(path)
    path.write_bytes(text.encode().replace(b"\n", "\n\u00e9".encode() + b"\xe9", 1))
    with pytest.raises(FileError, match=r"profile:2:2: byte 0xE9 is not UTF-8; record"):
        read(path)


ALIASES = '"aliases": {"b": "a"},'
REDUCTION = f'{ALIASES}\n "reduction":'
PERCENTILE = '{"kind": "percentile", "low": 1, "high": %s}'


@pytest.mark.parametrize(
    ("before", "after", "place", "reason"),
    [
        ('"version"', "version", "3:2", "this is not JSON: Expecting property name"),
        (GOOD, "[]", "1:1", "this must be an object"),
        (GOOD, "[" * 100_000, "1:1", "this is nested too deeply"),
        ("qdialect-profile", "other", "1:1", 'there is no "format": "qdialect-profile"'),
        ('"version": 1', '"version": 3', "3:13", "version 3 is not supported"),
        (ALIASES, f'{ALIASES} "numbered": [1],', "5:38", "this must be a text"),
        ('"version": 1', '"version": ' + "1" * 5000, "3:13", "this number has too many digits"),
        (ALIASES, f'{ALIASES} "reductoin": 1,', "5:38", '"reductoin" is not one of "format"'),
        ('"count": 4', '"count": 4, "number": 4', "8:31", '"number" is not one of "axes"'),
        ('"version": 1', '"version": true', "3:13", "this must be an integer"),
        ('"12"', "12", "4:22", "this must be a text"),
        ('"b": "a"', '"b": "c"', "5:13", "'b' is an alias of 'c', which has no statistics"),
        ('"b": "a"', '"a": "a"', "5:13", "'a' is an alias, but has statistics of its own"),
        ('"b": "a"', '"b": "a", "b": "a"', "5:29", '"b" is given twice'),
        (ALIASES, f"{REDUCTION} 1,", "6:15", "this must be an object"),
        (ALIASES, f'{REDUCTION} {{"kind": "mean"}},', "6:24", "this must be one of whole"),
        (ALIASES, f'{REDUCTION} {{"kind": "whole"}},', "6:15", 'there is no "low"'),
        (ALIASES, f"{REDUCTION} {PERCENTILE % '101'},", "6:15", "high must be from 0 to 100"),
        (ALIASES, f"{REDUCTION} {PERCENTILE % '0.5'},", "6:15", "low must not exceed high"),
        (ALIASES, f"{REDUCTION} {PERCENTILE % 'true'},", "6:56", "this must be a number"),
        (ALIASES, f"{REDUCTION} {PERCENTILE % ('1' * 400)},", "6:15", "high must be from 0"),
        (ALIASES, f"{REDUCTION} {PERCENTILE % 'NaN'},", "6:15", "high must be from 0 to 100"),
        (ALIASES, REDUCTION + ' {"kind": "whole", "of": 1},', "6:39", '"of" is not one of "kind"'),
        ('"records": [0, 2], ', "", "7:8", 'there is no "records"'),
        ("[0, 2]", "[0, 2.5]", "7:36", "this must be an integer"),
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


def test_yaml_of_glow():
    profile = GlowProfile.from_yaml(GLOW)
    assert profile.version == "2021-05-06"
    assert profile.graph_hash == 0x00F00BA4C0FFEE12
    tenth = float(np.float32(0.1))
    assert profile.values == {
        "A:0": GlowValue(-1.5, 2.25, (1, 0, 2)),
        "it's__1:0": GlowValue(tenth, tenth, ()),
    }
    assert profile.to_yaml() == GLOW
    converted = profile.to_profile()
    assert converted.fingerprint.parts == {"GraphPreLowerHash": "0x00F00BA4C0FFEE12"}
    found = converted.statistics("A:0")
    assert found is not None
    assert (found.whole().minimum, found.whole().maximum, found.count) == (-1.5, 2.25, 3)


def test_other_spellings_of_the_same_yaml():
    text = """\
# of an older version
---
GraphPreLowerHash: 0xf00ba4c0ffee12   # a hash
...
---
- NodeOutputName: A:0   # a plain text
  Histogram:
    - 1
    - 0.0
    - 2e0
  Max:  225e-2
  Min: -1.50

-   NodeOutputName: "it's__1:0"
    Min: 0.1
    Max: 0.1
    Histogram: [
      ]
"""
    profile, other = GlowProfile.from_yaml(text), GlowProfile.from_yaml(GLOW)
    assert profile.values == other.values
    assert (profile.version, profile.graph_hash) == ("", other.graph_hash)
    long = GLOW.replace("[ 1, 0, 2 ]", "[ 1,\n                     0, 2 ]")
    assert GlowProfile.from_yaml(long) == other


@given(
    st.dictionaries(
        keys, st.tuples(floats32, floats32, st.lists(st.integers(0, 2**24), max_size=4))
    ),
    st.integers(0, 2**64 - 1),
    keys,
)
def test_yaml_is_read_as_it_was_written(
    values: dict[str, tuple[float, float, list[int]]], graph_hash: int, version: str
):
    profile = GlowProfile(
        version,
        graph_hash,
        {
            key: GlowValue(min(of[:2]), max(of[:2]), tuple(map(float, of[2])))
            for key, of in values.items()
        },
    )
    assert GlowProfile.from_yaml(profile.to_yaml()) == profile


@pytest.mark.parametrize(
    ("before", "after", "place", "reason"),
    [
        (GLOW, "", "1:1", "there is no GraphPreLowerHash"),
        ("0x00F00BA4C0FFEE12", "12", "5:20", "12 is not a 64-bit hash"),
        ("GraphPreLowerHash", "Other", "5:1", "must have GraphPreLowerHash and nothing else"),
        ("-1.5", "x", "9:20", "x is not a number"),
        ("-1.5", "", "9:7", "is not a number"),
        ("-1.5", ".nan", "9:20", "NaN is neither an end of a range"),
        ("-1.5", "-1_5", "9:20", "-1_5 is not a number"),
        ("-1.5", "-1e39", "9:20", "-1e39 does not fit float32"),
        ("0, 2 ]", "0, -2 ]", "11:28", "-2 is not a count of elements"),
        ("0, 2 ]", "0, .inf ]", "11:28", ".inf is not a count of elements"),
        ("0, 2 ]", "0 2 ]", "11:25", "0 2 is not a number"),
        ("'it''s__1:0'", "!!str b", "12:20", "this text is not valid"),
        (GLOW, GLOW + "---\n- Min: 1\n", "18:3", "there is another document after"),
        ("-1.5", "nan", "9:20", "NaN is neither an end of a range"),
        ("-1.5", "3.5", "9:20", "the minimum of 'A:0' exceeds its maximum"),
        ("0, 2 ]", "0, y ]", "11:28", "y is not a number"),
        ("0, 2 ]", "0, 2", "11:20", "this list has no closing bracket"),
        ("  Max:             2.25\n", "", "8:3", "there is no Max"),
        ("Max", "Most", "10:3", "'Most' is not one of NodeOutputName, Min, Max, Histogram"),
        ("Max: ", "Min: ", "10:3", "'Min' is given twice"),
        ("'it''s__1:0'", "'A:0'", "12:20", "'A:0' is given twice"),
        ("'it''s__1:0'", "'A", "12:20", "this text in quotes is not valid"),
        ("- NodeOutputName:  'A:0'", "  NodeOutputName:  'A:0'", "8:3", "no '- ' before"),
        ("- NodeOutputName:  'A:0'", "what is this", "8:1", "not a `key: value` line"),
    ],
)
def test_bad_yaml_is_explained(before: str, after: str, place: str, reason: str):
    assert before in GLOW
    text = GLOW.replace(before, after, 1)
    with pytest.raises(FileError) as caught:
        GlowProfile.from_yaml(text, "profile.yaml")
    message = str(caught.value)
    assert message.startswith(f"profile.yaml:{place}: ")
    assert reason in message
    assert message.endswith("; record the profile again with Glow's tools")


def test_profile_to_glow():
    profile = Profile(
        Fingerprint({}),
        {
            "a": Statistics.observe(0, np.linspace(-1, 1, 100, dtype="f4"), histogram=True),
            "b": Statistics.observe(0, np.ones((2, 3), "f4"), (1,)),
        },
    )
    ranges = {key: of.whole() for key, of in profile.values.items()}
    glow = GlowProfile.of_ranges(profile, ranges, 7)
    assert (glow.values["a"].minimum, glow.values["a"].maximum) == (-1, 1)
    assert sum(glow.values["a"].histogram) == 100
    assert len(glow.values["a"].histogram) == 10
    assert glow.values["b"] == GlowValue(1, 1, ())
    again: Any = GlowProfile.from_yaml(glow.to_yaml())
    assert again == glow


def test_counts_beyond_float32():
    profile = GlowProfile("", 1, {"a": GlowValue(0, 1, (2.0**24 + 1, 1234567.0))})
    assert "[ 16777217, 1234567 ]" in profile.to_yaml()
    histogram = GlowHistogram(1)
    histogram.counts[0] = 2**24
    histogram.update(np.zeros(1, "f4"))
    assert histogram.counts.tolist() == [2**24 + 1]


def test_all_decimals_of_the_smallest():
    smallest = 2.0**-149
    profile = GlowProfile("", 1, {"a": GlowValue(smallest, smallest, ())})
    assert GlowProfile.from_yaml(profile.to_yaml()) == profile


@given(st.data())
def test_whatever_a_file_has_is_read_or_explained(data: st.DataObject):
    """A part of a good file is left out, doubled, or replaced by a part of any."""
    text, read = data.draw(
        st.sampled_from([(GOOD, Profile.from_json), (GLOW, GlowProfile.from_yaml)])
    )
    for _ in range(data.draw(st.integers(1, 3))):
        start, stop, first, last = (data.draw(st.integers(0, len(text))) for _ in range(4))
        other = data.draw(st.sampled_from(["", text[first:last], *"[]{}\":,-. \n'\\#", "1e999"]))
        text = text[:start] + other + text[max(start, min(stop, start + 20)) :]
    explained: FileError | None = None
    try:
        read(text, "profile")
    except FileError as error:
        explained = error
    if explained is not None:
        lines = text.split("\n")
        assert 1 <= explained.line <= len(lines)
        assert 1 <= explained.column <= len(lines[explained.line - 1]) + 1
