"""Whatever the bytes: the parser answers, within its memory. It runs under the address sanitizer."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# Beside a multiple of the file's size, what a GgufFile and its messages may take.
SPARE_BYTES = 64 * 1024


def check(outcome, content):
    assert outcome.kind in ("ok", "error")
    assert outcome.peak <= 32 * len(content) + SPARE_BYTES


def test_every_truncation_is_refused(parser, builder):
    content = builder.rich_file().encode()
    padding = 64 - 34  # the last tensor is 34 bytes, the data section's end is padded
    for length in range(len(content) - padding):
        outcome = parser.parse(content[:length])
        assert outcome.kind == "error", length
        check(outcome, content)
    assert parser.parse(content[: len(content) - padding]).kind == "ok"


def test_every_flipped_bit_of_the_header(parser, builder):
    content = builder.rich_file().encode()
    for position in range(len(content) - 384):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[position] ^= 1 << bit
            check(parser.parse(bytes(flipped)), content)


EXTREMES = [0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**61, 2**63 - 1, 2**63, 2**64 - 32, 2**64 - 1]


def test_extreme_numbers_at_every_place(parser, builder):
    content = builder.rich_file().encode()
    for position in range(4, len(content) - 384 - 8):
        for number in EXTREMES:
            changed = content[:position] + struct.pack("<Q", number) + content[position + 8 :]
            check(parser.parse(changed), content)


@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_damaged_files(parser, builder, data):
    content = bytearray(builder.rich_file().encode())
    place = st.integers(0, len(content) - 1)
    for position, byte in data.draw(st.lists(st.tuples(place, st.integers(0, 255)), max_size=6)):
        content[position] = byte
    start, length = data.draw(place), data.draw(st.integers(0, 40))
    if data.draw(st.booleans()):
        del content[start : start + length]
    else:
        content[start:start] = data.draw(st.binary(max_size=40))
    check(parser.parse(bytes(content)), content)


uint64 = st.one_of(st.sampled_from(EXTREMES), st.integers(0, 64), st.integers(0, 2**64 - 1))
uint32 = st.one_of(st.integers(0, 16), st.integers(0, 2**32 - 1))


@given(
    counts=st.tuples(uint64, uint64),
    key=st.sampled_from([b"general.alignment", b"split.count", b"k"]),
    kind=uint32,
    element=uint32,
    length=uint64,
    payload=st.binary(max_size=80),
    dims=st.lists(uint64, max_size=5),
    n_dims=uint32,
    type=uint32,
    offset=uint64,
    honest=st.sets(st.sampled_from(["counts", "value", "dims"])),
)
@settings(max_examples=400, deadline=None)
def test_hostile_headers(
    parser, builder, counts, key, kind, element, length, payload, dims, n_dims, type, offset, honest
):
    value = struct.pack("<IIQ", kind, element, length) + payload
    tensor = builder.TensorInfo(b"t", tuple(dims), type, offset, n_dims)
    if "value" in honest:
        value = builder.scalar(builder.U32, 32)
    if "dims" in honest:
        tensor.n_dims = None
    file = builder.GgufFile([(key, value)], [tensor], data=bytes(256))
    if "counts" not in honest:
        file.n_tensors, file.n_entries = counts
    content = file.encode()
    check(parser.parse(content), content)


@given(content=st.binary(max_size=400), magic=st.booleans())
@settings(max_examples=200, deadline=None)
def test_noise(parser, content, magic):
    content = b"GGUF\x03\0\0\0" + content if magic else content
    check(parser.parse(content), content)


@pytest.mark.parametrize("count", [1, 1000, 200_000])
def test_memory_grows_with_the_file_only(parser, builder, count):
    entry = builder.GgufFile([(b"%d" % i, builder.array(builder.U8, [])) for i in range(count // 10)])
    array = builder.GgufFile([(b"k", builder.array(builder.STRING, [b""] * count))])
    tensors = builder.GgufFile(tensors=[builder.TensorInfo(b"%d" % i, (1,)) for i in range(count // 10)])
    for file in (entry, array, tensors):
        content = file.encode()
        check(parser.parse(content), content)
