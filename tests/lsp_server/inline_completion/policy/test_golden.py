"""Golden cases: a document, what the model writes there, and the document after accepting the suggestion.

One TOML table a case. `document` marks the cursor by ¦; `model` is the model's raw text; then either
`after`, the whole document after acceptance (`covers`: characters right of the cursor that the range
replaces, 0 unless given), or `silent`, a part of the reason why nothing is suggested.
"""

import tomllib
from pathlib import Path

import pytest

from engine.types import FinishReason
from lsp_server.inline_completion.policy import CompletionPolicy

_FILES = sorted((Path(__file__).parent / "golden").glob("*.toml"))


def _cases():
    for file in _FILES:
        for name, case in tomllib.loads(file.read_text("utf-8")).items():
            yield pytest.param(case, id=f"{file.stem}: {name}")


@pytest.mark.parametrize("case", list(_cases()))
async def test_golden(case, ask, apply, scripted):
    options = {key: case[key] for key in ("invoked", "mode", "tab_size", "insert_spaces") if key in case}
    question = ask(case["document"], case["language"], **options)
    engine = scripted(
        case["model"],
        logprob=case.get("logprob", -0.1),
        finish=FinishReason.LENGTH if case.get("truncated") else FinishReason.STOP,
    )
    answer = await CompletionPolicy(engine).answer(question)
    if "silent" in case:
        assert answer.suggestions == ()
        assert case["silent"] in answer.reason
        return
    assert answer.suggestions, answer.reason
    suggestion = answer.suggestions[0]
    assert apply(question, suggestion) == case["after"]
    assert suggestion.end - question.offset == case.get("covers", 0)


def test_there_are_enough_cases():
    assert len(list(_cases())) >= 60
