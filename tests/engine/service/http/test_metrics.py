"""Counters for Prometheus, and the OpenAPI document."""

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from engine.generation.disk_tier import DiskMetrics
from engine.generation.metrics import EngineMetrics
from engine.service.http.app import build_app
from engine.service.http.metrics import Metrics
from engine.types import TextDelta

HOLE = {"input_prefix": "a", "input_suffix": "b"}


@pytest.fixture
def metric(server):
    client = server.client()

    async def metric(name, **labels):
        text = (await client.get("/metrics")).text
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return None

    return metric


async def test_what_is_counted(server, metric):
    client = server.client()
    await client.post("/infill", json=HOLE)
    await client.post("/infill", json=HOLE)
    await client.post("/infill", json={})
    await client.get("/nothing")
    await client.get("/v1/models/tiny")
    await client.get("/health", headers={"origin": "http://x"})
    assert await metric("hearth_http_requests_total", route="/infill", status="200") == 2
    assert await metric("hearth_http_requests_total", route="/infill", status="400") == 1
    assert await metric("hearth_http_requests_total", route="none", status="404") == 1
    assert await metric("hearth_http_requests_total", route="none", status="403") == 1
    assert await metric("hearth_http_requests_total", route="/v1/models/{id:path}", status="200") == 1
    assert await metric("hearth_prompt_tokens_total") == 20
    assert await metric("hearth_cached_tokens_total") == 8
    assert await metric("hearth_generated_tokens_total") == 6
    assert await metric("hearth_queue_seconds_count") == 2
    assert await metric("hearth_time_to_first_token_seconds_count", kind="infill") == 2
    assert await metric("hearth_inter_token_seconds_count", kind="infill") == 2
    assert await metric("hearth_streams_running", kind="infill") == 0
    assert await metric("hearth_streams_cancelled_total", kind="infill") in (None, 0)


async def test_what_runs_and_what_was_cut_short(server, metric, engine):
    engine.texts = [TextDelta("a"), asyncio.Event()]
    async with server.client().stream("POST", "/infill", json={**HOLE, "stream": True}) as response:
        async for _ in response.aiter_bytes():
            assert await metric("hearth_streams_running", kind="infill") == 1
            break
    await engine.closed.wait()
    assert await metric("hearth_streams_running", kind="infill") == 0
    assert await metric("hearth_streams_cancelled_total", kind="infill") == 1


async def test_the_engines_own_counts_are_shown_as_they_are_now(engine, serve):
    now = EngineMetrics(
        running=2,
        waiting={"chat": 3},
        kv_tokens=100,
        kv_free_tokens=40,
        evictions=5,
        preemptions=6,
        refused=7,
        expired=8,
        disk=DiskMetrics("read-only", "full", bytes=9, reads=10, write_failures=1, dropped=11),
    )
    told = None

    async def samples(client):
        text = (await client.get("/metrics")).text
        families = text_string_to_metric_families(text)
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }

    async with serve(build_app(engine, token=None, counters=Metrics(lambda: told))) as served:
        client = served.client()
        assert not any("disk" in name for name, *_ in await samples(client))
        told = now
        assert (await samples(client)).items() >= {
            ("hearth_engine_running",): 2,
            ("hearth_engine_waiting", "chat"): 3,
            ("hearth_kv_tokens",): 100,
            ("hearth_kv_free_tokens",): 40,
            ("hearth_evictions_total",): 5,
            ("hearth_preemptions_total",): 6,
            ("hearth_refused_total",): 7,
            ("hearth_expired_total",): 8,
            ("hearth_disk_cache_state", "ready"): 0,
            ("hearth_disk_cache_state", "read-only"): 1,
            ("hearth_disk_cache_bytes",): 9,
            ("hearth_disk_cache_chunks_total", "read"): 10,
            ("hearth_disk_cache_chunks_total", "write-failed"): 1,
            ("hearth_disk_cache_chunks_total", "dropped"): 11,
        }.items()


async def test_the_document_describes_every_route(server):
    document = (await server.client().get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    assert {
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/messages",
        "/infill",
        "/hearth/v1/chat",
        "/v1/models/{id}",
        "/health",
    } <= set(document["paths"])
    body = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    schemas = document["components"]["schemas"]
    chat = schemas[body["$ref"].rpartition("/")[2]]
    assert {"messages", "tools", "response_format"} <= set(chat["properties"])
    assert chat["additionalProperties"] is False


async def test_every_reference_of_the_document_is_there(server):
    document = (await server.client().get("/openapi.json")).json()
    missing = []

    def walk(node):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            if (
                key == "$ref"
                and isinstance(value, str)
                and value.rpartition("/")[2] not in document["components"]["schemas"]
            ):
                missing.append(value)
            if isinstance(value, (dict, list)):
                walk(value)

    walk(document)
    assert not missing
