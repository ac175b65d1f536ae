"""What native/gguf accepts, and what it says when it refuses."""

import os

import pytest

HUGE = 2**63
MAX = 2**64 - 1


def test_a_good_file_is_read(parser, builder):
    outcome = parser.parse(builder.rich_file().encode())
    assert (outcome.kind, outcome.message) == ("ok", "")


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_are_read(parser, builder, version):
    assert parser.parse(builder.GgufFile(version=version).encode()).kind == "ok"


@pytest.mark.parametrize("alignment", [8, 32, 4096])
def test_alignments_are_obeyed(parser, builder, alignment):
    entry = (b"general.alignment", builder.scalar(builder.U32, alignment))
    tensors = [builder.TensorInfo(b"a"), builder.TensorInfo(b"b", offset=max(alignment, 32))]
    file = builder.GgufFile([entry], tensors, data=bytes(max(alignment, 32) + 32), alignment=alignment)
    assert parser.parse(file.encode()).kind == "ok"
    shorter = parser.parse(file.encode()[:-1])
    assert shorter.kind == "error"
    assert "truncated or corrupt" in shorter.message


def test_a_file_without_tensors_is_read(parser, builder):
    assert parser.parse(builder.GgufFile(tensors=[], data=b"").encode()).kind == "ok"


@pytest.mark.parametrize(
    ("arch", "type"), [("llama", "mixed"), ("qwen2", "F32"), ("qwen3", "Q6_K"), ("qwen2", "BF16")]
)
def test_models_are_read_through_the_mapping(parser, tiny_model, arch, type):
    assert parser.open(tiny_model(arch, type)).kind == "ok"


def entry(b, value, key=b"k"):
    return b.GgufFile([(key, value)])


def tensor(b, **fields):
    return b.GgufFile(tensors=[b.TensorInfo(**fields)])


