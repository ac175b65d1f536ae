"""The disk tier's two threads: what is saved outlives a restart, and no fault of the disk stops anything."""

import errno
import shutil
import threading

import numpy as np
import pytest

from engine.errors import SettingsError
from engine.generation import chunk_files, disk_tier
from engine.generation.chunk_files import HEADER, ChunkFiles
from engine.generation.chunk_keys import CHUNK_PAGES
from engine.generation.disk_tier import DiskRoom, DiskTier, open_disk_tier, purge

PATIENCE = 20.0
LIMIT = 1 << 20


class Pages:
    page_tokens, page_bytes, kv_format = 4, 16, "f16"


CHUNK = CHUNK_PAGES * Pages.page_tokens
FILE_BYTES = HEADER.size + CHUNK_PAGES * Pages.page_bytes


@pytest.fixture
def tier(tmp_path):
    """tier(content=, ...): an open tier, which is closed after the test."""
    made = []

    def make(content="a" * 64, limit=LIMIT, folder=lambda: tmp_path / "kv", **options):
        value = content if callable(content) else lambda: content
        tier = DiskTier(Pages(), value, folder, limit, **options)
        made.append(tier)
        wait_open(tier)
        return tier

    yield make
    for one in made:
        one.close(PATIENCE)


def wait_open(t):
    changed = threading.Event()
    t.wake = changed.set
    for _ in range(200):
        if t.metrics().state != "opening":
            return
        changed.wait(0.1)
    raise AssertionError("it does not open")


def tokens(chunks, seed=0):
    return np.random.default_rng(seed).integers(0, 100, chunks * CHUNK + 3).astype(np.int32)


def pages(n):
    return np.full((CHUNK_PAGES, Pages.page_bytes), n, np.uint8)


def save(tier, keys, first=0):
    for index in range(first, len(keys)):
        tier.save(keys, index, lambda index=index: pages(index))
    settle(tier)


def settle(tier):
    changed = threading.Event()
    tier.wake = changed.set
    while not tier.settled:
        changed.wait(PATIENCE)
        changed.clear()


def restored(tier, keys):
    """The chunks that come, and whether all did."""
    changed = threading.Event()
    tier.wake = changed.set
    restore, got = tier.restore(keys), []
    while not restore.ended:
        chunk = restore.take()
        if chunk is not None:
            got.append(int(chunk[0, 0]))
            assert chunk.shape == (CHUNK_PAGES, Pages.page_bytes)
            assert len(set(chunk.flat)) == 1
        else:
            changed.wait(PATIENCE)
            changed.clear()
    return got, restore.complete


def test_what_was_saved_is_there_after_a_restart(tier):
    first = tier()
    keys = first.keys(tokens(10))
    save(first, keys)
    first.close(PATIENCE)
    second = tier()
    assert second.known(keys) == 10
    assert restored(second, keys[3:]) == (list(range(3, 10)), True)
    assert second.metrics().reads == 7


def test_prefixes_share_chunks_and_branches_do_not(tier):
    t = tier()
    a, b = tokens(4), tokens(4)
    b[2 * CHUNK] += 1
    save(t, t.keys(a))
    assert t.known(t.keys(b)) == 2
    writes = t.metrics().writes
    save(t, t.keys(b))
    assert t.metrics().writes == writes + 2


def test_issue_361_another_model_over_the_same_folder_finds_nothing(tier):
    one, other = tier("a" * 64), tier("b" * 64)
    save(one, one.keys(tokens(2)))
    assert other.known(other.keys(tokens(2))) == 0


def test_until_the_content_is_known_nothing_is_found_or_saved(tier, tmp_path):
    go_on = threading.Event()

    def content():
        assert go_on.wait(PATIENCE)
        return "a" * 64

    t = DiskTier(Pages(), content, lambda: tmp_path / "kv", LIMIT)
    assert t.metrics().state == "opening"
    assert t.keys(tokens(2)) == []
    assert not t.writable
    t.save([b"k" * 32], 0, lambda: pytest.fail("copied for nothing"))
    assert not (tmp_path / "kv").exists()
    t.close(PATIENCE)

    def refuse():
        raise OSError(0, "it has changed")

    changed = tier(refuse)
    go_on.set()
    assert changed.metrics().state == "off"
    assert "it has changed" in changed.metrics().message


def test_a_folder_that_cannot_be_used_is_said_and_costs_nothing(tier):
    def refuse():
        raise SettingsError("No folder.")

    t = tier(folder=refuse)
    assert t.metrics().state == "off"
    assert "in memory alone: No folder." in t.metrics().message
    assert t.keys(tokens(1)) == []


