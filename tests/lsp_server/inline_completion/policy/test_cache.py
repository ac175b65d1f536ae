import pytest

from lsp_server.inline_completion.policy.cache import Key, SuggestionCache

KEY = Key("file:///a", "python", "auto", ())


@pytest.fixture
def kept(cursor_at):
    def make(document, text, covers=0):
        cache = SuggestionCache()
        cache.add(KEY, cursor_at(document), text, covers)
        return cache

    return make


def texts(hits):
    return [(hit.text, hit.covers) for hit in hits]


@pytest.mark.parametrize("typed", range(len("foo(x)")))
def test_every_beginning_hits(kept, cursor_at, typed):
    cache = kept("y = ¦\nz\n", "foo(x)")
    hits = cache.find(KEY, cursor_at(f"y = {'foo(x)'[:typed]}¦\nz\n"))
    assert texts(hits) == [("foo(x)"[typed:], 0)]


@pytest.mark.parametrize(
    "document",
    [
        "y = foo(x)¦\nz\n",  # nothing is left
        "y = fa¦\nz\n",  # typed otherwise
        "y = ¦\nzz\n",  # the text below changed
        "x = ¦\nz\n",  # the text before changed
        " y = ¦\nz\n",
        "y =¦\nz\n",  # before the place of the suggestion
        "y = fo¦\nz",
    ],
)
def test_misses(kept, cursor_at, document):
    assert kept("y = ¦\nz\n", "foo(x)").find(KEY, cursor_at(document)) == []


def test_the_editor_closed_a_bracket(kept, cursor_at):
    cache = kept("y = ¦\n", "foo(x)")
    assert texts(cache.find(KEY, cursor_at("y = foo(¦)\n"))) == [("x)", 1)]


def test_the_editor_closed_bracket_and_quote(kept, cursor_at):
    cache = kept("y = ¦\n", "foo('x')")
    assert texts(cache.find(KEY, cursor_at("y = foo('¦')\n"))) == [("x')", 2)]


def test_a_closed_bracket_that_the_rest_does_not_close_is_a_miss(kept, cursor_at):
    cache = kept("y = ¦\n", "foo(x")
    assert cache.find(KEY, cursor_at("y = foo(¦)\n")) == []


def test_a_covered_bracket_was_typed_over(kept, cursor_at):
    cache = kept("foo(¦)\n", "x) + 1", covers=1)
    assert texts(cache.find(KEY, cursor_at("foo(x)¦\n"))) == [(" + 1", 0)]


def test_covered_brackets_stay_covered(kept, cursor_at):
    cache = kept("foo(¦)\n", "x)", covers=1)
    assert texts(cache.find(KEY, cursor_at("foo(x¦)\n"))) == [(")", 1)]


def test_far_text_counts_by_its_length(kept, cursor_at):
    far = "# far away\n" * 1000
    cache = kept(far + "y = ¦\n", "foo")
    assert cache.find(KEY, cursor_at(far + "y = f¦\n"))
    assert cache.find(KEY, cursor_at("# more\n" + far + "y = f¦\n")) == []


def test_line_ends_do_not_matter(kept, cursor_at):
    cache = kept("a\ny = ¦\nz\n", "foo\nbar")
    assert texts(cache.find(KEY, cursor_at("a\r\ny = foo\r\nb¦\r\nz\r\n"))) == [("ar", 0)]


@pytest.mark.parametrize(
    "key",
    [
        Key("file:///b", "python", "auto", ()),
        Key("file:///a", "rust", "auto", ()),
        Key("file:///a", "python", "multi", ()),
    ],
)
def test_other_keys_miss(kept, cursor_at, key):
    assert kept("y = ¦\n", "foo").find(key, cursor_at("y = ¦\n")) == []


def test_the_least_recently_used_goes_first(cursor_at):
    cache = SuggestionCache(capacity=2)
    cache.add(KEY, cursor_at("a = ¦\n"), "1", 0)
    cache.add(KEY, cursor_at("b = ¦\n"), "2", 0)
    assert cache.find(KEY, cursor_at("a = ¦\n"))
    cache.add(KEY, cursor_at("c = ¦\n"), "3", 0)
    assert cache.find(KEY, cursor_at("a = ¦\n"))
    assert cache.find(KEY, cursor_at("b = ¦\n")) == []


def test_forget_drops_one_document(cursor_at):
    cache = SuggestionCache()
    other = Key("file:///b", "python", "auto", ())
    cache.add(KEY, cursor_at("a = ¦\n"), "1", 0)
    cache.add(other, cursor_at("a = ¦\n"), "2", 0)
    cache.forget(KEY.uri)
    assert cache.find(KEY, cursor_at("a = ¦\n")) == []
    assert texts(cache.find(other, cursor_at("a = ¦\n"))) == [("2", 0)]
