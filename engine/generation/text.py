"""Prompts and text of one model: its tokenizer, fill-in-the-middle format and chat template together."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.chat import CallMemory, MessageFormat, MessageParser, ToolFormat, detect_format
from engine.chat.formats import END_THINK, TAGS
from engine.constraints import (
    CallRules,
    GrammarCompiler,
    Matcher,
    message_grammar,
    output_grammar,
    tools_named,
)
from engine.errors import RequestError
from engine.generation.chat_output import ChatOutput, TaggedTokens
from engine.generation.drawing import TokenDrawer
from engine.generation.prompting import Prompt
from engine.generation.sequence import Drawn
from engine.generation.thinking import ThinkingBudget
from engine.prompts import (
    ChatPrompt,
    ChatTemplate,
    VocabularyTrie,
    build_infill,
    detect_fim,
    remaining_bytes,
    require_fim,
)
from engine.sampling import Sampler, StopMatcher
from engine.tokenizer import GgufMetadata, StreamDecoder, Tokenizer
from engine.types import (
    ChatDelta,
    ChatRequest,
    CompletionRequest,
    FinishReason,
    InfillRequest,
    TextDelta,
    TokenLogprob,
    Tool,
    ToolChoice,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Chat:
    """The chat side of a model: its template, and the format that this teaches."""

    template: ChatTemplate
    format: MessageFormat


class TextPrompting:
    """Implements `engine.generation.prompting.Prompting` from a model file's metadata.

    Raises ModelFileError when the file's tokenizer cannot be used.
    """

    def __init__(self, metadata: GgufMetadata) -> None:
        self._tokenizer = Tokenizer.from_gguf(metadata)
        self._fim = detect_fim(self._tokenizer)
        self._trie = VocabularyTrie(self._tokenizer)
        self._grammars = GrammarCompiler(self._tokenizer, TAGS)
        self._tagged = TaggedTokens(self._tokenizer, TAGS)
        self._calls = CallMemory()
        self._chat: _Chat | RequestError
        try:
            template = ChatTemplate.from_gguf(metadata, self._tokenizer)
            self._chat = _Chat(template, detect_format(template.source))
        except RequestError as missing:
            self._chat = missing  # a matter for whoever asks to chat

    @property
    def supports_infill(self) -> bool:
        return self._fim is not None

    @property
    def tool_format(self) -> str:
        return "" if isinstance(self._chat, RequestError) else self._chat.format.tools.value

    @property
    def thinks(self) -> bool:
        return not isinstance(self._chat, RequestError) and self._chat.format.thinks

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Token ids of a text. special: whether spellings of control tokens become these."""
        return self._tokenizer.encode(text, special=special)

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of token ids; control tokens have none. Raises RequestError outside the vocabulary."""
        if ids and not 0 <= min(ids) <= max(ids) < self._tokenizer.vocab_size:
            raise RequestError(f"Token ids are from 0 to {self._tokenizer.vocab_size - 1} in this model.")
        return self._tokenizer.decode(list(ids))

    def infill(self, request: InfillRequest, budget: int) -> Prompt[TextDelta]:
        """The prompt for a hole, at most `budget` tokens long. Raises RequestError when unsupported."""
        fim = self._fim or require_fim(self._tokenizer)
        prompt = build_infill(request, self._tokenizer, fim, budget, healing=True)
        output = TextOutput(
            TokenDrawer(Sampler(request.sampling), self._tokenizer),
            StopMatcher(request.stop, prompt.stop_ids),
            ForcedStart(prompt.forced_bytes, self._tokenizer, self._trie),
        )
        return Prompt(tuple(prompt.ids), output, output.deltas)

    def complete(self, request: CompletionRequest) -> Prompt[TextDelta]:
        """The prompt as it is. Raises RequestError for what cannot be served."""
        tokenizer = self._tokenizer
        given = request.prompt
        ids = self._with_bos(given) if isinstance(given, str) else list(given)
        matcher = None
        if request.constraint is not None:
            what = _constraint_name(request.constraint.kind)
            matcher = self._grammars.compile(output_grammar(request.constraint), what)
        drawer = TokenDrawer(Sampler(request.sampling), tokenizer, matcher=matcher, top=request.top_logprobs)
        stops = StopMatcher(request.stop, tokenizer.eos_ids)
        output = TextOutput(drawer, stops, ForcedStart(b"", tokenizer, self._trie))
        return Prompt(tuple(ids), output, output.deltas)

    def chat(self, request: ChatRequest, context_tokens: int) -> Prompt[ChatDelta]:
        """The prompt for the next message of a chat. Raises RequestError for what cannot be served."""
        chat = self._require_chat()
        tools = _offered(request, chat.format)
        prompt = self._chat_prompt(chat, request, tools)
        rules = _call_rules(request, tools, chat.format)
        thinks = chat.format.thinks or prompt.reasoning
        before = after = None
        if not prompt.reasoning:
            before = self._matcher(request, rules, thinking=thinks, blanks=False)
        if thinks:
            after = self._matcher(request, rules, thinking=False, blanks=True)
        output = ChatOutput(
            drawer=TokenDrawer(
                Sampler(request.sampling), self._tagged, matcher=before, top=request.top_logprobs
            ),
            tokens=self._tagged,
            encode=self._tokenizer.encode,
            parser=MessageParser(
                {tool.name: tool.parameters for tool in tools},
                thinks=chat.format.thinks,
                open_reasoning=prompt.reasoning,
                bare=request.constraint is None,
            ),
            stops=StopMatcher(request.stop, self._tokenizer.eos_ids),
            thinking=self._thinking(request, context_tokens - len(prompt.ids)) if thinks else None,
            after_reasoning=after,
            parallel=rules is None or rules.parallel,
            remember=lambda content, calls, ids: self._calls.remember(
                content, calls, [*prompt.opening, *ids]
            ),
        )
        return Prompt(prompt.ids, output, output.deltas)

    def count(self, request: ChatRequest) -> int:
        """How many tokens the chat's prompt has. Raises RequestError as `chat` does for the messages."""
        chat = self._require_chat()
        return len(self._chat_prompt(chat, request, _offered(request, chat.format)).ids)

    def embedding_ids(self, text: str) -> list[int]:
        """A text whose vector is wanted, with what the model expects at its beginning and end."""
        ids = self._with_bos(text)
        if self._tokenizer.add_eos and self._tokenizer.eos is not None:
            ids.append(self._tokenizer.eos)
        return ids

    def _with_bos(self, text: str) -> list[int]:
        tokenizer = self._tokenizer
        bos = [tokenizer.bos] if tokenizer.add_bos and tokenizer.bos is not None else []
        return bos + tokenizer.encode(text)

    def _require_chat(self) -> _Chat:
        if isinstance(self._chat, RequestError):
            raise self._chat
        return self._chat

    def _chat_prompt(self, chat: _Chat, request: ChatRequest, tools: Sequence[Tool]) -> ChatPrompt:
        thinking = request.thinking
        if thinking and not chat.format.thinks:
            if not request.thinking_optional:
                raise RequestError(
                    "thinking is on, but this model's chat template knows no reasoning.",
                    action="Leave thinking unset, or choose a reasoning model.",
                )
            thinking = None
        known = {
            number: tokens
            for number, message in enumerate(request.messages)
            if (tokens := self._calls.tokens_of(message)) is not None
        }
        return chat.template.encode(request.messages, tools, thinking=thinking, written=known)

    def _matcher(
        self, request: ChatRequest, rules: CallRules | None, *, thinking: bool, blanks: bool
    ) -> Matcher | None:
        must = request.constraint is not None or (rules is not None and rules.required)
        what = "set of tools" if request.constraint is None else _constraint_name(request.constraint.kind)
        try:
            grammar = message_grammar(request.constraint, rules, thinking=thinking, blanks=blanks)
            return None if grammar is None else self._grammars.compile(grammar, what)
        except RequestError:
            if must:
                raise
            # Calls that the model makes by its own choice are then only checked by whoever runs them.
            log.info("The tools of a request cannot be enforced, so its calls are not constrained")
            return None

    def _thinking(self, request: ChatRequest, left: int) -> ThinkingBudget:
        close = self._tokenizer.encode(f"\n{END_THINK}\n\n", special=True)
        most = 0 if request.thinking is False else request.thinking_budget
        return ThinkingBudget(close, most, max(1, min(request.max_tokens, left)))


