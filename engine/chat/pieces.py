"""What an assistant message is made of, in the order in which the model writes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Content:
    """Text for the reader."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text between the thinking tags."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call of an offered tool begins; its name is whole."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments' JSON text of the call that began last."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The call that began last is over; closed: its arguments were written to their end."""

    closed: bool


Piece = Content | Reasoning | CallStart | CallArguments | CallEnd
Text = Content | Reasoning | CallArguments


def append(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece, joined to the one before where both are text of one kind; drops empty text."""
    if isinstance(piece, Text):
        if not piece.text:
            return
        last = pieces[-1] if pieces else None
        if isinstance(last, Text) and type(last) is type(piece):
            pieces[-1] = type(piece)(last.text + piece.text)
            return
    pieces.append(piece)
