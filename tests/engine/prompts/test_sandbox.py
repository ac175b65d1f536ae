"""A hostile chat template reaches nothing, and neither runs for ever nor fills the memory."""

from datetime import datetime

import jinja2
import pytest

from engine.prompts import sandbox
from engine.prompts.sandbox import Sandbox

VALUES = {"messages": [{"role": "user", "content": "hello"}], "tools": None, "text": "x" * 1000}
SURPRISES = (jinja2.TemplateError, TypeError, ValueError, RecursionError, LookupError, SyntaxError)


def render(source, **values):
    return Sandbox(lambda: datetime(2026, 12, 1)).render(source, VALUES | values)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ messages | map(attribute='__class__') | list }}",
        "{{ (messages | first).__init__.__globals__ }}",
        "{{ range.__self__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__func__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ namespace.__init__ }}",
        "{% set n = namespace() %}{{ n.__class__ }}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ lipsum.__globals__ }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ '{:>99999999}'.format(1) }}",
        "{{ '%99999999d' % 1 }}",
        "{{ 'x'.encode() }}",
        "{{ 'x'.center(99999999) }}",
        "{{ 'x' | center(99999999) }}",
        "{{ 'x' | attr('__class__') }}",
        "{% include '/etc/passwd' %}",
        "{% import '/etc/passwd' as p %}",
        "{% from 'x' import y %}",
        "{% extends '/etc/passwd' %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'x'}) }}",
        "{{ 9 ** 9 ** 9 }}",
    ],
)
def test_nothing_is_reached(source):
    try:
        text = render(source)
    except SURPRISES:
        return
    assert text in ("", "[Undefined]")


_NEST = "{% set n = namespace(x=[text]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}"


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(999999999) %}{% endfor %}",
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "{% for a in text %}{% for b in text %}{% for c in text %}{% endfor %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ 'x' * 999999999 }}",
        "{{ [1] * 999999999 }}",
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x='ab') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% set n = namespace(x=[text]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
        _NEST + "{{ n.x }}",
        _NEST + "{{ n.x | tojson }}",
        _NEST + "{{ n.x | string }}",
        "{{ text.replace('x', text).replace('x', text).replace('x', text) }}",
        "{{ text | replace('x', text) | replace('x', text) | replace('x', text) }}",
        "{{ (text * 1000).join(text) }}",
        "{{ text | join(text * 1000) }}",
        "{{ (text * 1000) | replace('x', '\n') | indent(999999) }}",
        "{% for i in range(9999) %}{{ text }}{% endfor %}",
        "{% set n = namespace(x=9) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}{{ n.x }}",
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
        "{{ 1 }}" * 40_000,
    ],
)  # fmt: skip
def test_nothing_runs_away(source):
    with pytest.raises(SURPRISES):
        render(source)


def test_the_clock_ends_what_the_counts_do_not(monkeypatch):
    monkeypatch.setattr(sandbox, "MAX_SECONDS", -1.0)
    with pytest.raises(jinja2.TemplateError, match="seconds"):
        render("{% for a in [1] %}{% endfor %}")


def test_what_real_templates_use_works():
    source = (
        "{%- set ns = namespace(found=false) -%}"
        "{%- for m in messages if m.role == 'user' -%}"
        "{%- if loop.first and not loop.last -%}never{%- endif -%}"
        "{{- loop.index0 ~ m['role'] | upper ~ m.content.strip() -}}"
        "{%- if 'ell' in m.content and m.content.startswith('h') -%}{%- set ns.found = true -%}{%- endif -%}"
        "{%- break -%}"
        "{%- endfor -%}"
        "{{- ns.found -}}{{- messages[::-1] | length -}}"
        "{{- messages | selectattr('role', 'equalto', 'user') | list | length -}}"
        "{{- {'b': 'é<', 'a': [1, 2.5, none]} | tojson -}}{{- {'a': 1} | tojson(indent=2) -}}"
        "{{- ['a', 'b'] | join(', ') -}}{{- ', '.join(['c', 'd']) -}}{{- 'a b'.split(' ')[-1] -}}"
        "{%- for key, value in {'k': 'v'}.items() -%}{{- key + value -}}{%- endfor -%}"
        "{{- undefined_name is defined -}}{{- 7 // 2 + 7 % 4 -}}{{- '=' * 3 -}}"
        "{%- macro greet(name, mark='!') -%}{{ name + mark }}{%- endmacro -%}{{- greet('hi') -}}"
        "{{- 'a\nb' | indent(2) -}}{{- tools if tools else 'none' -}}"
    )  # fmt: skip
    assert render(source) == (
        '0USERhelloTrue11{"b": "é<", "a": [1, 2.5, null]}{\n  "a": 1\n}a, bc, dbkvFalse6===hi!a\n  bnone'
    )


def test_text_is_not_escaped_for_html():
    assert render("{{ x }}", x="<a href='b'>&\"") == "<a href='b'>&\""
