"""native/quant/packed.h: what goes into the kernels' form comes out again."""

import subprocess

import numpy as np
import pytest

from engine.reference import quants

SOURCES = [
    "tests/native/quant/packed_driver.cpp",
    "native/gguf/source.cpp",
    "native/gguf/mapping.cpp",
    "native/gguf/type.cpp",
    "native/quant/dequant.cpp",
    "native/quant/packed.cpp",
    "native/quant/unpack.cpp",
    "native/runtime/thread_pool.cpp",
]
FLAGS = ["-O1", "-g1", "-ffp-contract=off", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="module")
def driver(compile_cpp):
    return compile_cpp(SOURCES, *FLAGS, "-pthread")


def quiet(data, name):
    """The same bytes without signalling NaNs, whose bits a conversion may change."""
    return data & 0x7B if name in {"F32", "F16", "BF16"} else data


@pytest.mark.parametrize("rows", [1, 16, 300])
@pytest.mark.parametrize("name", quants.TYPES)
def test_rows_of_any_bytes_come_back(driver, tmp_path, name, rows):
    tensor_type = quants.TYPES[name]
    columns = 512
    data = np.random.default_rng(rows).integers(0, 256, (rows, tensor_type.row_bytes(columns)), np.uint8)
    path = tmp_path / "matrix"
    path.write_bytes(quiet(data, name).tobytes())
    done = subprocess.run(
        [driver, path, str(tensor_type.number), str(columns), str(rows)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
