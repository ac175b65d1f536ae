import itertools
import json
from dataclasses import dataclass, field

import pytest

from engine.chat import CallArguments, CallEnd, CallStart, Content, MessageParser, Reasoning

TOOLS = {
    "read": {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}},
    "write": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "text": {"type": "string"},
            "force": {"type": "boolean"},
            "lines": {"type": "array"},
            "ratio": {"type": "number"},
            "note": {"type": ["string", "null"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "kind": {"$ref": "#/$defs/kind"},
            "free": {},
        },
        "$defs": {"kind": {"enum": [1, 2]}},
    },
    "now": {},
}


@dataclass
class Parsed:
    """A whole message; calls as (name, arguments text, closed or None when there was no end)."""

    content: str = ""
    reasoning: str = ""
    calls: list = field(default_factory=list)

    @property
    def values(self):
        return [(name, json.loads(text)) for name, text, closed in self.calls if closed]


def gather(pieces):
    parsed = Parsed()
    for piece in pieces:
        match piece:
            case Content(text):
                parsed.content += text
            case Reasoning(text):
                parsed.reasoning += text
            case CallStart(name):
                parsed.calls.append((name, "", None))
            case CallArguments(text):
                name, before, closed = parsed.calls[-1]
                assert closed is None
                parsed.calls[-1] = (name, before + text, closed)
            case CallEnd(closed):
                parsed.calls[-1] = (*parsed.calls[-1][:2], closed)
    return parsed


@pytest.fixture(scope="session")
def parse():
    """parse(text, cuts=(), cut=False, **options): the message, fed in pieces that end at `cuts`."""

    def run(text, cuts=(), *, cut=False, tools=TOOLS, **options):
        parser = MessageParser(tools, **options)
        pieces = []
        borders = [0, *sorted(cuts), len(text)]
        for start, end in itertools.pairwise(borders):
            pieces += parser.feed(text[start:end])
        return gather([*pieces, *parser.finish(cut=cut)])

    return run
