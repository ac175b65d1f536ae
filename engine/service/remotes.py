"""The remotes as people and Prometheus see them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from engine.backends.openai.circuit import Health
from engine.backends.openai.remote import Remote


@dataclass(slots=True)
class RemoteCounts:
    """Requests since the start.

    failed: ended with an error. fallbacks: answered by the model of this machine instead.
    """

    requests: int = 0
    running: int = 0
    failed: int = 0
    fallbacks: int = 0


@dataclass(slots=True)
class RemoteState:
    """What is known of one remote, for `hearth status` and `hearth doctor`.

    health: as in `circuit.Health`. reasons: of each server that does not serve, by its URL.
    models: the names that requests use, and the remote's. problems: of models that cannot be used.
    """

    name: str
    server: str
    health: str
    urls: list[str]
    reasons: dict[str, str]
    models: dict[str, str]
    problems: dict[str, str]
    fallback: str | None
    counts: RemoteCounts = field(default_factory=RemoteCounts)


def state_of(remote: Remote, counts: RemoteCounts | None = None) -> RemoteState:
    """As of now; asks nothing. Neither keys nor text are part of it."""
    settings = remote.settings
    problems = {model: problem for model in settings.models if (problem := remote.problem(model))}
    return RemoteState(
        settings.name,
        settings.server.value,
        remote.connection.health.value,
        list(settings.url),
        remote.connection.reasons,
        {local: model.name for local, model in settings.models.items()},
        problems,
        settings.fallback,
        counts or RemoteCounts(),
    )


class RemoteCollector(Collector):
    """For Prometheus: health and counts of each remote."""

    def __init__(self, remotes: Sequence[tuple[Remote, RemoteCounts]]) -> None:
        self._remotes = remotes

    def collect(self) -> Iterable[Metric]:
        up = GaugeMetricFamily(
            "hearth_remote_up", "1 when the remote answered last, else 0", labels=["remote"]
        )
        running = GaugeMetricFamily(
            "hearth_remote_running", "Requests that a remote answers now", labels=["remote"]
        )
        counters = {
            "requests": CounterMetricFamily(
                "hearth_remote_requests", "Requests for a remote's model", labels=["remote"]
            ),
            "failed": CounterMetricFamily(
                "hearth_remote_failed", "Those that ended with an error", labels=["remote"]
            ),
            "fallbacks": CounterMetricFamily(
                "hearth_remote_fallbacks", "Those that this machine answered instead", labels=["remote"]
            ),
        }
        for remote, counts in self._remotes:
            up.add_metric([remote.name], float(remote.connection.health is Health.UP))
            running.add_metric([remote.name], counts.running)
            for name, value in asdict(counts).items():
                if name in counters:
                    counters[name].add_metric([remote.name], value)
        return [up, running, *counters.values()]
