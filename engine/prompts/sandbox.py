"""Jinja for templates that nobody vouches for: a chat template is data from a model file.

Capped: the size of the template, of its output and of every text or list on the way; loop iterations,
calls and operators together; and the time of it all, looked at with each of these. Left out: attributes
that begin with an underscore, filters and string methods that no known chat template uses, recursive
loops, imports and includes, and every object but plain values: a template reaches no file, no module and
no attribute of ours. One single operation is bounded by the caps on sizes, so the clock is never far away.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.runtime import Context, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TEMPLATE_CHARACTERS = 200_000
MAX_SIZE = 2_000_000  # characters of a text, values of a list
MAX_STEPS = 100_000
MAX_SECONDS = 5.0

_FILTERS = (
    "abs", "batch", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float",
    "groupby", "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject",
    "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "sort", "string", "sum",
    "title", "trim", "unique", "upper", "indent",
)  # fmt: skip
_STRING_METHODS = frozenset(
    {
        "capitalize", "count", "endswith", "find", "index", "isalnum", "isalpha", "isdigit", "islower",
        "isspace", "isupper", "join", "lower", "lstrip", "removeprefix", "removesuffix", "replace", "rfind",
        "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "title", "upper",
    }
)  # fmt: skip
_CONTAINER_METHODS = frozenset({"get", "items", "keys", "values", "index", "count"})
_COUNTED = "hearth_counted"
_CONCATENATED = "hearth_concatenated"


class Sandbox(ImmutableSandboxedEnvironment):
    """One environment for one rendering: it counts the steps."""

    intercepted_binops = frozenset({"+", "*", "**", "%", "//", "/", "-"})

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], finalize=_check_text
        )
        self._steps = 0
        self._deadline = time.monotonic() + MAX_SECONDS
        self._now = now
        known = self.filters
        self.filters = {name: self._guarded(known[name]) for name in _FILTERS} | {
            "tojson": _to_json,
            "join": self._join_filter,
            "replace": self._replace_filter,
            "indent": self._indent_filter,
            _COUNTED: self._counted,
            _CONCATENATED: self._concatenated,
        }
        self.globals = {
            "range": self._range,
            "namespace": self.globals["namespace"],
            "raise_exception": _raise,
            "strftime_now": self._strftime_now,
        }

    def render(self, source: str, values: dict[str, object]) -> str:
        """Raises jinja2.TemplateError (SecurityError included) and whatever the template provokes."""
        if len(source) > MAX_TEMPLATE_CHARACTERS:
            raise SecurityError(f"the template has more than {MAX_TEMPLATE_CHARACTERS} characters")
        tree = self.parse(source)
        _count_everything(tree)
        template = self.template_class.from_code(self, self.compile(tree), self.globals)
        pieces: list[str] = []
        size = 0
        for piece in template.generate(values):
            size += len(piece)
            if size > MAX_SIZE:
                raise SecurityError(f"the output has more than {MAX_SIZE} characters")
            self._step()
            pieces.append(piece)
        return "".join(pieces)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in _STRING_METHODS
        if isinstance(obj, (dict, list, tuple)):
            return attr in _CONTAINER_METHODS
        if isinstance(obj, (bytes, int, float)):
            return False
        return bool(super().is_safe_attribute(obj, attr, value))

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        self._step()
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, str):
            if obj.__name__ == "replace" and len(args) >= 2:
                _check_replace(owner, args[0], args[1])
            elif obj.__name__ == "join" and args:
                return self._join_filter(args[0], owner)
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        self._step()
        if operator == "%" and isinstance(left, str):
            raise SecurityError("the % operator formats no strings here")
        if operator == "**":
            raise SecurityError("the ** operator is not available")
        if operator == "+" and _has_length(left) and _has_length(right):
            _check_size(len(left) + len(right))
        if operator == "*":
            self._check_product(left, right)
        return super().call_binop(context, operator, left, right)

    def _check_product(self, left: Any, right: Any) -> None:
        if isinstance(left, str) and isinstance(right, int):
            _check_size(len(left) * right)
        elif isinstance(left, int) and isinstance(right, int):
            if left.bit_length() + right.bit_length() > 256:
                raise SecurityError("a product has more than 256 bits")
        elif not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
            raise SecurityError("the * operator repeats texts and multiplies numbers only")

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise SecurityError(f"the template takes more than {MAX_STEPS} steps")
        if time.monotonic() > self._deadline:
            raise SecurityError(f"the template takes more than {MAX_SECONDS:g} seconds")

    def _guarded(self, filter_function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(filter_function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self._step()
            for value in args:
                _check_text(value)
            return filter_function(*args, **kwargs)

        return guarded

    def _counted(self, values: Any) -> Any:
        return values if isinstance(values, Undefined) else _Counted(self, values)

    def _concatenated(self, parts: list[Any]) -> str:
        self._step()
        _check_text(parts)
        return "".join(map(str, parts))

    def _range(self, *bounds: int) -> range:
        values = range(*bounds)
        if len(values) > MAX_STEPS:
            raise SecurityError(f"a range has more than {MAX_STEPS} numbers")
        return values

    def _join_filter(self, values: Iterable[Any], separator: str = "", attribute: Any = None) -> str:
        if attribute is not None:
            raise SecurityError("join takes no attribute here")
        self._step()
        parts = list(_limited(values))
        _check_text(parts)
        _check_size(len(parts) * len(separator))
        return separator.join(map(str, parts))

    def _replace_filter(self, text: Any, old: str, new: str) -> str:
        self._step()
        whole = str(_check_text(text))
        _check_replace(whole, old, new)
        return whole.replace(old, new)

    def _indent_filter(
        self, text: Any, width: int | str = 4, first: bool = False, blank: bool = False
    ) -> str:
        self._step()
        pad = width if isinstance(width, str) else " " * min(width, 1_000)
        text = str(_check_text(text))
        lines = text.split("\n")
        _check_size(len(text) + len(lines) * len(pad))
        padded = [line if not (line or blank) else pad + line for line in lines]
        return "\n".join(padded if first else [lines[0], *padded[1:]])

    def _strftime_now(self, layout: str) -> str:
        if len(layout) > 100:
            raise SecurityError("a date layout has more than 100 characters")
        return self._now().strftime(layout)


class _Counted:
    """A loop's values; every one that is taken is a step."""

    def __init__(self, sandbox: Sandbox, values: Iterable[Any]) -> None:
        self._sandbox = sandbox
        self._values: Any = values if _has_length(values) else list(_limited(values))

    def __iter__(self) -> Iterator[Any]:
        for value in self._values:
            self._sandbox._step()
            yield value

    def __len__(self) -> int:
        return len(self._values)


