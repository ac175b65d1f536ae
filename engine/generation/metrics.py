"""What the engine can say about itself at any moment, for a status page or a monitor."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.generation.disk_tier import DiskMetrics


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """A snapshot after the latest step; counts are since the start.

    running: live requests that hold KV pages. waiting: live ones that do not, by priority's name.
    kv_tokens, kv_free_tokens: the page pool, in tokens of whole pages.
    cache_entries: leaves of the prefix tree.
    lookups, hits: requests that started, and those that found a prefix of theirs in memory.
    memory_tokens, disk_tokens: prompt tokens that were there, and so not computed.
    prefilled_tokens, generated_tokens: tokens computed as prompt, and tokens drawn.
    evictions: pieces of cached sequences given up for want of pages.
    preemptions: live requests that lost their pages to more urgent ones, and went on later.
    refused: requests that found the queue full. expired: those that met their deadline.
    """

    running: int = 0
    waiting: dict[str, int] = field(default_factory=dict)
    kv_tokens: int = 0
    kv_free_tokens: int = 0
    cache_entries: int = 0
    lookups: int = 0
    hits: int = 0
    memory_tokens: int = 0
    disk_tokens: int = 0
    prefilled_tokens: int = 0
    generated_tokens: int = 0
    evictions: int = 0
    preemptions: int = 0
    refused: int = 0
    expired: int = 0
    disk: DiskMetrics = field(default_factory=DiskMetrics)