def test_a_chunk_that_is_gone_or_broken_ends_the_restore_there(tier, tmp_path):
    t = tier()
    keys = t.keys(tokens(6))
    save(t, keys)
    broken = tmp_path / "kv" / f"{keys[2].hex()}.kv"
    broken.write_bytes(broken.read_bytes()[:-1])
    assert restored(t, keys) == ([0, 1], False)
    assert t.metrics().read_failures == 1
    assert t.known(keys) == 2
    save(t, keys, 2)
    assert restored(t, keys) == (list(range(6)), True)


def test_issue_380_a_chunk_counts_only_once_it_is_on_the_disk(tier, monkeypatch):
    t = tier()
    keys = t.keys(tokens(2))
    writing, go_on = threading.Event(), threading.Event()
    write = ChunkFiles.write

    def slow(files, key, payload):
        writing.set()
        assert go_on.wait(PATIENCE)
        write(files, key, payload)

    monkeypatch.setattr(ChunkFiles, "write", slow)
    t.save(keys, 0, lambda: pages(0))
    assert writing.wait(PATIENCE)
    assert t.known(keys) == 0
    assert t.has(keys[0])
    t.save(keys, 0, lambda: pytest.fail("copied twice"))
    go_on.set()
    settle(t)
    assert t.known(keys) == 1


def test_a_full_disk_ends_the_writing_for_a_while_and_nothing_else(tier, monkeypatch):
    now = 0.0
    t = tier(clock=lambda: now)
    write = ChunkFiles.write
    keys = t.keys(tokens(4))
    save(t, keys[:2])

    def full(files, key, payload):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ChunkFiles, "write", full)
    save(t, keys, 2)
    metrics = t.metrics()
    assert (metrics.state, metrics.write_failures) == ("read-only", 1)
    assert "No space left on device" in metrics.message
    assert restored(t, keys[:2]) == ([0, 1], True)
    assert not t.has(keys[2])
    assert t.lost == 2
    t.save(keys, 3, lambda: pytest.fail("copied for nothing"))
    now = disk_tier.RETRY_SECONDS - 1
    assert not t.writable
    now = disk_tier.RETRY_SECONDS
    save(t, keys, 2)  # it is still full
    metrics = t.metrics()
    assert (metrics.state, metrics.write_failures, t.lost) == ("read-only", 2, 4)
    monkeypatch.setattr(ChunkFiles, "write", write)
    t.save(keys, 2, lambda: pytest.fail("copied for nothing"))
    now = 2 * disk_tier.RETRY_SECONDS
    save(t, keys, 2)
    metrics = t.metrics()
    assert (metrics.state, metrics.message, t.lost) == ("ready", "", 4)
    assert restored(t, keys) == ([0, 1, 2, 3], True)


def test_a_folder_that_was_deleted_is_made_again(tier, tmp_path):
    """People clear their caches while the daemon runs on for weeks."""
    t = tier()
    keys = t.keys(tokens(4))
    save(t, keys[:2])
    shutil.rmtree(tmp_path / "kv")
    save(t, keys, 2)
    metrics = t.metrics()
    assert (metrics.state, metrics.write_failures, metrics.writes) == ("ready", 0, 4)
    assert [t.has(key) for key in keys] == [False, False, True, True]
    save(t, keys)
    assert restored(t, keys) == ([0, 1, 2, 3], True)
    assert (tmp_path / "kv").stat().st_mode & 0o777 == 0o700


def test_something_in_the_folders_place_ends_the_writing_and_nothing_else(tier, tmp_path, monkeypatch):
    t = tier()
    keys = t.keys(tokens(2))
    shutil.rmtree(tmp_path / "kv")

    def gone_and_replaced(files, key, payload):
        (tmp_path / "kv").write_text("in the way")
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(ChunkFiles, "write", gone_and_replaced)
    save(t, keys)
    metrics = t.metrics()
    assert (metrics.state, metrics.write_failures) == ("read-only", 1)
    assert "cannot hold the KV cache" in metrics.message
    assert restored(t, keys[:1]) == ([], False)


def test_more_than_the_queue_holds_is_dropped(tier, monkeypatch):
    monkeypatch.setattr(disk_tier, "QUEUE_BYTES", 2 * CHUNK_PAGES * Pages.page_bytes)
    t = tier()
    keys = t.keys(tokens(5))
    go_on = threading.Event()
    write = ChunkFiles.write
    monkeypatch.setattr(ChunkFiles, "write", lambda *args: (go_on.wait(PATIENCE), write(*args)))
    for index in range(5):
        t.save(keys, index, lambda: pages(1))
    assert t.metrics().dropped == 3
    assert not t.has_room
    go_on.set()
    t.wait_for_room(PATIENCE)
    assert t.has_room
    settle(t)
    assert t.known(keys) == 2


