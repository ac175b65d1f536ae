import asyncio

import pytest

from lsp_server.status import Status, StatusReporter


def reporter():
    sent = []
    return StatusReporter(sent.append), sent


def test_only_real_changes_are_sent():
    status, sent = reporter()
    status.document(Status())
    status.document(Status())
    status.document(Status(kind="Inactive", message="too large"))
    status.document(Status(kind="Inactive", message="too large"))
    assert [params["kind"] for params in sent] == ["Normal", "Inactive"]


async def test_busy_nests_and_ends_after_a_failure():
    status, sent = reporter()

    async def fail():
        with status.busy(), status.busy():
            await asyncio.sleep(0)
            raise ValueError

    with pytest.raises(ValueError):
        await fail()
    assert [params["busy"] for params in sent] == [True, False]


async def test_what_never_waits_shows_no_activity():
    status, sent = reporter()
    status.document(Status())
    with status.busy():
        pass
    await asyncio.sleep(0)
    assert [params["busy"] for params in sent] == [False]


def test_the_engine_hides_the_document_until_it_is_ready():
    status, sent = reporter()
    status.engine(Status(kind="Error", message="no model", command="hearth.status"))
    status.document(Status(kind="Inactive", message="excluded"))
    status.engine(None)
    assert [params["message"] for params in sent] == ["no model", "excluded"]
    assert sent[0]["command"]["command"] == "hearth.status"
    assert "command" not in sent[1]
