"""The Hugging Face hub as a source.

The library finds the file and its hash; the bytes are streamed here, because the library's own download
begins anew after every stop and cannot hash while it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from engine.catalogue.entry import HubFile
from engine.catalogue.partial import PartialFile
from engine.catalogue.report import Reporter
from engine.catalogue.source import SourceError

_TIMEOUT_S = 5  # to connect, and of silence while reading
_MOST_CONNECTIONS = 50


class HubSource:
    """One file of a hub repository.

    sha256: of the model; a hub that names another hash is refused before anything is fetched.
    endpoint: address of the hub; None is the library's (HF_ENDPOINT is honoured).
    """

    kind = "hub"
    spare_bytes = 0

    def __init__(self, file: HubFile, sha256: str, endpoint: str | None = None) -> None:
        self._file = file
        self._sha256 = sha256
        self._endpoint = endpoint
        self.label = f"Hugging Face hub, {file.repo}"

    def fetch(self, target: PartialFile, report: Reporter) -> None:
        address = self._locate(target.size)
        for _ in range(_MOST_CONNECTIONS):
            before = target.offset
            try:
                for chunk in _stream(address, target):
                    target.append(chunk)
                    report.progress("downloading", target.offset, target.size)
            except SourceError:
                # A connection that broke after giving something is taken up again where it broke.
                if target.offset <= before:
                    raise
            if target.offset >= target.size or target.offset <= before:
                return
        raise SourceError(f"the connection broke {_MOST_CONNECTIONS} times")

    def _locate(self, size: int) -> str:
        """The address of the file's bytes, when the hub's size and hash are the model's."""
        import huggingface_hub as hub

        if hub.is_offline_mode():
            raise SourceError("HF_HUB_OFFLINE is set, so the hub is not asked")
        url = hub.hf_hub_url(self._file.repo, self._file.file, endpoint=self._endpoint)
        try:
            # Without the user's token: the models are public, and nobody needs to know who asks.
            found = hub.get_hf_file_metadata(url, token=False, timeout=_TIMEOUT_S)
        except Exception as error:
            raise SourceError(_reason(error)) from error
        if found.etag and re.fullmatch(r"[0-9a-f]{64}", found.etag) and found.etag != self._sha256:
            raise SourceError(f"it now holds another file (SHA-256 {found.etag}, expected {self._sha256})")
        if found.size is not None and found.size != size:
            raise SourceError(f"it now holds a file of {found.size:,} bytes, expected {size:,}")
        return found.location


def _stream(address: str, target: PartialFile) -> Iterator[bytes]:
    """The bytes from target.offset on; restarts the target when the server cannot begin in the middle."""
    import huggingface_hub as hub

    headers = {"Accept-Encoding": "identity"}
    if target.offset:
        headers["Range"] = f"bytes={target.offset}-"
    try:
        with hub.get_session().stream(
            "GET", address, headers=headers, timeout=_TIMEOUT_S, follow_redirects=True
        ) as response:
            hub.hf_raise_for_status(response)
            if target.offset and response.status_code != 206:
                target.restart()
            # As the network gives them: larger chunks would be lost when the connection breaks in one.
            yield from response.iter_bytes()
    except Exception as error:
        raise SourceError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """One line for a person. The library's errors come from an HTTP client that differs by its version."""
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else ""
    if type(error).__name__ in {"ConnectError", "ConnectTimeout", "ProxyError"}:
        return f"no network, or the hub cannot be reached ({text or type(error).__name__})"
    if type(error).__name__ in {"ReadTimeout", "PoolTimeout", "WriteTimeout"}:
        return f"the hub did not answer within {_TIMEOUT_S} s"
    return text or type(error).__name__
