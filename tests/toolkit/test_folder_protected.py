"""Names that are protected: no spelling of one is opened or shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolkit.files_scene import CANARY, SECRET, FileTools, make_file


@pytest.mark.parametrize(
    "name", ["key.pem", "Key.PEM", "server:443.pem", "key.pem:copy", "a\uff1ab.pem"]
)
def test_a_colon_leads_past_no_pattern(name: str, tmp_path: Path) -> None:
    """On some disks what follows it is no part of the name, and on the others it is."""
    make_file(tmp_path / name, SECRET)
    make_file(tmp_path / "x:1", "open\n")
    tools = FileTools(tmp_path, protected=["*.pem", "x:2", "y:*"])

    assert tools.refused("read_file", path=name).startswith(f"{name}: found the protected name")
    assert "open" in tools.ok("read_file", path="x:1")
    for answer in (tools.ok("list_files"), tools.ok("search_files", query=CANARY)):
        assert name not in answer
    assert tools.refused("read_file", path="y:1").startswith("y:1: found the protected name")
