"""native/runtime/thread_pool.h under ThreadSanitizer and AddressSanitizer."""

import os
import platform
import subprocess

import pytest

SOURCES = ["tests/native/runtime/thread_pool_driver.cpp", "native/runtime/thread_pool.cpp"]
CHECKS = [
    "each_item_once",
    "worker_numbers",
    "many_small_regions",
    "one_item_throws",
    "all_items_throw",
    "memory_runs_out",
    "nesting",
    "ending",
]


@pytest.fixture(scope="module", params=["thread", "address,undefined"])
def driver(request, compile_cpp, tmp_path_factory):
    probe = tmp_path_factory.mktemp("probe") / "probe"
    compiler = [os.environ.get("CXX", "c++"), f"-fsanitize={request.param}", "-x", "c++", "-", "-o", probe]
    if subprocess.run(compiler, input=b"int main() {}", capture_output=True, check=False).returncode != 0:
        pytest.skip(f"the compiler cannot build with -fsanitize={request.param}")
    program = compile_cpp(
        SOURCES, "-O1", "-g1", f"-fsanitize={request.param}", "-fno-sanitize-recover=all", "-pthread"
    )
    # ThreadSanitizer of older compilers cannot place its memory where the system spreads addresses far.
    return ["setarch", platform.machine(), "-R", program]


@pytest.mark.parametrize("threads", range(1, 9))
@pytest.mark.parametrize("check", CHECKS)
def test_thread_pool(driver, check, threads):
    done = subprocess.run(
        [*driver, check, str(threads)], env={}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", ["0", "-1", "1025", "2147483647", "-2147483648"])
def test_numbers_of_threads_that_no_machine_has_are_refused(driver, threads):
    done = subprocess.run(
        [*driver, "ending", threads], env={}, capture_output=True, text=True, timeout=120, check=False
    )
    assert "a thread pool takes 1 to 1024 threads" in done.stderr
