"""A tool call as Qwen3-Coder and Qwen3.5 write it, read while the model still writes it.

    <function=NAME>
    <parameter=KEY>
    raw text
    </parameter>
    </function>

It looks like XML but is none: values are raw, so they may hold any tag. A `</parameter>` ends its value only
where what follows can follow a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from engine.chat.formats import CALL, END_CALL
from engine.chat.json_call import LONGEST_NAME
from engine.chat.pieces import CallArguments, CallStart, Content, Piece
from engine.chat.reader import Parsing, Reader
from engine.chat.values import RawValue, quoted, types_of

FUNCTION, END_FUNCTION = "<function=", "</function>"
PARAMETER, END_PARAMETER = "<parameter=", "</parameter>"
_AFTER_VALUE = (PARAMETER, END_FUNCTION, END_CALL, CALL, FUNCTION)
_PLAIN = re.compile(r"[^<\n]+")


def qwen3_coder_call(
    reader: Reader,
    emit: Callable[[Piece], None],
    tools: Mapping[str, Mapping[str, object]],
    *,
    opening: str,
) -> Parsing[bool | None]:
    """Read a call from `<function=` to `</function>`.

    Returns None when it was none, and then the text is emitted as content; else whether the parameters were
    whole.

    tools: JSON schema of each tool's arguments, by its name.
    """
    head = reader.take(len(FUNCTION))
    written = yield from reader.until(">", "<\n", LONGEST_NAME)
    name = written.strip(" \"'")
    if (yield from reader.next()) != ">" or name not in tools:
        emit(Content(opening + head + written))
        return None
    reader.take(1)
    emit(CallStart(name))
    return (yield from _Parameters(reader, emit, tools[name]).run())


class _Parameters:
    def __init__(self, reader: Reader, emit: Callable[[Piece], None], schema: Mapping[str, object]) -> None:
        self._reader = reader
        self._emit = emit
        self._schema = schema
        properties = schema.get("properties")
        self._properties: Mapping[str, object] = properties if isinstance(properties, Mapping) else {}
        self._seen: set[str] = set()

    def run(self) -> Parsing[bool]:
        """All parameters; whether they were written to their end."""
        reader = self._reader
        self._arguments("{")
        while True:
            yield from reader.blanks()
            found = yield from reader.starts(*_AFTER_VALUE)
            if found == PARAMETER:
                if not (yield from self._parameter()):
                    return False
                continue
            if found == END_FUNCTION:
                reader.take(len(END_FUNCTION))
            elif not found and ((yield from reader.next()) or reader.cut):
                return False
            self._arguments("}")
            return True

    def _arguments(self, text: str) -> None:
        self._emit(CallArguments(text))

    def _parameter(self) -> Parsing[bool]:
        reader = self._reader
        reader.take(len(PARAMETER))
        key = yield from reader.until(">", "<\n", LONGEST_NAME)
        separator = ", " if self._seen else ""
        if (yield from reader.next()) != ">":
            self._arguments(separator + quoted(key)[:-1])
            return False
        reader.take(1)
        key = key.strip(" \"'")
        if key in self._seen:  # nobody can tell which of the two was meant
            self._arguments(separator + quoted(key)[:-1])
            return False
        self._arguments(separator + quoted(key) + ": ")
        self._seen.add(key)
        value = RawValue(types_of(self._properties.get(key), self._schema))
        ended = yield from self._value(value)
        self._arguments(value.finish() if ended else value.cut())
        return ended

    def _value(self, value: RawValue) -> Parsing[bool]:
        """Feed a value without the line ends that frame it; whether it ended."""
        reader = self._reader
        line_end = ""
        if (yield from reader.next()) == "\n":
            reader.take(1)
        first = True
        while True:
            character = yield from reader.next()
            if not character:
                self._arguments(value.feed(line_end))
                return False
            if character == "<":
                found = yield from reader.starts(END_PARAMETER, PARAMETER, END_FUNCTION)
                if found == END_PARAMETER and (
                    yield from reader.comes_after_blanks(len(END_PARAMETER), *_AFTER_VALUE)
                ):
                    reader.take(len(END_PARAMETER))
                    return True
                at_line = first or line_end
                if found == END_FUNCTION and at_line and (yield from self._ends(END_FUNCTION)):
                    return True
                if found == PARAMETER and at_line and (yield from self._is_new_parameter()):
                    return True
            first = False
            if character == "\n":
                self._arguments(value.feed(line_end))
                line_end = reader.take(1)
                continue
            self._arguments(value.feed(line_end + (reader.run(_PLAIN) or reader.take(1))))
            line_end = ""

    def _ends(self, tag: str) -> Parsing[bool]:
        """Whether the tag here ends the call although the value's own end is missing."""
        return (yield from self._reader.comes_after_blanks(len(tag), END_CALL))

    def _is_new_parameter(self) -> Parsing[bool]:
        """Whether `<parameter=` here begins a parameter that the tool has and the call has not yet."""
        fresh = [f"{PARAMETER}{key}>" for key in self._properties if key not in self._seen]
        return bool(fresh) and bool((yield from self._reader.starts(*fresh)))