def _count_everything(tree: nodes.Template) -> None:
    """Route every loop and every `~` through the counting filters; forbid what reads other templates."""
    for loop in tree.find_all(nodes.For):
        if loop.recursive:
            raise SecurityError(f"line {loop.lineno}: loops cannot be recursive")
        loop.iter = nodes.Filter(loop.iter, _COUNTED, [], [], None, None, lineno=loop.lineno)
    for node in tree.find_all((nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)):
        raise SecurityError(f"line {node.lineno}: templates cannot read other templates")
    _replace_concat(tree)


def _replace_concat(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, list):
            setattr(node, field, [_without_concat(item) for item in value])
        else:
            setattr(node, field, _without_concat(value))
    for child in node.iter_child_nodes():
        _replace_concat(child)


def _without_concat(value: Any) -> Any:
    if not isinstance(value, nodes.Concat):
        return value
    parts = nodes.List(value.nodes, lineno=value.lineno)
    return nodes.Filter(parts, _CONCATENATED, [], [], None, None, lineno=value.lineno)


def _to_json(value: Any, indent: int | None = None) -> str:
    # Hugging Face's templates expect plain JSON: no HTML escapes, no ASCII escapes, keys in their order.
    _check_text(value)
    return json.dumps(value, ensure_ascii=False, indent=indent if indent is None else min(int(indent), 8))


def _raise(message: object) -> None:
    raise TemplateError(str(message))


def _has_length(value: Any) -> bool:
    return isinstance(value, (str, bytes, list, tuple, dict, range, _Counted))


def _limited(values: Iterable[Any]) -> Iterator[Any]:
    for number, value in enumerate(values):
        if number >= MAX_STEPS:
            raise SecurityError(f"a list has more than {MAX_STEPS} values")
        yield value


def _check_replace(text: str, old: str, new: str) -> None:
    _check_size(len(text) + text.count(old) * len(new))


def _check_text(value: Any) -> Any:
    """The value, if it stays within MAX_SIZE written out: a list may hold one text many times."""
    if _has_length(value):
        _measure(value, 0)
    return value


def _measure(value: Any, size: int) -> int:
    size += 1
    if isinstance(value, (str, bytes)):
        size += len(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            size = _measure(item, _measure(key, size))
    elif isinstance(value, (list, tuple)):
        for item in value:
            size = _measure(item, size)
    elif isinstance(value, range):
        size += 8 * len(value)
    _check_size(size)
    return size


def _check_size(size: int) -> None:
    if size > MAX_SIZE:
        raise SecurityError(f"a value has more than {MAX_SIZE} characters")
