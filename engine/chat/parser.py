"""From the text of an assistant message to its content, reasoning and tool calls, while it is being written.

Strict where a call would be executed, tolerant in how it is spelled: whatever format its template teaches,
a model may leave out the outer tag, put text before the call, fence it as JSON or write it as the whole
message. Text that turns out to be no call of an offered tool is content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from engine.chat.formats import CALL, END_CALL, END_THINK, THINK
from engine.chat.json_call import json_call
from engine.chat.pieces import CallEnd, CallStart, Content, Piece, Reasoning, append
from engine.chat.qwen3_coder_call import FUNCTION, qwen3_coder_call
from engine.chat.reader import Parsing, Reader

_FENCE = "```"
_FENCE_NAMES = frozenset({"", "json", "tool_call", "tool_code", "tool"})
_UNTAGGED = re.compile(r"[^<]+")
_PLAIN = re.compile(r"(?:[^<` \t\r\n]+|[ \t\r\n]+(?=[^<` \t\r\n]))+")
_THOUGHT = re.compile(r"(?:[^< \t\r\n]+|[ \t\r\n]+(?=[^< \t\r\n]))+")


class MessageParser:
    """Parses one message, fed in any pieces: the concatenated result is the same for all ways to cut.

    tools: JSON schema of each offered tool's arguments, by name; empty: nothing is taken for a call.
    thinks: whether reasoning may stand at the message's begin. open_reasoning: the prompt opened it already.
    bare: whether a message that is a JSON object may be a call.

    Content is the text as written, without the blanks around calls and reasoning. Concatenated arguments are
    JSON text; those of a call whose CallEnd is not `closed`, or that has no CallEnd, are a part of one.
    """

    def __init__(
        self,
        tools: Mapping[str, Mapping[str, object]],
        *,
        thinks: bool = False,
        open_reasoning: bool = False,
        bare: bool = True,
    ) -> None:
        self._tools = tools
        self._bare = bare
        self._reader = Reader()
        self._pieces: list[Piece] = []
        self._blanks = ""
        self._called = False
        self.reasoning = open_reasoning
        """Whether what comes next is reasoning."""
        self.in_call = False
        """Whether what comes next belongs to a call that has begun."""
        self._steps = self._message(thinks)
        next(self._steps, None)

    def feed(self, text: str) -> list[Piece]:
        """The pieces that are certain now."""
        self._reader.feed(text)
        next(self._steps, None)
        return self._taken()

    def finish(self, *, cut: bool = False) -> list[Piece]:
        """The rest. cut: the message did not end by itself; then a call that was begun gets no closed end."""
        self._reader.final, self._reader.cut = True, cut
        next(self._steps, None)
        return self._taken()

    def _taken(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces

    def _emit(self, piece: Piece) -> None:
        if isinstance(piece, CallStart):
            self.in_call = self._called = True
            self._blanks = ""
        elif isinstance(piece, CallEnd):
            self.in_call = False
        elif isinstance(piece, Content):
            append(self._pieces, Content(self._blanks))
            self._blanks = ""
        append(self._pieces, piece)

    def _message(self, thinks: bool) -> Parsing[None]:
        if thinks or self.reasoning:
            blanks = yield from self._reader.blanks()
            if (yield from self._reader.starts(THINK)):
                self._reader.take(len(THINK))
                self.reasoning = True
            if self.reasoning:
                yield from self._reason()
            else:
                self._blanks = blanks
        yield from self._body()

    def _reason(self) -> Parsing[None]:
        reader = self._reader
        blanks = ""
        yield from reader.blanks()
        while True:
            character = yield from reader.next()
            if not character:
                append(self._pieces, Reasoning(blanks))
                return
            if character == "<" and (yield from reader.starts(END_THINK)):
                reader.take(len(END_THINK))
                self.reasoning = False
                yield from reader.blanks()
                return
            if character in " \t\r\n" and not (plain := reader.run(_THOUGHT)):
                blanks += yield from reader.blanks()
                continue
            text = plain if character in " \t\r\n" else reader.run(_THOUGHT) or reader.take(1)
            append(self._pieces, Reasoning(blanks + text))
            blanks = ""

    def _body(self) -> Parsing[None]:
        reader = self._reader
        may_be_bare = self._bare
        while True:
            self._blanks += yield from reader.blanks()
            character = yield from reader.next()
            if not character:
                break
            if self._tools and character == "{" and may_be_bare:
                may_be_bare = yield from self._json_call("", end="")
                continue
            if self._tools and character in "<`":
                if (yield from self._opening(character)):
                    continue
                may_be_bare = False
                continue
            may_be_bare = False
            self._emit(Content(reader.run(_PLAIN) or reader.take(1)))
        if not self._called:
            self._emit(Content(""))

    def _opening(self, character: str) -> Parsing[bool]:
        """A call, or text that only began like one."""
        reader = self._reader
        found = yield from (reader.starts(_FENCE) if character == "`" else reader.starts(CALL, FUNCTION))
        if found == FUNCTION:
            return (yield from self._qwen3_coder_call(""))
        if found == CALL:
            return (yield from self._tagged_call())
        if found == _FENCE:
            return (yield from self._fenced_call())
        self._emit(Content(reader.take(1)))
        return False

    def _tagged_call(self) -> Parsing[bool]:
        reader = self._reader
        opening = reader.take(len(CALL)) + (yield from reader.blanks())
        if (yield from reader.next()) == "{":
            return (yield from self._json_call(opening, end=END_CALL, tagged=True))
        if (yield from reader.starts(FUNCTION)):
            return (yield from self._qwen3_coder_call(opening))
        self._emit(Content(opening))
        return False

    def _fenced_call(self) -> Parsing[bool]:
        reader = self._reader
        opening = reader.take(len(_FENCE))
        opening += yield from reader.until("\n", "`{", 16)
        named = opening[len(_FENCE) :].strip() in _FENCE_NAMES
        opening += yield from reader.blanks()
        if not named or (yield from reader.next()) != "{":
            self._emit(Content(opening))
            return False
        return (yield from self._json_call(opening, end=_FENCE))

    def _json_call(self, opening: str, *, end: str, tagged: bool = False) -> Parsing[bool]:
        whole = yield from json_call(self._reader, self._emit, self._tools, opening=opening, tagged=tagged)
        if whole is not None:
            yield from self._end_call(whole, end, braces=True)
        elif tagged:
            yield from self._pass_unknown_call()
        return whole is not None

    def _qwen3_coder_call(self, opening: str) -> Parsing[bool]:
        whole = yield from qwen3_coder_call(self._reader, self._emit, self._tools, opening=opening)
        if whole is not None:
            yield from self._end_call(whole, END_CALL, braces=False)
        elif opening:
            yield from self._pass_unknown_call()
        return whole is not None

    def _end_call(self, whole: bool, end: str, *, braces: bool) -> Parsing[None]:
        """Take what closes a call, as far as it is there; models write a brace too few or too many."""
        reader = self._reader
        blanks = yield from reader.blanks()
        while whole and braces and (yield from reader.next()) == "}":
            reader.take(1)
            blanks = yield from reader.blanks()
        if end and (yield from reader.starts(end)):
            reader.take(len(end))
            blanks = ""
        elif reader.cut and end.startswith(reader.rest):
            whole = False
        self._blanks = blanks
        self._emit(CallEnd(whole))

    def _pass_unknown_call(self) -> Parsing[None]:
        """The rest of a call of an unknown tool is text, whatever it holds."""
        reader = self._reader
        while (yield from reader.next()):
            if (yield from reader.starts(END_CALL)):
                self._emit(Content(reader.take(len(END_CALL))))
                return
            self._emit(Content(reader.run(_UNTAGGED) or reader.take(1)))
