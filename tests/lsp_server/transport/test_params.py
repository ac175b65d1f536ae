import pytest
from lsprotocol import types as lsp

from lsp_server.inline_completion.params import InlineCompletionParams
from lsp_server.requests.execute_command import ExecuteCommandParams
from lsp_server.transport.errors import InvalidParamsError
from lsp_server.transport.params import structure

GOOD = {
    "textDocument": {"uri": "file:///a.py"},
    "position": {"line": 0, "character": 4},
    "context": {"triggerKind": 2},
}
CHANGE = {"textDocument": {"uri": "file:///a.py", "version": 1}, "contentChanges": []}
ZERO = {"line": 0, "character": 0}


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"textDocument": None}, "params.textDocument"),
        ({"textDocument": {}}, "params.textDocument.uri"),
        ({"textDocument": {"uri": 1}}, "params.textDocument.uri"),
        ({"textDocument": {"uri": "a", "version": "1"}}, "params.textDocument.version"),
        ({"position": {"line": "0", "character": 0}}, "params.position.line"),
        ({"position": {"line": 0, "character": 1.5}}, "params.position.character"),
        ({"position": {"line": True, "character": 0}}, "params.position.line"),
        ({"position": {"line": -1, "character": 0}}, "Position.line"),
        ({"position": {"line": 0}}, "params.position.character"),
        ({"context": {"triggerKind": 7}}, "params.context.triggerKind"),
        ({"context": {}}, "params.context.triggerKind"),
        ({"formattingOptions": {"tabSize": "4"}}, "params.formattingOptions"),
    ],
)
def test_the_field_at_fault_is_named(changed, named):
    with pytest.raises(InvalidParamsError) as caught:
        structure({**GOOD, **changed}, InlineCompletionParams)
    assert named in caught.value.message


@pytest.mark.parametrize("raw", [None, [], "text", 3, [GOOD]])
def test_params_of_a_wrong_shape_are_refused(raw):
    with pytest.raises(InvalidParamsError):
        structure(raw, InlineCompletionParams)


def test_copilot_extras_are_kept_and_unknown_keys_ignored():
    params = structure(
        {
            **GOOD,
            "textDocument": {"uri": "file:///a.py", "version": 3},
            "formattingOptions": {"tabSize": 2, "insertSpaces": True, "other": 1},
            "more": {"x": 1},
        },
        InlineCompletionParams,
    )
    assert params.text_document.version == 3
    assert params.formatting_options is not None
    assert (params.formatting_options.tab_size, params.formatting_options.insert_spaces) == (2, True)


@pytest.mark.parametrize(
    "change", [{"text": 1}, {}, 3, {"range": {"start": ZERO}, "text": "a"}, {"range": 1, "text": "a"}]
)
def test_a_wrong_content_change_is_refused_not_coerced(change):
    with pytest.raises(InvalidParamsError):
        structure({**CHANGE, "contentChanges": [change]}, lsp.DidChangeTextDocumentParams)


def test_content_changes_are_told_apart():
    ranged = {"range": {"start": ZERO, "end": ZERO}, "text": "a"}
    params = structure({**CHANGE, "contentChanges": [ranged, {"text": "b"}]}, lsp.DidChangeTextDocumentParams)
    assert isinstance(params.content_changes[0], lsp.TextDocumentContentChangePartial)
    assert isinstance(params.content_changes[1], lsp.TextDocumentContentChangeWholeDocument)


def test_command_arguments_survive_exactly():
    arguments = [
        {"jsonrpc": "2.0", "id": 1, "method": "x"},
        {"b c": 1, "class": {"1": None}, "type_name": "t"},
    ]
    params = structure({"command": "c", "arguments": arguments}, ExecuteCommandParams)
    assert params.arguments == arguments
