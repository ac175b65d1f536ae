"""Between the client's positions (line, code units) and code-point offsets; arguments are never changed."""

from __future__ import annotations

from lsprotocol import types as lsp

from lsp_server.documents.encoding import PositionEncoding, code_points_within
from lsp_server.documents.text_buffer import TextBuffer


def offset_at(buffer: TextBuffer, position: lsp.Position, encoding: PositionEncoding) -> int:
    """The offset of a position, clamped as the LSP specification says.

    Past the end of a line: the line's end. Past the last line: the end of the text. Inside a character
    (surrogate pair, UTF-8 sequence): the character's start.
    """
    if position.line >= buffer.line_count:
        return len(buffer)
    start, end = buffer.line_span(position.line)
    remaining = position.character
    for piece in buffer.pieces(start, end):
        units = piece.units(encoding)
        if remaining < units:
            return piece.offset + code_points_within(piece.text, remaining, encoding)
        remaining -= units
    return end


def position_at(buffer: TextBuffer, offset: int, encoding: PositionEncoding) -> lsp.Position:
    """The position of an offset; one between CR and LF counts as the line's end."""
    line = buffer.line_at(offset)
    start, end = buffer.line_span(line)
    units = sum(piece.units(encoding) for piece in buffer.pieces(start, min(offset, end)))
    return lsp.Position(line=line, character=units)


def span_of(buffer: TextBuffer, lsp_range: lsp.Range, encoding: PositionEncoding) -> tuple[int, int]:
    """Both offsets of a range, in ascending order even when the client sent them reversed."""
    start = offset_at(buffer, lsp_range.start, encoding)
    end = offset_at(buffer, lsp_range.end, encoding)
    return (start, end) if start <= end else (end, start)


def range_of(buffer: TextBuffer, start: int, end: int, encoding: PositionEncoding) -> lsp.Range:
    """The range of two offsets."""
    return lsp.Range(position_at(buffer, start, encoding), position_at(buffer, end, encoding))
