"""The hub as a source, against a small server on this machine that speaks the hub's file protocol."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import huggingface_hub
import pytest

from engine.catalogue.entry import HubFile
from engine.catalogue.hub import HubSource
from engine.catalogue.pull import pull
from engine.errors import DownloadError


class Hub(ThreadingHTTPServer):
    """Serves one file at /REPO/resolve/main/FILE. Attributes steer its faults and record what was asked."""

    daemon_threads = True

    def __init__(self, content, sha256):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = content
        self.etag = sha256
        self.ranges = True
        self.cut_after = []  # for each coming GET: break the connection after so many bytes (None: never)
        self.status = 200
        self.asked = []  # the Range header of each GET
        self.headers_seen = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self):
        self.server.headers_seen.append(dict(self.headers))
        self.send_response(self.server.status if self.path.endswith("tiny.gguf") else 404)
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", f'"{self.server.etag}"')
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()

    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        self.server.headers_seen.append(dict(self.headers))
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.server.ranges else 0
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = self.server.cut_after.pop(0) if self.server.cut_after else None
        self.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            self.close_connection = True

    def log_message(self, *args):
        pass


@pytest.fixture
def hub(content, entry):
    server = Hub(content, entry.sha256)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def source(hub, entry):
    return HubSource(HubFile("someone/tiny", "tiny.gguf"), entry.sha256, endpoint=hub.url)


def test_a_file_is_fetched_and_checked(entry, hub, source, content, recorder):
    assert pull(entry, sources=[source], report=recorder).read_bytes() == content
    assert hub.asked == [None]
    assert recorder.steps[-1] == ("downloading", len(content), len(content))


def test_no_token_of_the_user_is_sent(entry, hub, source, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    pull(entry, sources=[source])
    assert len(hub.headers_seen) == 2
    assert all("authorization" not in {name.lower() for name in seen} for seen in hub.headers_seen)


def test_a_broken_connection_is_taken_up_again_in_the_same_pull(entry, hub, source, content):
    hub.cut_after = [3000, 2000]
    assert pull(entry, sources=[source]).read_bytes() == content
    assert hub.asked == [None, "bytes=3000-", "bytes=5000-"]


def test_a_connection_that_gives_nothing_more_ends_the_pull_and_the_next_goes_on(entry, hub, source, content):
    hub.cut_after = [3000, 0]
    with pytest.raises(DownloadError, match="Hugging Face hub, someone/tiny"):
        pull(entry, sources=[source])
    hub.asked.clear()
    assert pull(entry, sources=[source]).read_bytes() == content
    assert hub.asked == ["bytes=3000-"]


def test_a_server_without_ranges_is_read_from_the_start(entry, hub, source, content):
    hub.cut_after = [3000]
    hub.ranges = False
    assert pull(entry, sources=[source]).read_bytes() == content
    assert hub.asked == [None, "bytes=3000-"]


def test_another_file_on_the_hub_is_refused_before_it_is_fetched(entry, hub, source):
    hub.etag = "f" * 64
    with pytest.raises(DownloadError, match="now holds another file"):
        pull(entry, sources=[source])
    assert hub.asked == []


def test_another_size_on_the_hub_is_refused_before_it_is_fetched(entry, hub, source, content):
    hub.content = content + b"more"
    with pytest.raises(DownloadError, match=f"{len(content) + 4:,} bytes"):
        pull(entry, sources=[source])
    assert hub.asked == []


def test_wrong_bytes_under_a_right_label_are_deleted(entry, hub, source, content):
    hub.content = content[:-1] + b"?"
    with pytest.raises(DownloadError, match="wrong file"):
        pull(entry, sources=[source])


def test_a_missing_file_is_told(entry, hub):
    source = HubSource(HubFile("someone/tiny", "gone.bin"), entry.sha256, endpoint=hub.url)
    with pytest.raises(DownloadError, match="404"):
        pull(entry, sources=[source])


def test_a_server_error_is_told(entry, hub, source):
    hub.status = 503
    with pytest.raises(DownloadError, match="503"):
        pull(entry, sources=[source])


def test_no_network_is_told_in_plain_words(entry, fake_source, content):
    closed = HubSource(HubFile("someone/tiny", "tiny.gguf"), entry.sha256, endpoint="http://127.0.0.1:9")
    with pytest.raises(DownloadError, match="no network, or the hub cannot be reached"):
        pull(entry, sources=[closed])
    assert pull(entry, sources=[closed, fake_source()]).read_bytes() == content


def test_offline_mode_of_the_hub_library_is_honoured(entry, hub, source, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE is set"):
        pull(entry, sources=[source])
    assert hub.headers_seen == []
