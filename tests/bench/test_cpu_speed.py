"""The bench's own arithmetic, with a measuring process whose numbers are known."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import ClassVar

import pytest

from bench import cpu_speed


class FakeWorker:
    """Gives one warm-up and then three rounds; ours is twice as fast in each."""

    order: ClassVar[list[str]] = []

    def __init__(self, engine: str, model: Path, args: argparse.Namespace) -> None:
        self._engine = engine
        self._speeds = iter([1000.0, 10.0, 40.0, 20.0])
        self.loaded = {"load_s": 1.0, "kernels": "any"}

    def measure(self) -> dict[str, float]:
        self.order.append(self._engine)
        speed = next(self._speeds) * (2 if self._engine == "hearth" else 1)
        return {"prefill_tps": speed, "decode_tps": speed / 10, "rss_mib": 100.0, "rss_peak_mib": 120.0}

    def close(self) -> None:
        pass


def test_compares_medians_of_alternating_rounds_without_the_warm_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cpu_speed, "Worker", FakeWorker)
    args = argparse.Namespace(rounds=3, threads=2, prompt=512, decode=64)
    result = cpu_speed.compare(Path("m.gguf"), args)
    assert FakeWorker.order == ["hearth", "llama.cpp"] * 4
    assert result["llama.cpp"]["prefill_tps"] == 20.0
    assert result["hearth"]["decode_tps"] == 4.0
    assert result["ratio"] == {"prefill_tps": 2.0, "decode_tps": 2.0, "rss_mib": 1.0, "load_s": 1.0}
    cpu_speed.show([result], args)
    assert "2.00x" in capsys.readouterr().out
