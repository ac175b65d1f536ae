"""pygls' own client, an independent reader of what we send."""

import os
import sys
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

ROOT = Path(__file__).parents[3]
URI = "file:///w/a.py"


async def test_a_session_with_typed_messages(tmp_path):
    client = LanguageClient("test", "1")
    await client.start_io(
        sys.executable,
        str(Path(__file__).parent / "fake_server.py"),
        str(tmp_path),
        "info",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    result = await client.initialize_async(
        lsp.InitializeParams(
            capabilities=lsp.ClientCapabilities(
                general=lsp.GeneralClientCapabilities(position_encodings=[lsp.PositionEncodingKind.Utf8])
            ),
            process_id=os.getpid(),
        )
    )
    assert result.capabilities.position_encoding == "utf-8"
    client.initialized(lsp.InitializedParams())
    client.text_document_did_open(
        lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(URI, "python", 1, "s = 'é' + "))
    )
    # Invoked: waits for the model if it still loads.
    completions = await client.text_document_inline_completion_async(
        lsp.InlineCompletionParams(
            context=lsp.InlineCompletionContext(lsp.InlineCompletionTriggerKind.Invoked),
            text_document=lsp.TextDocumentIdentifier(URI),
            position=lsp.Position(0, 11),
        )
    )
    items = completions.items
    assert items[0].insert_text == "ghost"
    assert items[0].range == lsp.Range(lsp.Position(0, 11), lsp.Position(0, 11))
    assert await client.workspace_execute_command_async(
        lsp.ExecuteCommandParams(items[0].command.command, items[0].command.arguments)
    ) is None  # fmt: skip
    explained = await client.workspace_execute_command_async(
        lsp.ExecuteCommandParams("hearth.explain", [URI])
    )
    assert explained["data"]["outcome"] == "shown"
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
