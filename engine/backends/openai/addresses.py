"""Which addresses may be asked: TLS everywhere but on this machine and on private hosts that people name."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from urllib.parse import urlsplit

# Names that public DNS does not resolve (RFC 6762, RFC 8375, ICANN's "internal"), and names without a dot.
_PRIVATE_NAME = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.(local|internal|lan|home\.arpa)|[a-z0-9-]+", re.ASCII)


def checked_url(url: str, plain_http: Collection[str]) -> str:
    """The server's root without a slash at its end; "/v1" at the end, as clients are often given it, is cut.

    plain_http: private hosts that may be asked without TLS.
    Raises ValueError in words that do not quote the URL, which may hold a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("it is not a URL") from None
    host = parts.hostname
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("it must be an address such as https://gpu.example:8000")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not hold a name or password; say `key`")
    if parts.query or parts.fragment or re.search(r"[\x00-\x20\x7f\\]", url):
        raise ValueError("it must be scheme, host, port and path alone")
    if parts.scheme == "http" and not is_loopback(host) and host not in plain_http:
        raise ValueError(
            f"http:// would send code over the network unencrypted; use https://, or name the host {host} in "
            "`plain_http` if it is in a private network that you trust"
        )
    shown = f"[{host}]" if ":" in host else host
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{shown}{f':{port}' if port is not None else ''}{path}"


def checked_private_host(host: str) -> str:
    """The host in small letters. Raises ValueError for one that may be reached over the internet."""
    host = host.lower()
    try:
        private = ipaddress.ip_address(host).is_private
    except ValueError:
        private = _PRIVATE_NAME.fullmatch(host) is not None
    if not private:
        raise ValueError(f"{host[:100]!r} is not a private address or name; only https:// may be used for it")
    return host


def is_loopback(host: str) -> bool:
    """Whether the host is this machine, whatever its DNS says."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
