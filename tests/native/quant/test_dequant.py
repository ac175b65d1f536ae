"""native/quant against engine/reference/quants.py and numpy, bit for bit."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from engine.reference import quants

SOURCES = ["tests/native/quant/quant_driver.cpp", "native/gguf/type.cpp", "native/quant/dequant.cpp"]
# Contraction would fuse d * q + m; the build forbids it, for the bits to be the reference's.
FLAGS = {
    "portable": ["-O2", "-ffp-contract=off"],
    "f16c": ["-O2", "-ffp-contract=off", "-mavx2", "-mfma", "-mf16c"],
}


@pytest.fixture(scope="session", params=FLAGS)
def driver(request, compile_cpp):
    """driver(arguments, array): what the program answers, as bytes."""
    if request.param == "f16c" and "f16c" not in Path("/proc/cpuinfo").read_text(encoding="ascii"):
        pytest.skip("this processor has no F16C instructions")
    program = compile_cpp(SOURCES, *FLAGS[request.param])

    def run(*arguments, data):
        done = subprocess.run(
            [program, *map(str, arguments)], input=data.tobytes(), capture_output=True, check=True
        )
        return done.stdout

    return run


def assert_same_floats(actual, expected):
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(actual), nan)
    np.testing.assert_array_equal(actual.view(np.uint32)[~nan], expected.view(np.uint32)[~nan])


@pytest.mark.parametrize("name", quants.TYPES)
def test_rows_of_any_bytes(driver, name):
    tensor_type = quants.TYPES[name]
    n = tensor_type.block_elems * 3
    data = np.random.default_rng(0).integers(0, 256, (200, tensor_type.row_bytes(n)), np.uint8)
    actual = np.frombuffer(driver(tensor_type.number, n, data=data), np.float32).reshape(200, n)
    assert_same_floats(actual, quants.dequantize(data, name))


@pytest.mark.parametrize("name", quants.TYPES)
def test_rows_of_quantised_values(driver, name):
    tensor_type = quants.TYPES[name]
    values = np.random.default_rng(1).standard_normal((50, tensor_type.block_elems * 2)).astype(np.float32)
    data = quants.quantize(values, name)
    actual = np.frombuffer(driver(tensor_type.number, values.shape[1], data=data), np.float32)
    assert_same_floats(actual.reshape(values.shape), quants.dequantize(data, name))


ALL_HALVES = np.arange(2**16, dtype=np.uint16)


def test_every_half_to_float(driver):
    assert_same_floats(
        np.frombuffer(driver("from-f16-portable", data=ALL_HALVES), np.float32),
        ALL_HALVES.view(np.float16).astype(np.float32),
    )


def floats_worth_rounding():
    """Every half's neighbourhood, ties included, in float; and floats of random bits."""
    with np.errstate(over="ignore"):
        exact = ALL_HALVES.view(np.float16).astype(np.float32).view(np.uint32)
    around = [exact + np.uint32(delta) for delta in (0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF)]
    small = np.linspace(0, 2**-23, 4097, dtype=np.float32).view(np.uint32)
    noise = np.random.default_rng(0).integers(0, 2**32, 200_000, np.uint32)
    return np.concatenate([*around, small, noise]).view(np.float32)


@pytest.mark.parametrize("what", ["f16", "f16-portable"])
def test_floats_to_half(driver, what):
    x = floats_worth_rounding()
    with np.errstate(over="ignore", under="ignore"):
        expected = x.astype(np.float16)
    actual = np.frombuffer(driver(what, data=x), np.uint16).view(np.float16)
    nan = np.isnan(x)
    assert np.isnan(actual[nan]).all()
    np.testing.assert_array_equal(actual[~nan].view(np.uint16), expected[~nan].view(np.uint16))


def test_floats_to_bfloat16(driver):
    x = floats_worth_rounding()
    actual = np.frombuffer(driver("bf16", data=x), np.uint16)
    expected = quants.quantize(x[:, None], "BF16")[:, :].reshape(-1).view(np.uint16)
    np.testing.assert_array_equal(actual, expected)
