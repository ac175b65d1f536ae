"""Real vocabularies without their models, out of two Python packages; loaded by conftest.py.

pip fetches each package by name and hash into the development cache ($HEARTH_DEV_CACHE, by default
~/.cache/hearth-dev); the files named here are read out of the archive, nothing is installed or imported.
One package is a source archive: pip asks its build tool, scikit-build-core, for the archive's metadata, after
the hash was found right.
"""

import base64
import json
import os
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

_TIMEOUT_S = 300


@dataclass(frozen=True)
class Package:
    requirement: str
    sha256: str
    folder: str  # of the files in the archive
    files: tuple[str, ...]
    is_wheel: bool


LLAMA_CPP = Package(
    "llama-cpp-python==0.3.16",
    "34ed0f9bd9431af045bb63d9324ae620ad0536653740e9bb163a2e1fcb973be6",
    "llama_cpp_python-0.3.16/vendor/llama.cpp/models/",
    (
        "ggml-vocab-baichuan.gguf",
        "ggml-vocab-deepseek-coder.gguf",
        "ggml-vocab-deepseek-llm.gguf",
        "ggml-vocab-llama-spm.gguf",
        "ggml-vocab-starcoder.gguf",
    ),
    is_wheel=False,
)
MISTRAL = Package(
    "mistral-common==1.8.5",
    "f3cf87b61958a00485e603f3fe0530eb509d7e9b2f7178329dcd260e307eced1",
    "mistral_common/data/",
    ("mistral_instruct_tokenizer_240323.model.v3", "tekken_240911.json"),
    is_wheel=True,
)
# CodeLlama's vocabulary is Llama 2's and pieces for the markers, which its merges can reach from plain text.
_CODELLAMA = "\u2581<SU \u2581<SUF \u2581<PRE \u2581<M \u2581<MID \u2581<E \u2581<EOT"
_CODELLAMA = [*_CODELLAMA.split(), "\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>", "\u2581<EOT>"]


def load(name, helpers):
    """The vocabulary's metadata. Skips the test, or fails it with HEARTH_REQUIRE_MODELS, when it cannot be
    had."""
    if name == "codestral":
        return _sentencepiece(_file(MISTRAL, MISTRAL.files[0]).read_bytes(), helpers)
    if name == "tekken":
        return _tekken(json.loads(_file(MISTRAL, MISTRAL.files[1]).read_text()), helpers)
    if name == "codellama":
        metadata = load("llama-spm", helpers)
        values = metadata.values
        values["tokenizer.ggml.tokens"] += [piece.encode() for piece in _CODELLAMA]
        values["tokenizer.ggml.token_type"] += [helpers.NORMAL] * len(_CODELLAMA)
        least = min(score for score in values["tokenizer.ggml.scores"] if score > -1e6)
        values["tokenizer.ggml.scores"] += [least - place for place in range(1, len(_CODELLAMA) + 1)]
        return metadata
    return helpers.FileMetadata(_file(LLAMA_CPP, f"ggml-vocab-{name}.gguf"))


def _file(package, name):
    folder = _cache() / package.requirement
    failure = None if (folder / name).is_file() else _fetch(package)
    if failure is None:
        return folder / name
    message = f"{package.requirement}, which has {name}, cannot be fetched: {failure}"
    if os.environ.get("HEARTH_REQUIRE_MODELS"):
        pytest.fail(message)
    pytest.skip(message)


def _cache():
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearth-dev"
    return Path(os.environ.get("HEARTH_DEV_CACHE") or home) / "vocabularies"


@cache
def _fetch(package):
    """Put the package's files into the cache; what went wrong, or None. Tried once a session."""
    folder = _cache() / package.requirement
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_cache()) as scratch:
        scratch = Path(scratch)
        wanted = scratch / "wanted.txt"
        wanted.write_text(f"{package.requirement} --hash=sha256:{package.sha256}\n")
        kind = "--only-binary=:all:" if package.is_wheel else "--no-binary=:all:"
        command = [
            sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input",
            "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
            kind, "--require-hashes", "--requirement", str(wanted),
            "--dest", str(scratch),
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=scratch, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"pip took longer than {_TIMEOUT_S} s"
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        (archive,) = (path for path in scratch.iterdir() if path != wanted)
        for name in package.files:
            (scratch / "part").write_bytes(_member(archive, package.folder + name))
            (scratch / "part").replace(folder / name)
    return None


def _member(archive, name):
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as packed:
            return packed.read(name)
    with tarfile.open(archive) as packed:
        return packed.extractfile(name).read()


def _sentencepiece(data, helpers):
    """Metadata out of a SentencePiece model: a protocol buffer whose field 1 is a list of pieces, each a
    spelling (1), a score (2) and a type (3) with the numbers that GGUF has too."""
    tokens, scores, types = [], [], []
    for number, piece in _fields(data):
        if number == 1:
            fields = dict(_fields(piece))
            tokens.append(fields[1])
            scores.append(struct.unpack("<f", fields[2])[0])
            types.append(fields.get(3, helpers.NORMAL))
    return _metadata(helpers, model="llama", tokens=tokens, scores=scores, token_type=types)


def _fields(data):
    """(number, value) of a message's fields: an int, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        number, wire = divmod(varint(), 8)
        if wire == 0:
            yield number, varint()
            continue
        length = varint() if wire == 2 else {1: 8, 5: 4}[wire]
        yield number, data[at : at + length]
        at += length


def _tekken(content, helpers):
    """Metadata out of Mistral's own format: byte strings by rank; a pair merges into the string of the
    lowest rank. GGUF lists for each string the pair that its own encoding ends with."""
    size = content["config"]["default_vocab_size"]
    special = content["config"]["default_num_special_tokens"]
    ranks = {
        base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in content["vocab"][: size - special]
    }
    spell = {byte: character for character, byte in helpers.BYTE_OF_CHARACTER.items()}
    merges = []
    for token in ranks:
        if len(token) > 1:
            parts = _last_pair(token, ranks)
            merges.append(" ".join("".join(spell[byte] for byte in part) for part in parts).encode())
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"]
    names += [f"<SPECIAL_{place}>" for place in range(len(names), special)]
    texts = ["".join(spell[byte] for byte in token) for token in ranks]
    return _metadata(
        helpers,
        model="gpt2",
        pre="tekken",
        tokens=[text.encode() for text in [*names, *texts]],
        token_type=[helpers.CONTROL] * special + [helpers.NORMAL] * len(texts),
        merges=merges,
    )


def _last_pair(token, ranks):
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        joined = [ranks.get(left + right, len(ranks)) for left, right in pairwise(parts)]
        best = min(range(len(joined)), key=joined.__getitem__)
        parts[best : best + 2] = [parts[best] + parts[best + 1]]
    return parts


def _metadata(helpers, **values):
    values |= {"bos_token_id": 1, "eos_token_id": 2}
    return helpers.DictMetadata({f"tokenizer.ggml.{key}": value for key, value in values.items()})
