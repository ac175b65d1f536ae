"""A model for tests of the KV cache."""

from pathlib import Path

import pytest

from engine import _native

F16_NAN = b"\x00\x7e"


@pytest.fixture(scope="session")
def poisoned_model(tiny_model, tmp_path_factory) -> Path:
    """A small, quick model in which the embedding of the last token is not a number."""
    source = tiny_model("qwen2", "Q8_0", embd=64, ff=64, head_dim=32, heads=2, kv_heads=1)
    content = bytearray(source.read_bytes())
    table = next(info for info in _native.GgufFile(str(source)).tensors if info.name == "token_embd.weight")
    row_bytes = table.nbytes // table.shape[1]
    scale = table.offset + table.nbytes - row_bytes  # of the last row's first block
    content[scale : scale + 2] = F16_NAN
    path = tmp_path_factory.mktemp("kv") / "poisoned.gguf"
    path.write_bytes(content)
    return path
