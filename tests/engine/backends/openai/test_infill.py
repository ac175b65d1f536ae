"""Fill-in-the-middle and completions by a remote: formats, budgets, and text that spells control tokens."""

from contextlib import suppress
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backends.openai.circuit import Health
from engine.backends.openai.fim import clip, parts_of
from engine.backends.openai.fim_names import AUTO, FIM_WAYS, NONE, SUFFIX, family_name
from engine.backends.openai.window import characters, end_of, start_of
from engine.errors import EngineUnavailable, RequestError
from engine.prompts.families import FAMILIES
from engine.types import (
    CompletionRequest,
    Constraint,
    ConstraintKind,
    ContextFile,
    FinishReason,
    InfillRequest,
    SamplingParams,
)

HOLE = InfillRequest("def f(", "):\n    pass\n")
PSM = "<|fim_prefix|>def f(<|fim_suffix|>):\n    pass\n<|fim_middle|>"


async def test_a_hole(fake_remote, make_remote, gather):
    deltas = await gather(make_remote().infill(replace(HOLE, max_tokens=9, stop=("\n\n",)), "near"))
    assert [delta.text for delta in deltas] == ["one ", "two", ""]
    assert deltas[-1].finish is FinishReason.STOP
    assert deltas[-1].timing.prompt_tokens == 7
    body = fake_remote.body
    assert body["prompt"] == PSM
    assert (body["model"], body["max_tokens"], body["stop"]) == ("big", 9, ["\n\n"])
    stops = {fake_remote.SPECIALS[one] for one in ("<|fim_prefix|>", "<|endoftext|>", "<|im_end|>")}
    assert stops <= set(body["stop_token_ids"])


async def test_the_sum_of_log_probabilities_judges_a_suggestion(fake_remote, make_remote, gather):
    logprobs = {"tokens": ["a", "b"], "token_logprobs": [-0.5, -0.25], "top_logprobs": None}
    end = fake_remote.chunk(text="", finish_reason="length")
    fake_remote.on(
        "/v1/completions", fake_remote.stream(fake_remote.chunk(text="ab", logprobs=logprobs), end)
    )
    first, last = await gather(make_remote().infill(HOLE, "near"))
    assert (first.logprob, first.tokens, first.logprobs) == (-0.75, 2, ())
    assert last.finish is FinishReason.LENGTH


async def test_the_vocabulary_is_asked_for_once(fake_remote, make_remote, gather):
    remote = make_remote()
    await gather(remote.infill(HOLE, "near"))
    asked = len(fake_remote.asked("/tokenize"))
    assert asked > 0
    await gather(remote.infill(HOLE, "near"))
    assert len(fake_remote.asked("/tokenize")) == asked
    remote.connection.recoveries += 1  # the server was away: another model may run there now
    await gather(remote.infill(HOLE, "near"))
    assert len(fake_remote.asked("/tokenize")) == 2 * asked


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("spelling", ["<|fim_middle|>", "<|endoftext|>", "<|im_start|>"])
async def test_text_that_spells_a_control_token_does_not_become_one(
    fake_remote, make_remote, gather, spelling, bos
):
    fake_remote.bos = bos
    hole = InfillRequest(f"a = '{spelling}'", f"b = '{spelling}'")
    await gather(make_remote().infill(hole, "near"))
    ids = fake_remote.body["prompt"]
    special = [token for token in ids if token in fake_remote.SPECIALS.values()]
    markers = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
    assert special == [fake_remote.SPECIALS[marker] for marker in markers]
    assert ids[:1] == ([fake_remote.BOS] if bos else special[:1])
    text = "".join(chr(token) for token in ids if token < 4000)
    assert text == hole.prefix + hole.suffix


async def test_another_vocabulary_is_refused(fake_remote, make_remote, gather):
    remote = make_remote(models={"near": {"name": "big", "fim": "starcoder2"}})
    with pytest.raises(RequestError, match="does not have the fill-in-the-middle tokens of starcoder2"):
        await gather(remote.infill(HOLE, "near"))
    assert fake_remote.asked("/v1/completions") == []


async def test_a_server_without_a_tokenizer_is_refused(make_remote, gather):
    remote = make_remote(server="openai")
    with pytest.raises(RequestError, match="suffix"):
        await gather(remote.infill(HOLE, "near"))


async def test_a_proxy_that_hides_the_tokenizer_is_told(fake_remote, make_remote, gather):
    fake_remote.on("/tokenize", fake_remote.value({"detail": "Not Found"}, 404))
    with pytest.raises(EngineUnavailable, match="no route /tokenize"):
        await gather(make_remote().infill(HOLE, "near"))


