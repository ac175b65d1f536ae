"""The daemon's life: become the only one, listen, serve, drain, end."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine import paths
from engine.catalogue.jsonfile import write_json
from engine.errors import HearthError, SettingsError
from engine.service.facts import DaemonFacts, installed_version
from engine.service.listen import listen_tcp, listen_unix
from engine.service.lock import Lock
from engine.service.logs import log_unhandled, start_logging
from engine.service.places import Places, answers, find_places
from engine.service.settings import ServiceSettings
from engine.service.token import read_or_make_token
from engine.types import SamplingParams

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from engine.service.router import Router

log = logging.getLogger(__name__)

SOCKET_CHECK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Listening:
    """What the one who starts a daemon is told: it listens, or another one did already."""

    socket: str
    tcp_port: int | None
    already_ran: bool


def run(settings: ServiceSettings, *, on_listening: Callable[[Listening], None]) -> None:
    """Be the daemon until told to end; return at once when there is one already.

    on_listening: called when clients can connect; the model is loaded later.
    Raises HearthError when it cannot start.
    """
    os.umask(0o077)
    places = find_places()
    with ExitStack() as stack:
        lock = stack.enter_context(_lock(places))
        with _starting(places):
            if answers(places.socket):
                on_listening(Listening(str(places.socket), None, already_ran=True))
                return
            lock.take()  # at once, unless another one is on its way out
            log_file = start_logging(paths.logs_dir(), settings.log_level)
            unix = stack.enter_context(listen_unix(places.socket))
            cut_off = partial(_cut_off, places.socket, places.socket.stat().st_ino)
            tcp = (
                stack.enter_context(listen_tcp(settings.tcp_port)) if settings.tcp_port is not None else None
            )
            token = read_or_make_token() if tcp is not None else None
        port = tcp.getsockname()[1] if tcp is not None else None
        facts = DaemonFacts(
            installed_version(),
            str(places.socket),
            port,
            settings.model,
            settings.idle_minutes,
            str(log_file),
        )
        _write_state(places, facts)
        on_listening(Listening(facts.socket, port, already_ran=False))
        faulthandler.enable()
        try:
            asyncio.run(_serve(settings, facts, unix, tcp, token, cut_off))
        finally:
            # With the lock still held: both are this daemon's own.
            places.socket.unlink(missing_ok=True)
            places.state.unlink(missing_ok=True)


async def _serve(
    settings: ServiceSettings,
    facts: DaemonFacts,
    unix: socket.socket,
    tcp: socket.socket | None,
    token: str | None,
    cut_off: Callable[[], bool],
) -> None:
    # Here, so that a process that is not needed ends quickly.
    from engine.backends.openai.remote import Remote
    from engine.service.control import Control
    from engine.service.host import ModelHost
    from engine.service.http.app import build_app
    from engine.service.http.metrics import Metrics
    from engine.service.http.settings import Defaults, Limits
    from engine.service.models import KnownModels, model_opener
    from engine.service.router import Router
    from engine.service.web import serving

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_unhandled)
    host = ModelHost(
        model_opener(settings),
        KnownModels(settings.model),
        default="" if settings.remote_model is not None else settings.model,
        threads=settings.threads,
        idle_seconds=settings.idle_minutes * 60,
        max_waiting=settings.max_requests,
    )
    router = Router(host, [Remote(remote) for remote in settings.remote], default=settings.model)
    collectors = [router.collector()] if settings.remote else []
    stopping = asyncio.Event()
    app_for = partial(
        build_app,
        router,
        counters=Metrics(host.metrics, collectors),
        limits=Limits(
            body_bytes=settings.http.body_mib << 20,
            body_seconds=settings.http.body_seconds,
            request_seconds=settings.http.request_seconds or None,
        ),
        defaults=Defaults(sampling=SamplingParams(**settings.sampling.model_dump())),
        hosts=frozenset(settings.http.allowed_hosts),
        origins=frozenset(settings.http.allowed_origins),
    )
    own = Control(app_for(token=None), router, facts, stopping.set, body_seconds=settings.http.body_seconds)
    apps: list[tuple[socket.socket, ASGIApp]] = [(unix, own)]
    if tcp is not None:
        apps.append((tcp, app_for(token=token)))
    log.info("the daemon runs, version %s, protocol %s", facts.version, facts.protocol)
    router.watch()
    preloading = asyncio.create_task(_preload(router, settings.model))
    watching = asyncio.create_task(_end_when(cut_off, stopping))
    try:
        async with serving(
            apps, drain_seconds=settings.drain_seconds, head_seconds=settings.http.head_seconds
        ) as server:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                loop.add_signal_handler(number, _told_to_stop, stopping, server.hurry)
            await server.wait(stopping)
            log.info("draining")
            router.refuse()
    finally:
        preloading.cancel()
        watching.cancel()
        await router.close()
        log.info("the daemon ends")


def _cut_off(path: Path, inode: int) -> bool:
    """Whether the socket's file is gone, as cleaners of folders for temporary files leave it."""
    try:
        return path.stat().st_ino != inode
    except OSError:
        return True


async def _end_when(cut_off: Callable[[], bool], stopping: asyncio.Event) -> None:
    """Then nobody can connect any more, and no other daemon can start while this one lives."""
    while not cut_off():
        await asyncio.sleep(SOCKET_CHECK_SECONDS)
    log.warning("the socket's file was deleted or replaced, so nobody can connect any more")
    stopping.set()


def _told_to_stop(stopping: asyncio.Event, hurry: Callable[[], None]) -> None:
    """A second signal does not wait for running requests."""
    if stopping.is_set():
        hurry()
    stopping.set()


async def _preload(router: Router, model: str) -> None:
    """Load before the first request comes; a failure is told to those that come."""
    with contextlib.suppress(HearthError):
        await router.load(model)


def _lock(places: Places) -> Lock:
    try:
        return Lock(places.lock)
    except OSError as error:
        raise _cannot_write(places, error) from error


@contextlib.contextmanager
def _starting(places: Places) -> Iterator[None]:
    try:
        lock = Lock(places.starting)
    except OSError as error:
        raise _cannot_write(places, error) from error
    with lock:
        lock.take()
        yield


def _cannot_write(places: Places, error: OSError) -> SettingsError:
    return SettingsError(
        f"The engine cannot write to its folder {places.folder}: {error.strerror}.",
        action=f"Run: chmod 700 '{places.folder}'; or set {paths.HOME_VARIABLE} to a folder of your own.",
    )


def _write_state(places: Places, facts: DaemonFacts) -> None:
    """For people and `hearth doctor`; the daemon does without when the disk is full."""
    try:
        write_json(places.state, asdict(facts))
    except OSError as error:
        log.warning("the state file cannot be written (%s)", type(error).__name__)
