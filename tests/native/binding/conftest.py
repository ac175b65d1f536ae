"""Files with a header and nothing else, to be refused for it."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import gguf
import pytest

SOUND = {
    "block_count": 1,
    "context_length": 128,
    "embedding_length": 64,
    "feed_forward_length": 64,
    "attention.head_count": 2,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "rope.scaling.type": "yarn",
}


@pytest.fixture(scope="session")
def builder(load_helper) -> ModuleType:
    """gguf_builder.py"""
    return load_helper(Path(__file__).parents[1] / "gguf" / "gguf_builder.py")


@pytest.fixture
def hyperparameters_only(tmp_path) -> Callable[[dict[str, object]], Path]:
    """hyperparameters_only(changes): a qwen2 file with these in place of sound ones, and no tensors."""

    def write(changes: dict[str, object]) -> Path:
        path = tmp_path / "header.gguf"
        writer = gguf.GGUFWriter(path, "qwen2")
        for key, value in (SOUND | changes).items():
            kind = gguf.GGUFValueType.get_type(value)
            kind = gguf.GGUFValueType.UINT64 if isinstance(value, int) else kind
            writer.add_key_value(f"qwen2.{key}", value, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write
