"""From rows of logits to the pieces of an assistant message."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.chat import (
    CallArguments,
    CallEnd,
    CallStart,
    Content,
    MessageParser,
    Piece,
    Reasoning,
    is_object,
)
from engine.chat.formats import END_THINK
from engine.constraints import Matcher
from engine.generation.drawing import TokenDrawer
from engine.generation.sequence import Drawn
from engine.generation.thinking import ThinkingBudget
from engine.sampling import StopMatcher
from engine.tokenizer import StreamDecoder, Tokenizer
from engine.types import ChatDelta, FinishReason, TextDelta, TokenLogprob, ToolCall, ToolCallDelta


class TaggedTokens:
    """Tokens' bytes; the tags of calls and reasoning are text, even if the file calls them control tokens."""

    def __init__(self, tokenizer: Tokenizer, tags: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        ids = {tag: tokenizer.id_of(tag) for tag in tags}
        self._tags = {token: tag.encode() for tag, token in ids.items() if token is not None}

    def token_bytes(self, token: int) -> bytes:
        return self._tags.get(token) or self._tokenizer.token_bytes(token)

    def is_text(self, token: int) -> bool:
        """Whether the token stands for text."""
        return token in self._tags or not self._tokenizer.is_control(token)


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: str = ""
    whole: bool = False


Remember = Callable[[str, list[ToolCall], list[int]], None]


class ChatOutput:
    """Implements `engine.generation.sequence.Output` for a chat: draw, decode, parse, stop.

    stops: stop strings count in content alone; they never cut reasoning or a call.
    after_reasoning: the matcher that takes over when reasoning ends; the drawer has the one before.
    parallel: whether the message may go on after a call.
    remember: takes content, calls and tokens of a message that ended with whole calls.
    """

    def __init__(
        self,
        *,
        drawer: TokenDrawer,
        tokens: TaggedTokens,
        encode: Callable[[str], list[int]],
        parser: MessageParser,
        stops: StopMatcher,
        thinking: ThinkingBudget | None,
        after_reasoning: Matcher | None,
        parallel: bool,
        remember: Remember,
    ) -> None:
        self._drawer = drawer
        self._tokens = tokens
        self._encode = encode
        self._decoder = StreamDecoder(tokens)
        self._parser = parser
        self._stops = stops
        self._thinking = thinking
        self._after_reasoning = after_reasoning
        self._parallel = parallel
        self._remember = remember

        self._generated: list[int] = []
        self._content = ""
        self._calls: list[_Call] = []
        self._tail = ""  # the end of the reasoning so far, to find its closing tag in

        # What the next event brings.
        self._deltas: list[ChatDelta] = []
        self._unsent_tokens = 0
        self._unsent_logprobs: list[TokenLogprob] = []

    def draw(self, logits: NDArray[np.float32], history: list[int]) -> Drawn:
        """Draw the token that follows `history`, with the text that is certain now.

        Raises HearthError when nothing can be drawn.
        """
        token, logprob = self._next(logits, history)
        begun = len(self._deltas)
        self._unsent_tokens += 1
        if self._stops.is_stop(token):
            finish: FinishReason | None = self._end()
        else:
            self._generated.append(token)
            in_call = self._parser.in_call
            finish = self._take(self._read(self._decoder.feed(token)))
            if not (in_call or self._parser.in_call):
                self._unsent_logprobs += self._drawer.entry(logits, token)
        return Drawn(token, self._account(begun), logprob, finish)

    def flush(self) -> str:
        """The text still held back, when the message is cut off."""
        begun = len(self._deltas)
        self._take(self._parser.feed(self._decoder.finish()))
        self._take(self._parser.finish(cut=True))
        self._add_content(self._stops.finish())
        return self._account(begun)

    def deltas(self, event: TextDelta) -> list[ChatDelta]:
        """What an event of the sequence brings; to be asked once for each, in order."""
        deltas, self._deltas = self._deltas, []
        if event.timing is not None and deltas:
            deltas[0] = replace(deltas[0], timing=event.timing)
        if event.finish is not None:
            last = deltas.pop() if deltas else ChatDelta()
            tokens, self._unsent_tokens = self._unsent_tokens, 0
            deltas.append(
                replace(
                    last,
                    tokens=last.tokens + tokens,
                    finish=event.finish,
                    timing=event.timing,
                    stop=self._stops.stopped_by,
                )
            )
        return deltas

    def _next(self, logits: NDArray[np.float32], history: list[int]) -> tuple[int, float]:
        thinking = self._thinking
        if thinking is None:
            return self._drawer.draw(logits, history)
        forced = thinking.next(self._parser.reasoning)
        if forced is None:
            token, logprob = self._drawer.draw(logits, history)
            if not (self._stops.is_stop(token) and self._parser.reasoning and self._after_reasoning):
                return token, logprob
            # The end inside reasoning would leave out what the message must match.
            forced = thinking.close()
        return self._drawer.force(logits, forced)

    def _read(self, text: str) -> list[Piece]:
        """Parse more text, and change the constraint where reasoning begins or ends."""
        before = self._parser.reasoning
        pieces = self._parser.feed(text)
        now = self._parser.reasoning
        if now and not before:
            self._drawer.matcher = None
        elif before and not now:
            self._drawer.matcher = self._after_reasoning
            if self._after_reasoning is not None:
                # The closing tag may end inside a token, whose rest belongs to the content already.
                for token in self._encode((self._tail + text).partition(END_THINK)[2]):
                    self._after_reasoning.accept(token)
        if now:
            self._tail = (self._tail + text)[1 - len(END_THINK) :]
        return pieces

    def _end(self) -> FinishReason:
        """The message ended by itself."""
        finish = self._take(self._parser.feed(self._decoder.finish())) or self._take(self._parser.finish())
        if finish is not None:
            return finish
        self._add_content(self._stops.finish())
        if not self._has_whole_calls():
            return FinishReason.STOP
        self._keep()
        return FinishReason.TOOL_CALLS

    def _take(self, pieces: list[Piece]) -> FinishReason | None:
        """Turn pieces into deltas; why the message ends with them, if it does."""
        for piece in pieces:
            if isinstance(piece, Content):
                text, stopped = self._stops.feed(piece.text)
                self._add_content(text)
                if stopped:
                    return FinishReason.TOOL_CALLS if self._has_whole_calls() else FinishReason.STOP
                continue
            self._add_content(self._stops.finish())
            match piece:
                case Reasoning(text):
                    self._deltas.append(ChatDelta(reasoning=text))
                case CallStart(name):
                    self._calls.append(_Call(f"call_{secrets.token_hex(12)}", name))
                    self._add_call(ToolCallDelta(len(self._calls) - 1, self._calls[-1].id, name))
                case CallArguments(text):
                    self._calls[-1].arguments += text
                    self._add_call(ToolCallDelta(len(self._calls) - 1, arguments=text))
                case CallEnd(closed):
                    self._calls[-1].whole = closed and is_object(self._calls[-1].arguments)
                    if not self._parallel and self._has_whole_calls():
                        self._keep()
                        return FinishReason.TOOL_CALLS
        return None

    def _has_whole_calls(self) -> bool:
        """Whether the message has calls, and all of them are whole: a part of one must never run."""
        return bool(self._calls) and all(call.whole for call in self._calls)

    def _keep(self) -> None:
        if all(map(self._tokens.is_text, self._generated)):
            calls = [ToolCall(call.id, call.name, call.arguments) for call in self._calls]
            self._remember(self._content, calls, self._generated)

    def _add_content(self, text: str) -> None:
        if text:
            self._content += text
            self._deltas.append(ChatDelta(text=text))

    def _add_call(self, delta: ToolCallDelta) -> None:
        self._deltas.append(ChatDelta(tool_calls=(delta,)))

    def _account(self, begun: int) -> str:
        """Give the unsent tokens to the first delta since `begun`, log probabilities to the first content."""
        added = self._deltas[begun:]
        if added:
            self._deltas[begun] = replace(added[0], tokens=self._unsent_tokens)
            self._unsent_tokens = 0
            for place, delta in enumerate(self._deltas[begun:], begun):
                if delta.text:
                    self._deltas[place] = replace(delta, logprobs=tuple(self._unsent_logprobs))
                    break
            self._unsent_logprobs = []
        return "".join(
            delta.text + delta.reasoning + "".join(call.name + call.arguments for call in delta.tool_calls)
            for delta in added
        )