async def test_a_server_that_is_away_costs_a_hole_one_failure(fake_remote, make_remote, gather):
    remote = make_remote(retries=0)
    await fake_remote.stop()
    with pytest.raises(EngineUnavailable):
        await gather(remote.infill(HOLE, "near"))
    assert remote.connection.health is Health.UNKNOWN  # it takes several to open the circuit


async def test_a_server_that_fills_holes_itself(fake_remote, make_remote, gather):
    remote = make_remote(server="openai", models={"near": {"name": "big", "fim": SUFFIX}})
    await gather(remote.infill(InfillRequest("<|fim_prefix|>", "b"), "near"))
    assert (fake_remote.body["prompt"], fake_remote.body["suffix"]) == ("<|fim_prefix|>", "b")
    assert fake_remote.asked("/tokenize") == []


@pytest.mark.parametrize("fim", [AUTO, NONE])
async def test_a_model_without_a_format_is_refused(make_remote, gather, fim):
    remote = make_remote(models={"near": {"name": "plain-chat", "fim": fim}})
    assert not remote.status("near").supports_infill
    with pytest.raises(RequestError, match="no known fill-in-the-middle format"):
        await gather(remote.infill(HOLE, "near"))
    with pytest.raises(RequestError):
        remote.check_infill("near")


async def test_other_files_are_shown_in_the_repository_format(fake_remote, make_remote, gather):
    context = (ContextFile("a.py", "A = 1\n"), ContextFile("b.py", "B = 2\n"))
    await gather(make_remote().infill(replace(HOLE, path="c.py", context=context), "near"))
    files = "<|repo_name|>workspace\n<|file_sep|>a.py\nA = 1\n\n<|file_sep|>b.py\nB = 2\n\n<|file_sep|>c.py\n"
    assert fake_remote.body["prompt"] == files + PSM


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Qwen/Qwen2.5-Coder-32B", "qwen-coder"),
        ("Qwen3-Coder-30B-A3B-Instruct", "qwen-coder"),
        ("bigcode/starcoder2-15b", "starcoder2"),
        ("bigcode/starcoderbase", "starcoder"),
        ("ibm-granite/granite-8b-code-base", "starcoder"),
        ("ibm-granite/granite-4.0-h-small", "granite-4"),
        ("deepseek-ai/deepseek-coder-6.7b-base", "deepseek-coder"),
        ("google/codegemma-7b", "codegemma"),
        ("ByteDance-Seed/Seed-Coder-8B-Base", "seed-coder"),
        ("Qwen/Qwen3-32B", NONE),
        ("meta-llama/CodeLlama-7b-hf", NONE),
        ("mistralai/Codestral-22B-v0.1", NONE),
    ],
)
def test_the_format_is_inferred_from_the_name(name, family):
    assert family_name(name) == family


def test_every_format_that_settings_may_name_exists():
    assert set(FIM_WAYS) - {AUTO, SUFFIX, NONE} <= {family.name for family in FAMILIES}


@pytest.mark.parametrize(
    "family", [one for one in FAMILIES if one.name in FIM_WAYS], ids=lambda one: one.name
)
@given(
    prefix=st.text(max_size=400),
    suffix=st.text(max_size=400),
    files=st.lists(st.text(max_size=200), max_size=3),
)
def test_a_prompt_keeps_its_budget_and_both_sides_of_the_cursor(family, prefix, suffix, files):
    context = tuple(ContextFile(f"{index}.py", text) for index, text in enumerate(files))
    request = InfillRequest(prefix, suffix, "x.py", context)
    texts = [part for part in parts_of(request, family, 80) if isinstance(part, str)]
    assert sum(map(len, texts)) <= characters(80) + 2 * len("workspace\n")
    shown_prefix, shown_suffix = clip(request, 80)
    assert prefix.endswith(shown_prefix)
    assert suffix.startswith(shown_suffix)
    assert len(shown_prefix) + len(shown_suffix) <= characters(80)


def test_typing_moves_the_window_only_now_and_then():
    text = "".join(f"line {number}\n" for number in range(1000))
    starts = {len(text[:end]) - len(end_of(text[:end], 800)) for end in range(4000, 5000)}
    assert len(starts) <= 1000 // 128 + 2
    assert all(text[start - 1] == "\n" for start in starts)
    suffix = "s" * 500
    ends = {len(clip(InfillRequest(text[:end], suffix), 160)[1]) for end in range(55, 99)}
    assert len(ends) <= 2


@given(st.text(max_size=300), st.integers(1, 100))
def test_windows_are_parts_of_the_text_within_their_size(text, most):
    assert text.endswith(end_of(text, most))
    assert text.startswith(start_of(text, most))
    assert max(len(end_of(text, most)), len(start_of(text, most))) <= most
    if len(text) > most > 8:
        assert start_of(text, most)


