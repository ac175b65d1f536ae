"""Output items of the Responses API and the events by which they grow.

Items follow each other: reasoning, a message, function calls. One is open at a time; what belongs to
another closes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from engine.service.http.fields import new_id
from engine.service.http.openai.logprobs import chat_logprobs
from engine.service.http.openai.responses_tools import CustomInput, Declared
from engine.types import ChatDelta, TokenLogprob, Tool, ToolCallDelta

Event = dict[str, object]


class OutputItem(ABC):
    """An item that grows by text; subclasses say what it is called."""

    prefix = ""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = new_id(self.prefix)
        self.text = ""

    def opened(self) -> Iterator[Event]:
        yield {"type": "response.output_item.added", "item": self.item("in_progress"), **self._at()}

    def closed(self, status: str) -> Iterator[Event]:
        yield {"type": "response.output_item.done", "item": self.item(status), **self._at()}

    @abstractmethod
    def item(self, status: str) -> dict[str, object]:
        """The item as the API shows it."""

    def _at(self) -> Event:
        return {"output_index": self.index}

    def _in(self) -> Event:
        return {"item_id": self.id, "output_index": self.index, "content_index": 0}


class Reasoning(OutputItem):
    prefix = "rs_"

    def item(self, status: str) -> dict[str, object]:
        content = [self._part()] if self.text else []
        return {"type": "reasoning", "id": self.id, "summary": [], "content": content, "status": status}

    def opened(self) -> Iterator[Event]:
        yield from super().opened()
        yield {"type": "response.content_part.added", "part": self._part(), **self._in()}

    def grow(self, text: str) -> Iterator[Event]:
        self.text += text
        yield {"type": "response.reasoning_text.delta", "delta": text, **self._in()}

    def closed(self, status: str) -> Iterator[Event]:
        yield {"type": "response.reasoning_text.done", "text": self.text, **self._in()}
        yield {"type": "response.content_part.done", "part": self._part(), **self._in()}
        yield from super().closed(status)

    def _part(self) -> dict[str, object]:
        return {"type": "reasoning_text", "text": self.text}


class Message(OutputItem):
    prefix = "msg_"

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._logprobs: list[dict[str, object]] = []

    def item(self, status: str) -> dict[str, object]:
        # An item that was only just added has no part yet: that comes by an event of its own.
        content = [] if status == "in_progress" else [self._part()]
        return {"type": "message", "id": self.id, "role": "assistant", "content": content, "status": status}

    def opened(self) -> Iterator[Event]:
        yield from super().opened()
        yield {"type": "response.content_part.added", "part": self._part(), **self._in()}

    def grow(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> Iterator[Event]:
        self.text += text
        new = chat_logprobs(logprobs)
        self._logprobs += new
        yield {"type": "response.output_text.delta", "delta": text, "logprobs": new, **self._in()}

    def closed(self, status: str) -> Iterator[Event]:
        yield {
            "type": "response.output_text.done",
            "text": self.text,
            "logprobs": self._logprobs,
            **self._in(),
        }
        yield {"type": "response.content_part.done", "part": self._part(), **self._in()}
        yield from super().closed(status)

    def _part(self) -> dict[str, object]:
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": list(self._logprobs)}


class Call(OutputItem):
    """A call of a tool: id and index of the call, and the tool as the client declared it."""

    def __init__(self, index: int, call: ToolCallDelta, tool: Declared) -> None:
        super().__init__(index)
        self.call = call
        self.tool = tool

    @abstractmethod
    def grow(self, arguments: str) -> Iterator[Event]:
        """The events of more of the arguments."""

    def _call(self, status: str) -> dict[str, object]:
        called: dict[str, object] = {
            "id": self.id,
            "call_id": self.call.id,
            "name": self.tool.name,
            "status": status,
        }
        return called if self.tool.namespace is None else {**called, "namespace": self.tool.namespace}

    def _of(self) -> Event:
        return {"item_id": self.id, "output_index": self.index}


class FunctionCall(Call):
    prefix = "fc_"

    def item(self, status: str) -> dict[str, object]:
        return {"type": "function_call", "arguments": self.text, **self._call(status)}

    def grow(self, arguments: str) -> Iterator[Event]:
        self.text += arguments
        yield {"type": "response.function_call_arguments.delta", "delta": arguments, **self._of()}

    def closed(self, status: str) -> Iterator[Event]:
        yield {
            "type": "response.function_call_arguments.done",
            "arguments": self.text,
            "name": self.tool.name,
            **self._of(),
        }
        yield from super().closed(status)


class CustomCall(Call):
    """A call of a custom tool: what the model writes as arguments is read back as plain text."""

    prefix = "ctc_"

    def __init__(self, index: int, call: ToolCallDelta, tool: Declared) -> None:
        super().__init__(index, call, tool)
        self._input = CustomInput()

    def item(self, status: str) -> dict[str, object]:
        return {"type": "custom_tool_call", "input": self._input.text, **self._call(status)}

    def grow(self, arguments: str) -> Iterator[Event]:
        yield from self._grown(self._input.grow(arguments))

    def closed(self, status: str) -> Iterator[Event]:
        yield from self._grown(self._input.end())
        yield {"type": "response.custom_tool_call_input.done", "input": self._input.text, **self._of()}
        yield from super().closed(status)

    def _grown(self, text: str) -> Iterator[Event]:
        if text:
            yield {"type": "response.custom_tool_call_input.delta", "delta": text, **self._of()}


class Output:
    """All items of one response, whose request declared these tools."""

    def __init__(self, tools: Sequence[Declared]) -> None:
        self._tools = {tool.shown.name: tool for tool in tools}
        self._closed: list[dict[str, object]] = []
        self._open: Reasoning | Message | Call | None = None

    def add(self, delta: ChatDelta) -> Iterator[Event]:
        """The events of a piece."""
        if delta.reasoning:
            if not isinstance(self._open, Reasoning):
                yield from self._next(Reasoning(self._index()))
            assert isinstance(self._open, Reasoning)  # noqa: S101
            yield from self._open.grow(delta.reasoning)
        if delta.text or delta.logprobs:
            if not isinstance(self._open, Message):
                yield from self._next(Message(self._index()))
            assert isinstance(self._open, Message)  # noqa: S101
            yield from self._open.grow(delta.text, delta.logprobs)
        for piece in delta.tool_calls:
            if not isinstance(self._open, Call) or self._open.call.index != piece.index:
                # An engine elsewhere may let a name through that nobody declared: the client will say so.
                unknown = Declared(Tool(piece.name), piece.name, namespace=None, custom=False)
                tool = self._tools.get(piece.name, unknown)
                kind = CustomCall if tool.custom else FunctionCall
                yield from self._next(kind(self._index(), piece, tool))
            assert isinstance(self._open, Call)  # noqa: S101
            if piece.arguments:
                yield from self._open.grow(piece.arguments)

    def close(self, status: str = "completed") -> Iterator[Event]:
        """End the open item, if there is one."""
        if self._open is not None:
            yield from self._open.closed(status)
            self._closed.append(self._open.item(status))
            self._open = None

    def items(self) -> list[dict[str, object]]:
        """The items that have ended."""
        return list(self._closed)

    def _index(self) -> int:
        return len(self._closed) + (self._open is not None)

    def _next(self, item: Reasoning | Message | Call) -> Iterator[Event]:
        yield from self.close()
        self._open = item
        yield from item.opened()
