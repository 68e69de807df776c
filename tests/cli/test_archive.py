"""`windlass export`, `import` and `vacuum`, in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.started import values, windlass


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A file with the export of a session of two turns."""
    for words in ("hello", "and again"):
        done = windlass("run", words, "--model", "demo", "--session", "ada", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    written = tmp_path / "ada.jsonl"
    written.write_text(windlass("export", "ada", cwd=tmp_path).stdout)
    return written


def test_a_session_goes_from_one_store_into_a_new_one(archive: Path, tmp_path: Path) -> None:
    there = ("--store", "other.db")
    done = windlass("import", "ada.jsonl", "--as", "bob", *there, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "bob: imported with 2 turns\n")
    (found,) = values(windlass("sessions", "--json", *there, cwd=tmp_path))
    assert (found["session"], found["turns"]) == ("bob", 2)
    (used,) = values(windlass("usage", "bob", "--json", *there, cwd=tmp_path))
    assert used["calls"] == 0

    again = windlass("run", "go on", "--model", "demo", "--session", "bob", *there, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    lines = archive.read_text().splitlines()
    out = windlass("import", *there, "--json", cwd=tmp_path, said="\n".join(lines))
    assert values(out) == [{"session": "ada", "turns": 2}]
    assert windlass("export", "ada", *there, cwd=tmp_path).stdout.splitlines() == lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["import", "nowhere.jsonl"], "file: nowhere.jsonl: No such file"),
        (
            ["import", "ada.jsonl", "--as", "eva"],
            "session eva: exists already with another history",
        ),
        (["import", "cut.jsonl", "--as", "b"], "line 1: turns: found 1 of 2 lines"),
        (["import", "changed.jsonl", "--as", "b"], "line 2: digest: the line is not the one"),
        (["import", "bytes.jsonl", "--as", "b"], "bytes that are not UTF-8"),
    ],
)
@pytest.mark.usefixtures("archive")
def test_what_cannot_be_imported_is_refused_with_the_reason(
    tmp_path: Path, words: list[str], said: str
) -> None:
    windlass("run", "mine", "--model", "demo", "--session", "eva", cwd=tmp_path)
    lines = (tmp_path / "ada.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_text("".join(lines[:2]))
    (tmp_path / "changed.jsonl").write_text("".join(lines).replace("hello", "hullo"))
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")

    done = windlass(*words, cwd=tmp_path)

    assert done.returncode != 0
    assert said in done.stderr
    found = values(windlass("sessions", "--json", cwd=tmp_path))
    assert [(one["session"], one["turns"]) for one in found] == [("ada", 2), ("eva", 1)]


def test_vacuum_reclaims_journals_and_says_so(archive: Path, tmp_path: Path) -> None:
    (report,) = values(windlass("vacuum", "--json", cwd=tmp_path))
    assert (report["journals"], report["freed_bytes"]) == (0, 0)
    done = windlass("vacuum", "--days", "0", "--compact", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("reclaimed 2 journals")
    assert "given back" in done.stdout
