"""Free memory as the system and a control group tell it."""

import pytest

from engine.backends import native
from engine.backends.memory import available_bytes
from engine.errors import EngineUnavailable

GIB = 1 << 30


@pytest.fixture
def system(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n")
    group = tmp_path / "cgroup"
    group.mkdir()

    def limit(maximum, used=0, file=0):
        (group / "memory.max").write_text(f"{maximum}\n")
        (group / "memory.current").write_text(f"{used}\n")
        (group / "memory.stat").write_text(f"anon 5\ninactive_file {file}\n")

    return meminfo, group, limit


def test_without_a_limit_the_system_decides(system):
    meminfo, group, limit = system
    assert available_bytes(meminfo, group) == 8 * GIB
    limit("max")
    assert available_bytes(meminfo, group) == 8 * GIB


def test_a_group_limit_counts_what_it_uses_but_not_its_file_cache(system):
    meminfo, group, limit = system
    limit(4 * GIB, used=3 * GIB, file=GIB)
    assert available_bytes(meminfo, group) == 2 * GIB
    limit(GIB, used=2 * GIB)
    assert available_bytes(meminfo, group) == 0


def test_systems_that_do_not_tell(tmp_path):
    assert available_bytes(tmp_path / "none", tmp_path / "none") is None
    (tmp_path / "meminfo").write_text("MemTotal: 5 kB\n")
    assert available_bytes(tmp_path / "meminfo", tmp_path / "none") is None


def test_a_model_that_does_not_fit_is_refused_before_it_is_read(tiny_model, monkeypatch):
    path = tiny_model("qwen2")
    monkeypatch.setattr(native, "available_bytes", lambda: path.stat().st_size - 1)
    with pytest.raises(EngineUnavailable, match=r"not enough free memory for .*GB are free"):
        native.NativeBackend(native.open_gguf(path))
    monkeypatch.setattr(native, "available_bytes", lambda: None)
    native.NativeBackend(native.open_gguf(path)).close()
