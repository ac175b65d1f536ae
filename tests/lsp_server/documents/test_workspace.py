import pytest

from lsp_server.documents.workspace import Workspace


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///w/a.py", "a.py"),
        ("file:///w/in/a%20b.py", "a b.py"),
        ("file:///w/inner/a.py", "inner/a.py"),
        ("file:///wide/a.py", ""),
        ("file:///c%3A/p/a.py", "a.py"),
        ("file:///c:/p/a.py", "a.py"),
        ("untitled:/w/a.py", ""),
    ],
)
def test_the_innermost_folder_counts_and_only_whole_names(uri, path):
    assert Workspace(["file:///w", "file:///w/in/", "file:///c:/p"]).relative_path(uri) == path


def test_folders_come_and_go():
    workspace = Workspace()
    workspace.add("file:///w")
    workspace.remove("file:///never")
    assert workspace.relative_path("file:///w/a.py") == "a.py"
    workspace.remove("file:///w")
    assert workspace.relative_path("file:///w/a.py") == ""
