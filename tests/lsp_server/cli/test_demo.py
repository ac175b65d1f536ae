"""`hearth demo` against a scripted server: what it asks, shows, and says when things go wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
from importlib import resources
from pathlib import Path

import pytest
from rich.console import Console

from engine.errors import EngineUnavailable, HearthError
from lsp_server.cli.demo import run
from lsp_server.demo.client import ServerGone
from lsp_server.demo.holes import SampleError, default_folder, load_holes

# Answers one inline completion after another from its script, and logs every message that it gets.
SERVER = """
import json, sys
script = json.load(open(sys.argv[1]))
log = open(script["log"], "a")

def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
    sys.stdout.buffer.flush()

answers = iter(script["answers"])
while True:
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        length = int(line.split(b":")[1])
    if not length:
        break
    message = json.loads(sys.stdin.buffer.read(length))
    log.write(json.dumps(message) + "\\n"); log.flush()
    method, number = message.get("method"), message.get("id")
    if method == "initialized":
        send({"id": 900, "method": "workspace/configuration", "params": {"items": [{}, {}]}})
        for status in script["statuses"]:
            send({"method": "didChangeStatus", "params": status})
    elif method == "textDocument/inlineCompletion":
        answer = next(answers)
        if answer == "die":
            print("out of luck", file=sys.stderr)
            sys.exit(3)
        if answer == "garbage":
            sys.stdout.buffer.write(b"hello\\r\\n\\r\\n"); sys.stdout.buffer.flush()
            continue
        send({"id": number, "result": answer})
    elif method == "workspace/executeCommand":
        send({"id": number, "result": script["explanation"]})
    elif method == "exit":
        break
    elif number is not None and method:
        send({"id": number, "result": {"capabilities": {}} if method == "initialize" else None})
"""
READY = [
    {"busy": True, "message": "Loading", "kind": "Normal"},
    {"busy": False, "message": "", "kind": "Normal"},
]


class Scripted:
    """A scripted server and a samples folder with two holes in one file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log.jsonl"
        (folder / "samples").mkdir()
        (folder / "samples" / "one.py").write_text('"""😀"""\nx = ("😀", 1)\ny = x + 2\n', encoding="utf-8")
        self.holes('remove = "1)"', 'remove = "x + 2"')

    def holes(self, *removes: str) -> None:
        text = "".join(
            f'[[hole]]\nfile = "one.py"\ntitle = "t"\n{one}\nhints = ["x", "2"]\n' for one in removes
        )
        (self.folder / "samples" / "holes.toml").write_text(text)

    async def run(
        self, *answers: object, statuses: object = READY, explanation: object = None
    ) -> tuple[int, str]:
        (self.folder / "server.py").write_text(SERVER)
        script = self.folder / "script.json"
        script.write_text(
            json.dumps(
                {
                    "log": str(self.log),
                    "answers": answers,
                    "statuses": statuses,
                    "explanation": {"text": "", "data": explanation},
                }
            )
        )
        screen = io.StringIO()
        console = Console(file=screen, width=100, highlight=False)
        command = (sys.executable, str(self.folder / "server.py"), str(script))
        missed = await run(console, command, self.folder / "samples")
        return missed, screen.getvalue()

    def sent(self, method: str) -> list[dict]:
        messages = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [one["params"] for one in messages if one.get("method") == method]


@pytest.fixture
def scripted(tmp_path: Path) -> Scripted:
    return Scripted(tmp_path)


