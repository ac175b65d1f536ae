"""Nothing of a user's text reaches the log, whoever logs it and however."""

import asyncio
import logging
import sys
import threading

import pytest

from engine.errors import RequestError
from engine.service import logs

CANARY = "canary-in-the-source"


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Start logging at debug level; read(): what the file holds."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    names = ("engine", *logs._TOO_TALKATIVE)
    levels = {name: logging.getLogger(name).level for name in names}
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    path = logs.start_logging(tmp_path, "debug")
    yield lambda: path.read_text()
    for handler in root.handlers:
        handler.close()
    root.handlers[:], root.level = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def fail(kind=ValueError):
    try:
        raise KeyError(CANARY)
    except KeyError as error:
        raise kind(f"cannot use {CANARY}") from error


def test_exceptions_are_kinds_and_places(read):
    for logger in ("engine.x", "uvicorn.error", "some.library"):
        for kind in (ValueError, RequestError):
            try:
                fail(kind)
            except (ValueError, RequestError):
                logging.getLogger(logger).exception("it failed")
    text = read()
    assert CANARY not in text
    assert text.count("ValueError") == text.count("RequestError") == 3
    assert text.count("KeyError") == 6
    assert "test_logs.py" in text
    assert "in fail" in text


def test_values_of_other_libraries_are_left_out(read):
    logging.getLogger("uvicorn.error").warning("Invalid request from %s", CANARY)
    logging.getLogger("uvicorn.error").warning(f"put together with {CANARY}")
    logging.getLogger("some.library").warning({"a": CANARY})
    logging.getLogger("uvicorn.access").critical("GET %s", CANARY)
    logging.getLogger("engine.x").debug("ours is kept: %s tokens", 3)
    text = read()
    assert CANARY not in text
    assert "Invalid request from %s" in text
    assert text.count("(message left out)") == 2
    assert "ours is kept: 3 tokens" in text


async def test_forgotten_tasks_do_not_quote_their_exception(read):
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(logs.log_unhandled)

    async def doomed():
        fail()

    task = asyncio.create_task(doomed())
    await asyncio.wait({task})
    del task
    assert "background work failed: ValueError" in read()
    logging.getLogger("asyncio").error(f"Task exception was never retrieved {CANARY}")
    assert CANARY not in read()


def test_threads_and_the_end_of_the_process_do_not_quote_theirs(read, capfd):
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    try:
        fail()
    except ValueError:
        sys.excepthook(*sys.exc_info())
    text = read()
    assert "a thread failed: ValueError" in text
    assert "the daemon ended" in text
    assert CANARY not in text
    assert capfd.readouterr() == ("", "")


def test_a_record_is_the_same_for_other_handlers(read):
    seen = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())
    root = logging.getLogger()
    root.addHandler(handler)
    logging.getLogger("some.library").warning("hello %s", "you")
    root.removeHandler(handler)
    assert seen == ["hello you"]


def test_the_file_is_private_and_rotates(read, tmp_path, monkeypatch):
    monkeypatch.setattr(logging.getLogger().handlers[0], "maxBytes", 300)
    for number in range(40):
        logging.getLogger("engine.x").info("line %s", number)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["daemon.log", "daemon.log.1", "daemon.log.2", "daemon.log.3"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())
    assert "line 39" in read()


def test_a_full_disk_costs_lines_only(read, capfd, tmp_path):
    handler = logging.getLogger().handlers[0]
    handler.stream.close()
    handler.stream = open("/dev/full", "w")  # noqa: SIM115, PTH123 - the device that is always full
    logging.getLogger("engine.x").warning("lost %s", CANARY)
    handler.stream = None
    logging.getLogger("engine.x").warning("kept")
    assert "kept" in read()
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_cannot_be_written_to_costs_the_log_only(read, capfd):
    logs.start_logging(logs.Path("/proc"))
    logging.getLogger("engine.x").warning("lost")
    assert "There will be no log" in capfd.readouterr().err
