"""The parser of native/gguf behind a pipe, and a builder of files for it."""

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

SOURCES = [
    "tests/native/gguf/gguf_driver.cpp",
    "native/gguf/type.cpp",
    "native/gguf/source.cpp",
    "native/gguf/mapping.cpp",
    "native/gguf/header.cpp",
    "native/gguf/gguf_file.cpp",
    "native/quant/dequant.cpp",
]
# The sanitizers see what a plain run survives by luck: one byte past the end, an overflow, a bad shift.
FLAGS = ["-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@dataclass(frozen=True)
class Outcome:
    """ok, error (a GgufError) or system (an operating system's error); peak: bytes allocated for it."""

    kind: str
    peak: int
    message: str


class Parser:
    """A process that parses file after file; it must survive them all."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _ask(self, kind: bytes, payload: bytes) -> Outcome:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(kind + struct.pack("<Q", len(payload)) + payload)
        stdin.flush()
        line = stdout.readline().decode()
        assert line, f"the parser died on {payload!r}"
        outcome, peak, message = line.rstrip("\n").split("\t")
        return Outcome(outcome, int(peak), message)

    def parse(self, content: bytes) -> Outcome:
        return self._ask(b"B", content)

    def open(self, path: Path) -> Outcome:
        return self._ask(b"P", str(path).encode())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait() == 0


@pytest.fixture(scope="session")
def parser(compile_cpp):
    parser = Parser(compile_cpp(SOURCES, *FLAGS))
    yield parser
    parser.close()


@pytest.fixture(scope="session")
def builder(load_helper) -> ModuleType:
    """gguf_builder.py"""
    return load_helper(Path(__file__).with_name("gguf_builder.py"))