REFUSED = {
    "not a GGUF": (lambda b: b.GgufFile(magic=b"GGML"), "does not begin with 'GGUF'"),
    "version 1": (lambda b: b.GgufFile(version=1), "version is 1; versions 2 and 3"),
    "version 0": (lambda b: b.GgufFile(version=0), "version is 0"),
    "big-endian": (lambda b: b.GgufFile(version=3 << 24), "big-endian"),
    "2^63 tensors": (
        lambda b: b.GgufFile(n_tensors=HUGE),
        f"number of tensors is {HUGE}, more than the limit",
    ),
    "more tensors than bytes": (lambda b: b.GgufFile(n_tensors=1000), "tensors is 1000, but the rest"),
    "2^64 - 1 entries": (lambda b: b.GgufFile(n_entries=MAX), f"metadata entries is {MAX}, more than"),
    "more entries than bytes": (lambda b: b.GgufFile(n_entries=1000), "entries is 1000, but the rest"),
    "duplicate key": (lambda b: b.GgufFile([(b"k", b.scalar(b.U8, 1))] * 2), "'k' occurs twice"),
    "long key": (lambda b: entry(b, b.scalar(b.U8, 1), b"k" * 65536), "more than the limit of 65535"),
    "key past the end": (
        lambda b: b.GgufFile(tensors=[], n_entries=1, data=b"\xff\xff" + bytes(22), alignment=8),
        "key 0 is 65535, but only",
    ),
    "unknown value type": (lambda b: entry(b, b"\x0d\0\0\0" + bytes(8)), "'k' has the unknown type 13"),
    "bool of 2": (lambda b: entry(b, b.scalar(b.BOOL, 2)), "'k' is 2, but a bool is 0 or 1"),
    "string past the end": (
        lambda b: entry(b, b"\x08\0\0\0" + b.string(b"", HUGE)),
        f"'k' is {HUGE}, but only",
    ),
    "string of 2^64 - 1": (lambda b: entry(b, b"\x08\0\0\0" + b.string(b"", MAX)), f"'k' is {MAX}, but only"),
    "array of arrays": (lambda b: entry(b, b.array(b.ARRAY, [])), "'k' is an array of arrays"),
    "array of nothing known": (lambda b: entry(b, b.array(99, [])), "'k' has the unknown element type 99"),
    "array of 2^63": (
        lambda b: entry(b, b.array(b.U8, [], HUGE)),
        f"length of metadata 'k' is {HUGE}, more than",
    ),
    "array of overflowing bytes": (
        lambda b: entry(b, b.array(b.U64, [], 2**61)),
        f"length of metadata 'k' is {2**61}, more",
    ),
    "array past the end": (
        lambda b: entry(b, b.array(b.U64, [1], 100)),
        "length of metadata 'k' is 100, but the rest",
    ),
    "strings past the end": (
        lambda b: entry(b, b.array(b.STRING, [b"x"], 2) + b"\xff" * 8),
        f"'k' is {MAX}, but only",
    ),
    "array integer of 2^63": (
        lambda b: entry(b, b.array(b.U64, [HUGE])),
        f"'k' holds {HUGE}, more than 2^63 - 1",
    ),
    "alignment 0": (
        lambda b: entry(b, b.scalar(b.U32, 0), b"general.alignment"),
        "is 0; it must be a power of",
    ),
    "alignment 4": (
        lambda b: entry(b, b.scalar(b.U32, 4), b"general.alignment"),
        "is 4; it must be a power of",
    ),
    "alignment 48": (
        lambda b: entry(b, b.scalar(b.U32, 48), b"general.alignment"),
        "is 48; it must be a power",
    ),
    "alignment 2^63": (
        lambda b: entry(b, b.scalar(b.U64, HUGE), b"general.alignment"),
        f"is {HUGE}; it must",
    ),
    "alignment -32": (
        lambda b: entry(b, b.scalar(b.I64, -32), b"general.alignment"),
        "not an unsigned integer",
    ),
    "alignment past the end": (
        lambda b: entry(b, b.scalar(b.U32, 2**31), b"general.alignment"),
        "does not fit in the 0 bytes after the header",
    ),
    "split": (lambda b: entry(b, b.scalar(2, 3), b"split.count"), "one of 3 parts of a split GGUF"),
    "duplicate tensor": (lambda b: b.GgufFile(tensors=[b.TensorInfo()] * 2), "tensor 't' occurs twice"),
    "long tensor name": (lambda b: tensor(b, name=b"n" * 65), "is 65, more than the limit of 64"),
    "tensor name past the end": (
        lambda b: b.GgufFile(tensors=[b.TensorInfo(b"", name_length=64)], data=b""),
        "tensor 0 is 64, but only",
    ),
    "no dimensions": (lambda b: tensor(b, dims=()), "'t' has 0 dimensions; 1 to 4"),
    "five dimensions": (lambda b: tensor(b, dims=(1,) * 5), "'t' has 5 dimensions; 1 to 4"),
    "2^32 - 1 dimensions": (lambda b: tensor(b, n_dims=2**32 - 1), "has 4294967295 dimensions"),
    "dimension 0": (lambda b: tensor(b, dims=(8, 0)), "dimension 1 of tensor 't' is 0"),
    "dimension -1": (lambda b: tensor(b, dims=(MAX,)), f"dimension 0 of tensor 't' is {MAX}"),
    "dimension 2^63": (lambda b: tensor(b, dims=(HUGE,)), "more than 2^63 - 1 values"),
    "overflowing product": (lambda b: tensor(b, dims=(2**32, 2**32)), "more than 2^63 - 1 values"),
    "product that wraps to 1": (lambda b: tensor(b, dims=(2**16, 2**16, 2**16, 2**16)), "more than 2^63 - 1"),
    "overflowing bytes": (lambda b: tensor(b, dims=(2**62,)), "more than the whole file can hold"),
    "unknown tensor type": (
        lambda b: tensor(b, type=4),
        "tensor 't' has type number 4, which is not supported",
    ),
    "ragged blocks": (lambda b: tensor(b, type=8, dims=(33,)), "rows of 33 values, but type Q8_0 needs"),
    "unaligned offset": (
        lambda b: tensor(b, offset=1),
        "offset of tensor 't' is 1, which is not a multiple of the alignment 32",
    ),
    "offset past the end": (lambda b: tensor(b, offset=32), "32 bytes at offset 32, does not fit"),
    "overflowing offset": (lambda b: tensor(b, offset=2**64 - 32), f"offset {2**64 - 32}, does not fit"),
    "overlap": (
        lambda b: b.GgufFile(
            tensors=[b.TensorInfo(b"a", (16,)), b.TensorInfo(b"b", offset=32)], data=bytes(64)
        ),
        "tensors 'a' and 'b' overlap",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_words(parser, builder, name):
    make, words = REFUSED[name]
    outcome = parser.parse(make(builder).encode())
    assert outcome.kind == "error"
    assert words in outcome.message
    assert outcome.peak < 2**20


def test_messages_name_the_place(parser, builder):
    content = builder.GgufFile(n_tensors=1000).encode()
    assert f"(at byte 8 of {len(content)})" in parser.parse(content).message


def test_messages_print_names_safely(parser, builder):
    message = parser.parse(
        entry(builder, builder.scalar(builder.BOOL, 2), b"\x1b[2J\n\xc3\xa9").encode()
    ).message
    assert "'?[2J???'" in message


def test_files_that_cannot_be_opened(parser, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, words in (
        (tmp_path / "missing.gguf", "No such file"),
        (tmp_path, "Is a directory"),
        (pipe, "Invalid argument"),
    ):
        outcome = parser.open(path)
        assert outcome.kind == "system"
        assert words in outcome.message
        assert str(path) in outcome.message


def test_an_empty_file(parser, tmp_path):
    path = tmp_path / "empty.gguf"
    path.touch()
    outcome = parser.open(path)
    assert outcome.kind == "error"
    assert str(path) in outcome.message
    assert "truncated" in outcome.message


def test_nothing_is_allocated_for_what_a_large_file_only_claims(parser, builder, tmp_path):
    # The counts fit in the file's (sparse) gigabytes, so that only the limits of the header can refuse them.
    for name, file, words in (
        ("tensors", builder.GgufFile(n_tensors=2**24), "more than the limit"),
        ("entries", builder.GgufFile(n_entries=2**24), "more than the limit"),
        ("array", entry(builder, builder.array(builder.U8, [], 2**30)), "more than the limit"),
    ):
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(file.encode())
        os.truncate(path, 2**32)
        outcome = parser.open(path)
        assert outcome.kind == "error"
        assert words in outcome.message
        assert outcome.peak < 2**20
