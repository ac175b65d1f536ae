"""What an assistant's text means: content, reasoning and tool calls, found while the model still writes.

format = detect_format(template_source)        # format.tools (a ToolFormat), format.thinks
parser = MessageParser(tools, thinks=format.thinks)
pieces = parser.feed(text); pieces = parser.finish()   # Content, Reasoning, CallStart, CallArguments, CallEnd
"""

from engine.chat.formats import MessageFormat, ToolFormat, detect_format
from engine.chat.memory import CallMemory
from engine.chat.parser import MessageParser
from engine.chat.pieces import CallArguments, CallEnd, CallStart, Content, Piece, Reasoning
from engine.chat.values import is_object

__all__ = [
    "CallArguments",
    "CallEnd",
    "CallMemory",
    "CallStart",
    "Content",
    "MessageFormat",
    "MessageParser",
    "Piece",
    "Reasoning",
    "ToolFormat",
    "detect_format",
    "is_object",
]