def item(text: str, line: int, start: int, end: int) -> dict:
    where = {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
    return {"items": [{"insertText": text, "range": where}]}


async def test_shows_ghost_text_time_and_speed(scripted: Scripted) -> None:
    sample = {"tokens": 11, "first_piece_s": 0.3, "elapsed_s": 0.5}
    missed, screen = await scripted.run(
        item('x = ("😀", 1)', 1, 0, 11),  # repeats what is typed, in UTF-16 columns, as a range may
        [{"insertText": "x +\n    2"}],  # the bare list form, without a range
        explanation={"reason": "", "trace": {"samples": [sample]}},
    )
    assert missed == 0
    lines = [line.rstrip() for line in screen.splitlines()]
    assert '▌   2 x = ("😀", «1)»' in lines
    assert "    3 y =" in lines[lines.index('▌   2 x = ("😀", «1)»') + 1]
    assert "▌   3 y = «x +" in lines
    assert "▌   4     2»" in lines
    assert "50 tokens/s" in screen
    assert "x +  (+1 lines)" in screen
    assert "2/2" in screen


async def test_covered_text_is_not_shown_twice(scripted: Scripted) -> None:
    scripted.holes('remove = "x + "')
    missed, screen = await scripted.run(item("x + 3", 2, 4, 5))  # replaces the 2 after the cursor
    assert missed == 0
    assert "▌   3 y = «x + 3»\n" in screen


async def test_asks_as_an_editor_does(scripted: Scripted) -> None:
    await scripted.run(item("1)", 1, 11, 11), item("x", 2, 4, 4))
    opened = scripted.sent("textDocument/didOpen")
    assert [one["textDocument"]["text"] for one in opened] == ['"""😀"""\nx = ("😀", \ny = x + 2\n']
    assert opened[0]["textDocument"]["languageId"] == "python"
    changed = scripted.sent("textDocument/didChange")
    assert [one["textDocument"]["version"] for one in changed] == [2]
    assert changed[0]["contentChanges"][0]["text"].endswith("1)\ny = \n")
    asked = scripted.sent("textDocument/inlineCompletion")
    assert [one["position"] for one in asked] == [{"line": 1, "character": 11}, {"line": 2, "character": 4}]
    assert {one["context"]["triggerKind"] for one in asked} == {2}
    assert len(scripted.sent("shutdown")) == len(scripted.sent("exit")) == 1


@pytest.mark.parametrize("nothing", [None, [], {"items": []}])
async def test_counts_places_without_a_suggestion_and_says_why(scripted: Scripted, nothing: object) -> None:
    missed, screen = await scripted.run(
        nothing, [{"insertText": "x"}], explanation={"reason": "Too unlikely."}
    )
    assert missed == 1
    assert "No suggestion after" in screen
    assert "Too unlikely." in screen


async def test_a_model_that_does_not_load_is_told_in_the_servers_words(scripted: Scripted) -> None:
    statuses = [READY[0], {"busy": False, "message": "The model file is damaged.", "kind": "Error"}]
    with pytest.raises(EngineUnavailable, match=r"The model file is damaged\."):
        await scripted.run(statuses=statuses)


async def test_a_server_that_dies_is_told_with_its_last_words(scripted: Scripted) -> None:
    with pytest.raises(ServerGone, match=r"(?s)exit code 3.*out of luck"):
        await scripted.run("die")


async def test_a_server_that_does_not_speak_the_protocol(scripted: Scripted) -> None:
    with pytest.raises(ServerGone, match="not the protocol"):
        await scripted.run("garbage")


async def test_a_suggestion_that_does_not_fit_is_an_error(scripted: Scripted) -> None:
    with pytest.raises(ServerGone, match="does not fit"):
        await scripted.run(item("something else", 1, 0, 11))


async def test_a_server_that_cannot_be_started(scripted: Scripted) -> None:
    with pytest.raises(ServerGone, match="cannot be started"):
        await run(Console(file=io.StringIO()), ("/does/not/exist",), scripted.folder / "samples")


@pytest.mark.parametrize(
    ("listing", "words"),
    [
        ("[[hole]]\nfile = 'one.py'\ntitle = 't'\nremove = 'x'\nhints = []", "occurs 2 times"),
        ("[[hole]]\nfile = 'gone.py'\ntitle = 't'\nremove = 'x'\nhints = []", "cannot be read"),
        ("[[hole]]\nfile = 'one.py'\n", "not a list of holes"),
        ("hole = []", "not a list of holes"),
        ("]", "not a list of holes"),
    ],
)
def test_wrong_samples_are_told(scripted: Scripted, listing: str, words: str) -> None:
    (scripted.folder / "samples" / "holes.toml").write_text(listing)
    with pytest.raises(SampleError, match=words):
        load_holes(scripted.folder / "samples")


def test_missing_samples_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SampleError) as caught:
        load_holes(tmp_path)
    assert "--samples" in caught.value.action
    assert isinstance(caught.value, HearthError)


def test_the_samples_are_a_part_of_the_package() -> None:
    """What lies inside the package goes into the wheel, so that the demo needs no source tree."""
    listing = resources.files("lsp_server") / "demo" / "samples" / "holes.toml"
    assert listing.read_bytes() == (default_folder() / "holes.toml").read_bytes()


def test_the_bundled_samples_have_holes_in_three_languages() -> None:
    holes = load_holes(default_folder())
    assert {hole.language for hole in holes} == {"python", "typescript", "rust"}
    for hole in holes:
        assert all(hint in hole.removed for hint in hole.hints), hole.title


def test_the_bundled_python_sample_works() -> None:
    program = textwrap.dedent("""
        from datetime import date
        from pathlib import Path
        from tempfile import TemporaryDirectory
        from ledger.entries import Entry, load, parse_cents, save
        from ledger.report import as_table, balance, largest, month_of

        entries = [Entry(date(2026, 1, 2), "food", parse_cents("-12.5")), Entry(date(2026, 2, 2), "pay", 7)]
        with TemporaryDirectory() as folder:
            save(Path(folder, "ledger.csv"), entries)
            assert load(Path(folder, "ledger.csv")) == entries
        assert balance(entries, "food") == -1250
        assert month_of(entries, 2026, 2) == entries[1:]
        assert largest(entries, 1) == entries[:1]
        assert as_table(entries).splitlines()[0].endswith("-12.50")
    """)
    subprocess.run([sys.executable, "-c", program], check=True, cwd=default_folder() / "python")
