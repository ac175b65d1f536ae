"""The engine's own counts, as they are when Prometheus asks; they begin anew with each load of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.generation.metrics import EngineMetrics

_DISK_STATES = ("opening", "ready", "read-only", "off")


class EngineCollector(Collector):
    """read: gives a snapshot; None while no model is in memory, and then nothing is shown."""

    def __init__(self, registry: CollectorRegistry, read: Callable[[], EngineMetrics | None]) -> None:
        self._read = read
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        engine = self._read()
        if engine is None:
            return
        yield GaugeMetricFamily("hearth_engine_running", "Requests that hold KV pages", engine.running)
        waiting = GaugeMetricFamily("hearth_engine_waiting", "Requests that hold none", labels=("priority",))
        for priority, count in engine.waiting.items():
            waiting.add_metric((priority,), count)
        yield waiting
        yield GaugeMetricFamily("hearth_kv_tokens", "Capacity of the KV pool", engine.kv_tokens)
        yield GaugeMetricFamily("hearth_kv_free_tokens", "Of those, free ones", engine.kv_free_tokens)
        for name, words, value in (
            ("hearth_preemptions", "Requests that lost their KV to more urgent ones", engine.preemptions),
            ("hearth_evictions", "Pieces of cached sequences given up", engine.evictions),
            ("hearth_refused", "Requests that found the queue full", engine.refused),
            ("hearth_expired", "Requests that met their deadline", engine.expired),
        ):
            yield CounterMetricFamily(name, words, value)
        yield from _disk(engine)


def _disk(engine: EngineMetrics) -> Iterator[Metric]:
    disk = engine.disk
    state = GaugeMetricFamily("hearth_disk_cache_state", "1 for the state that it is in", labels=("state",))
    for name in _DISK_STATES:
        state.add_metric((name,), name == disk.state)
    yield state
    yield GaugeMetricFamily("hearth_disk_cache_bytes", "Size of the KV cache on the disk", disk.bytes)
    chunks = CounterMetricFamily("hearth_disk_cache_chunks", "Chunks of KV pages", labels=("outcome",))
    for outcome, count in (
        ("read", disk.reads),
        ("read-failed", disk.read_failures),
        ("written", disk.writes),
        ("write-failed", disk.write_failures),
        ("dropped", disk.dropped),
    ):
        chunks.add_metric((outcome,), count)
    yield chunks
