"""`python -m engine.service`: the daemon as clients start it. People use `hearth serve`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from engine.errors import HearthError
from engine.service import daemon
from engine.service.settings import read_settings
from engine.service.wire import error_to_json


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 served to the end, or another daemon runs already; 1 could not start.

    One line of JSON goes to the descriptor named by --report-fd: {"ready": true} once clients can connect, or
    the error. Then it is closed.
    """
    parser = argparse.ArgumentParser(prog="python -m engine.service")
    parser.add_argument("--model")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--report-fd", type=int)
    given = parser.parse_args(arguments)
    report = _reporter(given.report_fd)
    try:
        settings = read_settings({"model": given.model, "threads": given.threads})
        daemon.run(settings, on_listening=lambda _: report({"ready": True}))
    except HearthError as error:
        report(error_to_json(error))
        print(f"{error.code}: {error}", file=sys.stderr)
        return 1
    return 0


def _reporter(descriptor: int | None) -> Callable[[dict[str, object]], None]:
    open_ones = [] if descriptor is None else [descriptor]

    def report(value: dict[str, object]) -> None:
        while open_ones:
            file = open_ones.pop()
            with suppress(OSError):  # the one who started it has gone
                os.write(file, json.dumps(value).encode() + b"\n")
            os.close(file)

    return report


if __name__ == "__main__":
    sys.exit(main())
