"""A tool call written as a JSON object with a name and arguments, read while the model still writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection

from engine.chat.formats import END_CALL
from engine.chat.pieces import CallArguments, CallStart, Content, Piece
from engine.chat.reader import Parsing, Reader

ARGUMENTS = ("arguments", "parameters")
LONGEST_NAME = 256

_PLAIN = re.compile(r'[^"{}\[\]<]+')
_IN_STRING = re.compile(r'[^"\\\x00-\x1f]+')


def json_call(
    reader: Reader,
    emit: Callable[[Piece], None],
    names: Collection[str],
    *,
    opening: str,
    tagged: bool,
) -> Parsing[bool | None]:
    """Read a call from its first brace to the end of its arguments; what closes the object is left.

    Returns None when it was none, and then the text is emitted as content; else whether the arguments were
    whole.

    opening: what was taken to introduce the call. tagged: whether that can only have been a call, so that it
    may have no arguments, or have them before the name.
    Raw control characters in strings, which JSON forbids, come out escaped.
    """
    return (yield from _JsonCall(reader, emit, names, opening, tagged).run())


class _JsonCall:
    def __init__(
        self,
        reader: Reader,
        emit: Callable[[Piece], None],
        names: Collection[str],
        opening: str,
        tagged: bool,
    ) -> None:
        self._reader = reader
        self._emit = emit
        self._names = names
        self._read = opening  # all that was taken before it was certain to be a call
        self._tagged = tagged
        self._started = False

    def run(self) -> Parsing[bool | None]:
        name = early = ""
        self._read += self._reader.take(1)
        while True:
            key = yield from self._key()
            if key == "name" and not name:
                name = (yield from self._string()) or ""
                if name not in self._names:
                    break
                if self._tagged:
                    self._start(name)
                if early:
                    self._emit(CallArguments(early))
                    return True
            elif key in ARGUMENTS and name:
                self._start(name)
                return (yield from self._arguments(self._emit))
            elif key in ARGUMENTS and self._tagged and not early:
                early = yield from self._early_arguments()
                if not early:
                    break
            elif key in ("id", "type") and (yield from self._string()) is not None:
                continue
            elif key == "}" and self._started:
                self._emit(CallArguments("{}"))
                return True
            else:
                break
        if self._started:
            return False
        self._emit(Content(self._read))
        return None

    def _start(self, name: str) -> None:
        if not self._started:
            self._started = True
            self._read = ""
            self._emit(CallStart(name))

    def _key(self) -> Parsing[str]:
        """The next key, its colon taken too; "}" at the object's end, "" for anything else."""
        self._read += yield from self._reader.blanks()
        if (yield from self._reader.next()) == ",":
            self._read += self._reader.take(1) + (yield from self._reader.blanks())
        if (yield from self._reader.next()) == "}":
            self._read += self._reader.take(1)
            return "}"
        key = yield from self._string()
        self._read += yield from self._reader.blanks()
        if key is None or (yield from self._reader.next()) != ":":
            return ""
        self._read += self._reader.take(1) + (yield from self._reader.blanks())
        return key

    def _string(self) -> Parsing[str | None]:
        """A short string without escapes; None for anything else."""
        if (yield from self._reader.next()) != '"':
            return None
        quote = self._reader.take(1)
        text = yield from self._reader.until('"', "\\\n<{}", LONGEST_NAME)
        self._read += quote + text
        if (yield from self._reader.next()) != '"':
            return None
        self._read += self._reader.take(1)
        return text

    def _early_arguments(self) -> Parsing[str]:
        """Arguments before the name: they are kept until it is known; "" when they are broken."""
        parts: list[str] = []

        def keep(piece: Piece) -> None:
            if isinstance(piece, CallArguments):
                parts.append(piece.text)

        closed = yield from self._arguments(keep)
        text = "".join(parts)
        self._read += text
        return text if closed else ""

    def _arguments(self, emit: Callable[[Piece], None]) -> Parsing[bool]:
        """The arguments' value; whether it was an object to its end."""
        first = yield from self._reader.next()
        if first == '"':
            return (yield from self._quoted_arguments(emit))
        if first == "n" and (yield from self._reader.starts("null")):
            self._reader.take(4)
            emit(CallArguments("{}"))
            return True
        if first != "{":
            return False
        depth = 0
        while True:
            character = yield from self._reader.next()
            if not character:
                return False
            if character == "<" and self._tagged and (yield from self._reader.starts(END_CALL)):
                return False
            if character == '"':
                if not (yield from self._pass_string(emit)):
                    return False
                continue
            text = self._reader.run(_PLAIN) or self._reader.take(1)
            depth += (text in ("{", "[")) - (text in ("}", "]"))
            emit(CallArguments(text))
            if depth == 0:
                return True

    def _pass_string(self, emit: Callable[[Piece], None]) -> Parsing[bool]:
        """One string of the arguments, as it is written; whether it ended."""
        emit(CallArguments(self._reader.take(1)))
        while True:
            character = yield from self._reader.next()
            if not character:
                return False
            if character == "\\":
                taken = self._reader.take(1)
                escaped = yield from self._reader.next()
                # A backslash before a raw line end would still be no JSON.
                emit(CallArguments(taken + (self._reader.take(1) if not "" < escaped < " " else "\\")))
            elif character == '"':
                emit(CallArguments(self._reader.take(1)))
                return True
            elif character < " ":
                emit(CallArguments(json.dumps(self._reader.take(1))[1:-1]))
            else:
                emit(CallArguments(self._reader.run(_IN_STRING)))

    def _quoted_arguments(self, emit: Callable[[Piece], None]) -> Parsing[bool]:
        """Arguments as JSON inside a JSON string, which the wire format of some clients teaches models."""
        parts: list[str] = []

        def keep(piece: Piece) -> None:
            if isinstance(piece, CallArguments):
                parts.append(piece.text)

        closed = yield from self._pass_string(keep)
        text = "".join(parts)
        try:
            inner: str = json.loads(text) if closed else text
        except ValueError:
            inner = text
        # An escape can spell a lone surrogate, which no encoding carries.
        emit(CallArguments(inner.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")))
        return closed
