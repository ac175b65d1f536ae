"""The rules of the house that a program can check cheaply: layout, imports, locks, version, addresses."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("engine", "lsp_server", "bench")
MAX_LINES = 600
# Made by tools, or not ours to cut.
LONG_FILES = re.compile(r"(\.lock|package-lock\.json|LICENSE)$")


@cache
def project_files() -> list[Path]:
    """Every file of the repository that git does not ignore, new ones included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


@cache
def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def requirements(lines: list[str]) -> list[Requirement]:
    stripped = [line.partition("#")[0].strip() for line in lines]
    return [Requirement(line) for line in stripped if line]


def read_requirements(name: str) -> list[Requirement]:
    return requirements((ROOT / "requirements" / name).read_text().splitlines())


def locked(name: str) -> dict[str, str]:
    """Name and version of each package of a lock file, all of which must have a hash."""
    entries = re.split(r"\n(?=\S)", (ROOT / "requirements" / f"{name}.lock").read_text())
    pins = {}
    for entry in entries:
        if match := re.match(r"([\w.-]+)==(\S+) \\\n", entry):
            assert "--hash=sha256:" in entry, f"{match[1]} has no hash in {name}.lock"
            pins[canonicalize_name(match[1])] = match[2]
    return pins


def test_every_package_says_what_it_is() -> None:
    silent = []
    for package in PACKAGES:
        for folder in {path.parent for path in project_files() if path.suffix == ".py"}:
            if folder.relative_to(ROOT).parts[:1] == (package,):
                door = folder / "__init__.py"
                if not door.is_file() or not ast.get_docstring(ast.parse(door.read_text())):
                    silent.append(str(folder.relative_to(ROOT)))
    assert not silent, f"no docstring in the __init__.py of: {', '.join(sorted(silent))}"


def test_no_file_is_too_long() -> None:
    long = {}
    for path in project_files():
        if LONG_FILES.search(path.name):
            continue
        lines = path.read_bytes().count(b"\n")
        if lines > MAX_LINES:
            long[str(path.relative_to(ROOT))] = lines
    assert not long, f"more than {MAX_LINES} lines: {long}"


def test_imports_point_down() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Spelt in pieces, so that this file does not hold what it looks for.
@pytest.mark.parametrize(
    "host", ["pypi" + ".org", "python" + "hosted.org", "registry.npm" + "js.org", "deb.deb" + "ian.org"]
)
def test_no_file_names_a_package_registry(host: str) -> None:
    naming = [str(path.relative_to(ROOT)) for path in project_files() if host.encode() in path.read_bytes()]
    assert not naming, f"{host} is named in {naming}; package clients know their own registry"


def test_no_lock_file_sets_an_index() -> None:
    for path in (ROOT / "requirements").iterdir():
        assert not re.search(
            r"^--(extra-)?(index-url|trusted-host|find-links)", path.read_text(), re.MULTILINE
        )


@pytest.mark.parametrize("lock", ["build", "node", "aider", "runtime", "dev"])
def test_lock_files_hold_what_is_asked_for(lock: str) -> None:
    pins = locked(lock)
    wanted = read_requirements(f"{lock}.in") if lock != "runtime" else []
    if lock in {"runtime", "dev"}:
        wanted += requirements(pyproject()["project"]["dependencies"])
    for one in wanted:
        version = pins.get(canonicalize_name(one.name))
        assert version is not None, f"{one.name} is not in {lock}.lock: run `make lock`"
        assert one.specifier.contains(version, prereleases=True), (
            f"{one} is not met by {version} in {lock}.lock"
        )


def test_every_import_is_a_declared_dependency() -> None:
    declared = {canonicalize_name(one.name) for one in requirements(pyproject()["project"]["dependencies"])}
    for extra in pyproject()["project"]["optional-dependencies"].values():
        declared |= {canonicalize_name(one.name) for one in requirements(extra)}
    providers = packages_distributions()
    undeclared = set()
    for path in project_files():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in {"engine", "lsp_server"}:
            for name in imported(path) - set(sys.stdlib_module_names) - set(PACKAGES):
                if not {canonicalize_name(one) for one in providers.get(name, [name])} & declared:
                    undeclared.add(f"{name} ({path.relative_to(ROOT)})")
    assert not undeclared, f"imported, but not in pyproject.toml: {sorted(undeclared)}"


def imported(path: Path) -> set[str]:
    """Top-level names of what a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_what_is_tested_is_what_runs() -> None:
    runtime, dev = locked("runtime"), locked("dev")
    assert {name: dev.get(name) for name in runtime} == runtime


def test_build_requirements_are_said_alike_twice() -> None:
    assert set(pyproject()["build-system"]["requires"]) <= {str(one) for one in read_requirements("build.in")}


def test_every_dependency_has_its_reason_in_contributing() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().lower().replace("_", "-")
    named = requirements(pyproject()["project"]["dependencies"])
    for extra in pyproject()["project"]["optional-dependencies"].values():
        named += requirements(extra)
    for name in ("build.in", "dev.in", "node.in", "aider.in"):
        named += read_requirements(name)
    unexplained = [one.name for one in named if f"`{canonicalize_name(one.name)}`" not in text]
    assert not unexplained, f"say in CONTRIBUTING.md why we depend on: {unexplained}"


def test_the_version_is_written_once() -> None:
    version = pyproject()["project"]["version"]
    for path in project_files():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in PACKAGES:
            assert not re.search(r"^__version__\s*=", path.read_text(), re.MULTILINE), path
    extension = ROOT / "editors" / "vscode" / "package.json"
    if extension.is_file():
        assert json.loads(extension.read_text())["version"] == version