def _constraint_name(kind: str) -> str:
    return {"regex": "regular expression", "lark": "grammar"}.get(kind, "JSON schema")


def _offered(request: ChatRequest, format: MessageFormat) -> tuple[Tool, ...]:
    """The tools that the prompt shows. Raises RequestError when they cannot be called as asked."""
    if request.tool_choice is ToolChoice.NONE:
        return ()
    if not request.tools:
        if request.tool_choice is not ToolChoice.AUTO:
            raise RequestError(
                f"tool_choice is {request.tool_choice.value}, but no tools are offered.", action="Send tools."
            )
        return ()
    if format.tools is ToolFormat.NONE:
        raise RequestError(
            "This model's chat template has no place for tools, so it cannot call any.",
            action="Choose a model that was trained to call tools, or send no tools.",
        )
    names = [tool.name for tool in request.tools]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None or "" in names:
        raise RequestError("Each tool needs a name of its own.", action=f"Rename {repeated or 'it'!r}.")
    return request.tools


def _call_rules(request: ChatRequest, tools: tuple[Tool, ...], format: MessageFormat) -> CallRules | None:
    if not tools:
        return None
    named = request.tool_choice is ToolChoice.NAMED
    return CallRules(
        format.tools,
        tools_named(tools, request.named_tool) if named else tools,
        required=named or request.tool_choice is ToolChoice.REQUIRED,
        parallel=request.parallel_tool_calls and not named,
    )


