import os

import pytest

from engine.backends.cpu import default_threads


@pytest.fixture
def cpus(tmp_path, monkeypatch):
    """A machine with four processors on two cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    return tmp_path


def test_one_thread_for_each_core(cpus):
    assert default_threads(cpus, cpus / "none") == min(2, os.cpu_count())


def test_only_processors_that_the_process_may_use_count(cpus, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2}, raising=False)
    assert default_threads(cpus, cpus / "none") == 1


@pytest.mark.parametrize(
    ("quota", "threads"), [("100000 100000", 1), ("50000 100000", 1), ("900000 100000", 2)]
)
def test_a_quota_limits_threads(cpus, quota, threads):
    (cpus / "cpu.max").write_text(quota)
    assert default_threads(cpus, cpus / "cpu.max") == threads


@pytest.mark.parametrize("quota", ["max 100000", "", "damaged file", "1 0"])
def test_a_missing_or_odd_quota_is_none(cpus, monkeypatch, quota):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    (cpus / "cpu.max").write_text(quota)
    assert default_threads(cpus, cpus / "cpu.max") == 2


def test_without_topology_every_processor_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    assert default_threads(tmp_path, tmp_path) == 3