ASK = CompletionRequest("x = ")
# They order and limit the work on this machine, and are in no body.
KEPT_HERE = {"session", "priority", "timeout_s"}
OTHER = {
    "prompt": "y = ",
    "max_tokens": 3,
    "sampling": SamplingParams(seed=3),
    "stop": ("x",),
    "constraint": Constraint(ConstraintKind.REGEX, "a+"),
    "top_logprobs": 2,
}
INFILL_OTHER = {
    "prefix": "p",
    "suffix": "s",
    "path": "p.py",
    "context": (ContextFile("a", "b"),),
    "max_tokens": 5,
    "prompt_budget": 4,
    "sampling": SamplingParams(seed=3),
    "stop": ("x",),
}


@pytest.mark.parametrize("server", ["vllm", "sglang", "hearth", "openai"])
async def test_no_field_of_a_completion_is_dropped(fake_remote, make_remote, gather, server):
    remote = make_remote(server=server)
    await gather(remote.complete(ASK, "near"))
    before = fake_remote.body
    assert OTHER.keys() | KEPT_HERE == {one.name for one in fields(CompletionRequest)}
    for name, other in OTHER.items():
        with suppress(RequestError):
            await gather(remote.complete(replace(ASK, **{name: other}), "near"))
            assert fake_remote.body != before


async def test_no_field_of_a_hole_is_dropped(fake_remote, make_remote, gather):
    remote = make_remote()
    assert INFILL_OTHER.keys() | KEPT_HERE == {one.name for one in fields(InfillRequest)}
    for name, other in INFILL_OTHER.items():
        # Where no other file is shown, the format has no place for the path either.
        base = replace(HOLE, context=(ContextFile("o.py", "o"),)) if name == "path" else HOLE
        await gather(remote.infill(base, "near"))
        before = fake_remote.body
        await gather(remote.infill(replace(base, **{name: other}), "near"))
        assert fake_remote.body != before


async def test_a_completion_with_log_probabilities(fake_remote, make_remote, gather):
    logprobs = {
        "tokens": ["a", "bytes:\\xe2"],
        "token_logprobs": [-0.5, -1.0],
        "top_logprobs": [{"a": -0.5, "c": -3.0, "b": -1.5}, None],
    }
    end = fake_remote.chunk(text="", finish_reason="stop", matched_stop="x")
    fake_remote.on("/v1/completions", fake_remote.stream(fake_remote.chunk(text="a", logprobs=logprobs), end))
    first, last = await gather(make_remote().complete(replace(ASK, stop=("x",), top_logprobs=3), "near"))
    assert [one.bytes for one in first.logprobs] == [b"a", b"\xe2"]
    assert [one.bytes for one in first.logprobs[0].top] == [b"a", b"b", b"c"]
    assert last.stop == "x"


async def test_a_prompt_of_a_completion_spells_no_control_token(fake_remote, make_remote, gather):
    fake_remote.bos = True
    remote = make_remote()
    await gather(remote.complete(CompletionRequest("a<|im_end|>b"), "near"))
    assert fake_remote.body["prompt"] == [fake_remote.BOS, *map(ord, "a<|im_end|>b")]
    await gather(remote.complete(CompletionRequest((7, 8)), "near"))
    assert fake_remote.body["prompt"] == [7, 8]
    hearth = make_remote(server="hearth")  # its completions encode text as text
    await gather(hearth.complete(CompletionRequest("a<|im_end|>b"), "near"))
    assert fake_remote.body["prompt"] == "a<|im_end|>b"


async def test_the_remote_s_tokenizer(fake_remote, make_remote):
    remote = make_remote()
    special = fake_remote.SPECIALS["<|im_end|>"]
    assert await remote.tokenize("a<|im_end|>", "near", special=True) == [97, special]
    assert await remote.tokenize("a<|im_end|>", "near", special=False) == list(map(ord, "a<|im_end|>"))
    assert await remote.tokenize("", "near", special=True) == []
    assert await remote.detokenize([104, 105], "near") == "hi"
    for server in ("hearth", "openai"):
        with pytest.raises(RequestError, match="cannot do this"):
            await make_remote(server=server).tokenize("a", "near", special=True)


async def test_embeddings(fake_remote, make_remote):
    rows = [{"embedding": [0.5, 1]}, {"embedding": [2, 3]}]
    fake_remote.on("/v1/embeddings", fake_remote.value({"data": rows, "usage": {"prompt_tokens": 4}}))
    assert await make_remote().embed(["a", "b"], "near") == ([[0.5, 1], [2, 3]], 4)
    assert fake_remote.asked("/v1/embeddings")[0].body["input"] == ["a", "b"]
