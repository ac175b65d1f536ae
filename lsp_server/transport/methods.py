"""One method of the protocol: its name, the type of its params and what handles it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lsp_server.server import HearthServer


@dataclass(frozen=True, slots=True)
class Method:
    """A request or a notice.

    params: a type that `transport.params.structure` can read; None when the method has no params.
    handle: called with the server and the params at once, in the order of arrival, so it can take its
        snapshot before anything newer is applied. A request's handler returns the result, or an awaitable
        of it (a coroutine, or a future whose cancellation stops the work). A result that must fit the moment
        is a function, called when the response is written. A notice's handler returns None.
    lost: for a notice whose params cannot be read, or whose handler failed; called with the raw params.
    """

    name: str
    params: type[Any] | None
    handle: Callable[[HearthServer, Any], Any]
    lost: Callable[[HearthServer, object], None] = lambda _server, _params: None
