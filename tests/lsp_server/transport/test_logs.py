import logging
import os
import stat

import pytest

from engine.errors import HearthError
from lsp_server.transport import logs


@pytest.fixture(autouse=True)
def restored_loggers():
    """Logging is global: put it back as it was."""
    loggers = [logging.getLogger(name) for name in ("lsp_server", "engine", "pygls")]
    kept = [(logger, logger.level, logger.propagate, [*logger.handlers]) for logger in loggers]
    yield
    for logger, level, propagate, handlers in kept:
        for handler in {*logger.handlers} - {*handlers}:
            handler.close()
        logger.level, logger.propagate, logger.handlers = level, propagate, handlers
        logger.manager._clear_cache()


def test_each_process_has_a_file_of_its_own_in_a_private_folder(tmp_path):
    path = logs.start_logging(tmp_path / "logs")
    logging.getLogger("lsp_server.x").info("hello")
    assert path.name == f"lsp-{os.getpid()}.log"
    assert "hello" in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_level_is_kept(tmp_path):
    path = logs.start_logging(tmp_path, "warning")
    logging.getLogger("lsp_server.x").info("quiet")
    logging.getLogger("engine.x").warning("loud")
    assert path.read_text(encoding="utf-8").count("\n") == 1


def test_a_file_that_grows_too_large_is_rotated(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "MAX_BYTES", 1000)
    path = logs.start_logging(tmp_path)
    for _ in range(100):
        logging.getLogger("lsp_server.x").info("x" * 50)
    assert path.stat().st_size <= 1000
    assert len(list(tmp_path.iterdir())) == 1 + logs.BACKUPS


def test_files_of_old_processes_go(tmp_path):
    for age in range(30):
        file = tmp_path / f"lsp-1{age}.log"
        file.touch()
        os.utime(file, (1000 - age, 1000 - age))
    logs.start_logging(tmp_path)
    assert len(list(tmp_path.iterdir())) == logs.KEPT_FILES + 1
    assert (tmp_path / "lsp-10.log").exists()


def test_the_words_of_foreign_exceptions_are_left_out_and_ours_kept():
    def described(error):
        try:
            raise error
        except Exception as caught:  # noqa: BLE001
            return logs.describe(caught)

    foreign = described(ValueError("hunter2"))
    assert "hunter2" not in foreign
    assert "ValueError" in foreign
    assert "test_logs.py" in foreign
    assert "No disk space." in described(HearthError("No disk space."))
