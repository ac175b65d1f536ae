"""The bench of the service's overhead runs: its engine is all that the daemon asks of one."""

from bench import service_overhead


async def test_it_measures_with_and_without_the_service(monkeypatch):
    for name, few in (("REQUESTS", 2), ("LONG_REQUESTS", 1), ("PIECES", 5), ("WARM_UPS", 1)):
        monkeypatch.setattr(service_overhead, name, few)
    result = await service_overhead.measure()
    assert set(result) == {"direct", "served"}
    assert result["served"]["request_ms"] > 0