class ForcedStart:
    """Token healing: what the first tokens must spell, and the spelling of tokens without that.

    See engine/prompts/healing.py. The document has these bytes already, so they are not part of the text.
    """

    def __init__(self, forced: bytes, tokenizer: Tokenizer, trie: VocabularyTrie) -> None:
        self._left = forced
        self._tokenizer = tokenizer
        self._trie = trie

    def restrict(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits in which only tokens that spell the bytes left are possible; shape (n_vocab,)."""
        if not self._left:
            return logits
        return np.where(self._trie.mask(self._left, len(logits)), logits, np.float32(-np.inf))

    def token_bytes(self, token: int) -> bytes:
        """The next token's bytes beyond the forced ones; to be asked once for each token, in order."""
        spelled = self._tokenizer.token_bytes(token)
        new = spelled[len(self._left) :]
        self._left = remaining_bytes(self._left, spelled)
        return new


class TextOutput:
    """Implements `engine.generation.sequence.Output`: draw, decode, stop."""

    def __init__(self, drawer: TokenDrawer, stops: StopMatcher, start: ForcedStart) -> None:
        self._drawer = drawer
        self._stops = stops
        self._start = start
        self._decoder = StreamDecoder(start)
        self._unsent_logprobs: list[TokenLogprob] = []

    def draw(self, logits: NDArray[np.float32], history: list[int]) -> Drawn:
        """Draw the token that follows `history`, with the text that is certain now.

        Raises HearthError when the logits are not numbers.
        """
        token, logprob = self._drawer.draw(self._start.restrict(logits), history)
        if self._stops.is_stop(token):
            return Drawn(token, self.flush(), logprob, FinishReason.STOP)
        self._unsent_logprobs += self._drawer.entry(logits, token)
        text, stopped = self._stops.feed(self._decoder.feed(token))
        return Drawn(token, text, logprob, FinishReason.STOP if stopped else None)

    def flush(self) -> str:
        """The text still held back."""
        text, _ = self._stops.feed(self._decoder.finish())
        return text + self._stops.finish()

    def deltas(self, event: TextDelta) -> Sequence[TextDelta]:
        """The event with its log probabilities, if the request wants them, and what stopped it."""
        stop = self._stops.stopped_by if event.finish is FinishReason.STOP else ""
        if not self._unsent_logprobs and not stop:
            return (event,)
        logprobs, self._unsent_logprobs = tuple(self._unsent_logprobs), []
        return (replace(event, logprobs=logprobs, stop=stop),)