def test_a_restore_reads_ahead_no_further_than_it_may_and_ends_when_cancelled(tier, monkeypatch):
    t = tier()
    keys = t.keys(tokens(12))
    save(t, keys)
    ahead = threading.Event()
    t.wake = lambda: ahead.set() if t.metrics().reads >= disk_tier.READ_AHEAD else None
    first = t.restore(keys)
    assert ahead.wait(PATIENCE)
    first.cancel()
    # The next one is served by the same thread, so the first has let go of it.
    assert restored(t, keys[:1]) == ([0], True)
    assert t.metrics().reads <= disk_tier.READ_AHEAD + 2


def test_the_limit_is_kept_while_writing(tier):
    t = tier(limit=2000)
    for seed in range(10):
        save(t, t.keys(tokens(3, seed)))
    assert t.metrics().bytes <= 2000
    newest = t.keys(tokens(3, 9))
    assert t.known(newest) == 3
    assert t.known(t.keys(tokens(3, 0))) == 0


def test_issue_452_what_a_new_chunk_stands_on_is_as_new_as_it(tier, monkeypatch):
    """A conversation that goes on keeps its beginning, which was written long before other things."""
    now = [10**18]
    monkeypatch.setattr(chunk_files.time, "time_ns", lambda: now[0])
    t = tier(limit=9 * 148)  # nine chunks
    conversation = t.keys(tokens(6))
    save(t, conversation[:2])
    for n in range(1, 5):
        now[0] += 10**9
        save(t, t.keys(tokens(1, n)))
        now[0] += 10**9
        save(t, conversation[: 2 + n], 1 + n)
    for n in range(5, 8):
        now[0] += 10**9
        save(t, t.keys(tokens(1, n)))
    assert t.known(conversation) >= 4
    assert not any(t.known(t.keys(tokens(1, n))) for n in (1, 2))


def test_files_of_another_process_are_found_in_time(tier):
    mine, other = tier(), tier()
    theirs = other.keys(tokens(2, 1))
    save(other, theirs)
    assert mine.known(theirs) == 0
    for seed in range(2, 2 + disk_tier.RESCAN_WRITES):
        save(mine, mine.keys(tokens(1, seed)))
    assert mine.known(theirs) == 2


def test_the_models_content_is_its_whole_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HEARTH_HOME", str(tmp_path / "home"))
    model = tmp_path / "model.gguf"
    roots = set()
    for content in (b"x" * 5000, b"x" * 4999 + b"y"):
        model.write_bytes(content)
        t = open_disk_tier(model, Pages())
        save_keys(t, roots)
    assert len(roots) == 2
    assert open_disk_tier(model, None) is None
    assert open_disk_tier(model, Pages(), DiskRoom(limit=0)) is None
    assert open_disk_tier(tmp_path / "gone.gguf", Pages()) is None


def test_the_user_may_choose_the_folder_and_its_size(tmp_path, monkeypatch):
    monkeypatch.setenv("HEARTH_HOME", str(tmp_path / "home"))
    model = tmp_path / "model.gguf"
    model.write_bytes(b"x")
    t = open_disk_tier(model, Pages(), DiskRoom(4 * FILE_BYTES, tmp_path / "elsewhere" / "kv"))
    wait_open(t)
    keys = t.keys(tokens(20))
    save(t, keys)
    kept = sum(file.stat().st_size for file in (tmp_path / "elsewhere/kv").iterdir())
    t.close(PATIENCE)
    assert 0 < kept <= 4 * FILE_BYTES
    assert t.metrics().writes == 20
    assert not (tmp_path / "home").exists() or not (tmp_path / "home/cache").exists()


def save_keys(t, roots):
    wait_open(t)
    roots.add(t.keys(tokens(1))[0])
    t.close(PATIENCE)


def test_a_model_file_that_changes_while_it_is_hashed_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("HEARTH_HOME", str(tmp_path / "home"))
    model = tmp_path / "model.gguf"
    model.write_bytes(b"old")

    def changed(path):
        path.write_bytes(b"newer")
        return "a" * 64

    monkeypatch.setattr(disk_tier, "checked_sha256", changed)
    t = open_disk_tier(model, Pages())
    wait_open(t)
    assert t.metrics().state == "off"
    assert "has changed since it was loaded" in t.metrics().message


def test_purge_empties_the_users_cache(tmp_path, monkeypatch, tier):
    monkeypatch.setenv("HEARTH_HOME", str(tmp_path / "home"))
    assert purge() == 0
    t = tier(folder=disk_tier.kv_folder)
    keys = t.keys(tokens(3))
    save(t, keys)
    assert purge() > 0
    assert restored(t, keys) == ([], False), "a running engine goes on"
    assert purge() == 0
