"""Between the protocol's positions and the policy's code-point offsets, for one request."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lsprotocol import types as lsp

from lsp_server.documents.encoding import PositionEncoding
from lsp_server.documents.positions import offset_at, range_of, span_of
from lsp_server.documents.store import Snapshot
from lsp_server.documents.text_buffer import TextBuffer
from lsp_server.inline_completion.params import FormattingExtras
from lsp_server.inline_completion.policy import (
    SIGHT_AFTER,
    SIGHT_BEFORE,
    Question,
    Selected,
    Suggestion,
)
from lsp_server.settings import Settings

ACCEPTED_COMMAND = "hearth.accepted"
_BOM = "\ufeff"
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Place:
    """The snapshot and the cursor that a request is about; cursor in code points of the snapshot."""

    snapshot: Snapshot
    cursor: int
    encoding: PositionEncoding

    @classmethod
    def at(cls, snapshot: Snapshot, position: lsp.Position, encoding: PositionEncoding) -> Place:
        """The place of a client's position; one before a byte order mark means just after it."""
        cursor = offset_at(snapshot.buffer, position, encoding)
        return cls(snapshot, max(cursor, _bom_length(snapshot.buffer)), encoding)

    def question(
        self,
        settings: Settings,
        path: str,
        *,
        invoked: bool = False,
        selected: lsp.SelectedCompletionInfo | None = None,
        formatting: FormattingExtras | None = None,
    ) -> Question:
        """The policy's view: the text near the cursor, without byte order mark and half characters."""
        buffer, origin = self.snapshot.buffer, self._origin()
        bom = _bom_length(buffer)
        chosen = None
        if selected is not None:
            # What lies out of sight becomes an offset out of bounds, which the policy refuses.
            start, end = (max(at, bom) - origin for at in span_of(buffer, selected.range, self.encoding))
            chosen = Selected(start, end, selected.text)
        near = buffer.slice(origin, self.cursor + SIGHT_AFTER)
        return Question(
            text=_LONE_SURROGATE.sub("\ufffd", near),
            offset=self.cursor - origin,
            skipped=buffer.lf_length(origin) - bom,
            language_id=self.snapshot.language_id,
            uri=self.snapshot.uri,
            path=path,
            version=self.snapshot.version,
            invoked=invoked,
            selected=chosen,
            tab_size=formatting.tab_size if formatting else None,
            insert_spaces=formatting.insert_spaces if formatting else None,
            mode=settings.mode,
            count=settings.suggestions,
            max_tokens=settings.maxTokens,
        )

    def item(self, suggestion: Suggestion, now: Snapshot) -> lsp.InlineCompletionItem | None:
        """The suggestion for the document as it is `now`; None when it would put wrong text there.

        It must lie on the cursor's line, and what was typed since the request must agree with it.
        """
        origin = self._origin()
        start, end = origin + suggestion.start, origin + suggestion.end
        line_start, line_end = self._line_span()
        if not line_start <= start <= self.cursor <= end <= line_end:
            return None
        text = suggestion.insert_text.replace("\r\n", "\n").replace("\r", "\n")
        typed = self.typed_since(now)
        if typed is None or (typed and not text.startswith(now.buffer.slice(start, self.cursor) + typed)):
            return None
        return lsp.InlineCompletionItem(
            insert_text=text,
            range=range_of(now.buffer, start, end + len(typed), self.encoding),
            command=lsp.Command(
                title="Suggestion accepted", command=ACCEPTED_COMMAND, arguments=[suggestion.id]
            ),
        )

    def typed_since(self, now: Snapshot) -> str | None:
        """What was typed at the cursor since the request ("" for nothing); None after any other change."""
        old, new = self.snapshot.buffer, now.buffer
        if not now.in_sync:
            return None
        if new is old:
            return ""
        grown = len(new) - len(old)
        if grown < 0:
            return None
        typed = new.slice(self.cursor, self.cursor + grown)
        # Only what was copied since is compared: a key copies a few thousand characters.
        head, tail = old.shared_ends(new)
        start, end = min(head, self.cursor), max(len(old) - tail, self.cursor)
        same = (
            "\n" not in typed
            and "\r" not in typed
            and new.slice(start, self.cursor) == old.slice(start, self.cursor)
            and new.slice(self.cursor + grown, end + grown) == old.slice(self.cursor, end)
        )
        return typed if same else None

    def _origin(self) -> int:
        """Where the policy's view begins; never between the CR and the LF of one line end."""
        buffer = self.snapshot.buffer
        start = max(_bom_length(buffer), self.cursor - SIGHT_BEFORE)
        return start + (start > 0 and buffer.slice(start - 1, start + 1) == "\r\n")

    def _line_span(self) -> tuple[int, int]:
        buffer = self.snapshot.buffer
        start, end = buffer.line_span(buffer.line_at(self.cursor))
        return max(start, _bom_length(buffer)), end


def _bom_length(buffer: TextBuffer) -> int:
    return 1 if buffer.slice(0, 1) == _BOM else 0
