"""What `mkdocs build` does besides: pages made from the code, pictures, and links out of docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, cast

import pictures
import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = reference.ROOT

LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)\s#]+)(#[^)\s]*)?(?=\))")
HOME: Final = "index.md"

PICTURES: Final = "pictures.md"

ADDED: Final = {
    "algebra.md": f"[Pictures]({PICTURES}) show how each op moves slots.",
    "calibration.md": f"[A picture]({PICTURES}#noise-of-a-quantized-model) shows what is drawn.",
    "architecture.md": f"[A picture]({PICTURES}#folders-and-imports) shows the imports of folders.",
}
"""What pages say on the site alone, below their titles."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the pages of the Python interface in the navigation."""
    for section in cast("list[dict[str, list[dict[str, list[str]]]]]", config.nav):
        for entry in section.get("Reference", ()):
            if "Python" in entry:
                entry["Python"] = list(reference.interface())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and the pictures that are made."""
    svgs = {
        f"pictures/{op}.svg": pictures.slots(op, rows) for op, rows in pictures.examples().items()
    }
    svgs["pictures/noise.svg"] = pictures.noise()
    svgs["pictures/architecture.svg"] = pictures.architecture()
    home = {HOME: (ROOT / "README.md").read_text(encoding="utf-8"), PICTURES: _pictures()}
    for path, text in {**home, **svgs, **reference.pages(), **reference.interface()}.items():
        files.append(File.generated(config, path, content=text))
    return files


def _pictures() -> str:
    parts = [
        "# Pictures",
        "## Slots and shape ops",
        "On the left are a per-axis and a blockwise tensor, and on the right what an op makes of "
        "them. The number in a cell is the slot of the element: its scale and zero point. Thick "
        "lines are the blocks of the coarsest type. [The algebra](algebra.md) explains each op.",
    ]
    for op in pictures.examples():
        parts += [f"### {op}", f"![The slots before and after {op}](pictures/{op}.svg)"]
    others = ", ".join(f"`{high}` from `{low}`" for high, low in pictures.upward())
    parts += [
        "## Noise of a quantized model",
        "The signal to noise of each value in the convolutions of `examples/digits`, stored in 8 "
        "bits: [measured](calibration.md#evaluation) on images, and expected from ranges. What "
        "`qdialect quantize --plot=FILE` draws.",
        "![Bars with the signal to noise of each value](pictures/noise.svg)",
        "## Folders and imports",
        "An arrow points from a folder to one that it imports from. Arrows that follow from "
        "others are left out. [Architecture](architecture.md) says what is in each folder.",
        "![The folders of qdialect and their imports](pictures/architecture.svg)",
        f"A few files of a folder stand above the rest of it, and import the other way: {others}.",
    ]
    return "\n\n".join(parts)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write links, and the words behind the language of a block, as the site needs them."""
    path = page.file.src_uri
    folder = ROOT if path == HOME else (ROOT / "docs" / path).parent

    def link(match: re.Match[str]) -> str:
        return _linked((folder / match[1]).resolve(), config, files, match[1]) + (match[2] or "")

    parts, end = list[str](), 0
    for block in reference.FENCED.finditer(markdown):
        language, _, words = block[1].partition(" ")
        title = f' title="{words}"' if words else ""
        parts += [
            LINK.sub(link, markdown[end : block.start()]),
            f"```{language}{title}\n{block[2]}```",
        ]
        end = block.end()
    text = "".join([*parts, LINK.sub(link, markdown[end:])])
    return text.replace("\n\n", f"\n\n{ADDED[path]}\n\n", 1) if path in ADDED else text


def _linked(target: Path, config: MkDocsConfig, files: Files, written: str) -> str:
    """
    The link to a file of the repository.

    Outside of docs/, it is at the URL of the project, or copied into the site if there is none.
    """
    path = target.relative_to(ROOT).as_posix()
    if path == "README.md":
        return HOME
    if target.is_relative_to(ROOT / "docs"):
        return written.removeprefix("docs/")
    if config.repo_url:
        return f"{config.repo_url}/blob/main/{path}"
    # A page would be written anew.
    copied = f"files/{path}.txt" if target.suffix == ".md" else f"files/{path}"
    if files.get_file_from_path(copied) is None:
        files.append(File.generated(config, copied, abs_src_path=str(target)))
    return copied
