"""The site of the documentation is built without a warning, and its links lead somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
from installed import needs
from typing_extensions import override

from qdialect.dialects.quant import Quant
from qdialect.passes import PASSES

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.without_xdsl, needs("mkdocs", "material", "mkdocstrings_handlers.python")]


class Parsed(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors = set[str]()
        self.links = list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert built.returncode == 0, built.stdout
    assert "WARNING" not in built.stdout
    return folder


@pytest.fixture(scope="module")
def parsed(site: Path) -> Mapping[Path, Parsed]:
    return {path: Parsed(path) for path in site.rglob("*.html")}


def test_links_and_anchors(site: Path, parsed: Mapping[Path, Parsed]) -> None:
    missing: list[str] = []
    count = 0
    for path, page in parsed.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            base = site if link.startswith("/") else path.parent
            target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = parsed[target].anchors if target in parsed else set[str]()
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in anchors):
                missing.append(f"{path.relative_to(site)}: {link}")
    assert not missing
    assert count > 1000


def test_every_page_is_on_the_site(parsed: Mapping[Path, Parsed], site: Path) -> None:
    names = {path.parent.relative_to(site).as_posix() for path in parsed}
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= names


def test_no_block_lost_its_fence(parsed: Mapping[Path, Parsed]) -> None:
    for path in parsed:
        assert "```" not in path.read_text(encoding="utf-8"), path


def test_the_reference_has_all_ops_types_and_passes(
    site: Path, parsed: Mapping[Path, Parsed]
) -> None:
    named = [*Quant.operations, *Quant.attributes]
    anchors = parsed[site / "reference" / "quant" / "index.html"].anchors
    assert {thing.name.replace(".", "") for thing in named} <= anchors
    anchors = parsed[site / "reference" / "passes" / "index.html"].anchors
    assert {f"--{flag}" for flag in PASSES} <= anchors


def test_pictures_are_xml_for_light_and_dark(site: Path) -> None:
    paths = list(site.glob("pictures/*.svg"))
    assert len(paths) == 10
    for path in paths:
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "prefers-color-scheme: dark" in text
