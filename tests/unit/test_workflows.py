"""The workflows of GitHub: without an error, and in step with the project, the Makefile and .ci."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.without_xdsl

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TESTS = (ROOT / ".github" / "workflows" / "tests.yml").read_text()

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def test_there_is_a_workflow_for_each_task() -> None:
    assert {path.stem for path in WORKFLOWS} == {"tests", "lint", "docs", "wheels", "release"}


@each_workflow
def test_actions_are_pinned_to_commits(path: Path) -> None:
    """With the version in a comment; a workflow of this repository is of the same commit."""
    for used in re.findall(r"uses: (.*)", path.read_text()):
        if not used.startswith("./"):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", used), used


@each_workflow
def test_permissions_are_few(path: Path) -> None:
    """All may read the sources; what publishes may prove to PyPI who it is."""
    text = path.read_text()
    assert re.search(r"^permissions:\n  contents: read\n\n", text, re.MULTILINE)
    more = re.findall(r"^    permissions:\n((?:      .*\n)+)", text, re.MULTILINE)
    assert more == (["      id-token: write\n"] if path.stem == "release" else [])
    assert "pull_request_target" not in text


@each_workflow
def test_commands_exist(path: Path) -> None:
    text = path.read_text()
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"run: make (\w+)", text)) <= {*targets}
    for script in re.findall(r"run: (?:bash|python) ([\w./]+)", text):
        assert (ROOT / script).is_file(), script
    for extras in re.findall(r'-e "\.\[([\w,]+)\]"', text):
        assert {*extras.split(",")} <= {*PROJECT["optional-dependencies"]}


def test_each_supported_python_is_tested() -> None:
    prefix = "Programming Language :: Python :: "
    supported = [name.removeprefix(prefix) for name in PROJECT["classifiers"] if prefix in name]
    (tested,) = re.findall(r'^        python: \[(".*")\]$', TESTS, re.MULTILINE)
    assert tested.replace('"', "").split(", ") == supported


@pytest.mark.parametrize("library", ["xdsl", "numpy"])
def test_the_oldest_dependency_is_tested(library: str) -> None:
    (needed,) = (name for name in PROJECT["dependencies"] if name.startswith(library))
    (oldest,) = re.findall(r">=([\d.]+)", needed)
    assert f'"{library}=={oldest}.*"' in TESTS


def test_ci_has_the_commands_of_the_workflows() -> None:
    run = (ROOT / ".ci" / "run").read_text()
    for command in ("make test", "make oldest", "make lint", "make wheel", "upstream/check.py"):
        assert command in run
        assert any(command in path.read_text() for path in WORKFLOWS), command


def metadata(folder: Path, **environment: str) -> str:
    """What PyPI would get."""
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "qdialect"):
        (folder / name).symlink_to(ROOT / name)
    program = "from setuptools.build_meta import *; print(prepare_metadata_for_build_wheel('.'))"
    variables = {name: text for name, text in os.environ.items() if name != "PROJECT_URL"}
    tool = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**variables, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return (folder / tool.stdout.splitlines()[-1] / "METADATA").read_text()


def test_urls_of_the_project_are_where_it_is_built(tmp_path: Path) -> None:
    """Of a release, they are in the metadata. Elsewhere, nobody knows them."""
    url = "https://example.com/project"
    elsewhere, released = tmp_path / "elsewhere", tmp_path / "released"
    elsewhere.mkdir()
    released.mkdir()
    of_release = metadata(released, PROJECT_URL=url)
    assert f"Project-URL: Repository, {url}\n" in of_release
    for path in re.findall(r"^Project-URL: .*/(?:blob|tree)/main/(.*)$", of_release, re.MULTILINE):
        assert (ROOT / path).exists(), path
    assert "Project-URL" not in metadata(elsewhere)
    for name in ("release", "docs"):
        assert "\nenv:\n  PROJECT_URL: " in (WORKFLOWS[0].parent / f"{name}.yml").read_text()


def test_the_changelog_has_the_version() -> None:
    version = re.escape(PROJECT["version"])
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {version} - (?:unreleased|\d{{4}}-\d\d-\d\d)$", text, re.MULTILINE)
