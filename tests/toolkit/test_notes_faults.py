"""Notes that cannot be kept or read: what of the others a model still gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.toolkit.test_notes import READ_BACK, Kit, texts_in
from windlass.errors import ToolError
from windlass.guards import Secret, register_secret
from windlass.toolkit import notes


def put_link(folder: Path, name: str) -> None:
    """Put a link in place of a note."""
    note = next(folder.rglob(name))
    note.unlink()
    note.symlink_to("/etc/passwd")


async def test_a_registered_secret_is_no_topic(tmp_path: Path) -> None:
    """A topic is the name of a file. What was kept under one before it was registered can be removed."""
    kit = Kit(notes(tmp_path))
    await kit("write_note", topic="sk-canary-4712-topic", text="x")
    key = register_secret(Secret("sk-canary-4712-topic", name="API_KEY")).reveal()

    for topic in (key, f"the-{key}"):
        with pytest.raises(ToolError) as told:
            await kit("write_note", topic=topic, text="x")
        assert str(told.value) == "topic: found a secret in it, wanted a name without one"
    await kit("write_note", topic=key, text="")
    assert texts_in(tmp_path) == []


async def test_one_note_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    kit = Kit(notes(tmp_path))
    for topic in ("cake", "tea", "water"):
        await kit("write_note", topic=topic, text=f"{topic} today")
    put_link(tmp_path, "tea.md")

    assert await kit("read_notes") == (
        f"{READ_BACK}\n- cake: cake today\n- water: water today\nCould not be read: tea"
    )
    assert await kit("read_notes", query="today") == (
        f"{READ_BACK}\n\n## cake\ncake today\n\n## water\nwater today\n\nCould not be read: tea"
    )
    assert await kit("read_notes", query="tomorrow") == (
        "No note has all of these words. Topics: cake, tea, water\n\nCould not be read: tea"
    )
    with pytest.raises(ToolError, match="The notes could not be read: "):
        await kit("read_notes", query="tea")


@pytest.mark.parametrize("n_notes", [2, 50])
async def test_a_shelf_that_reads_nothing_is_told_and_not_asked_for_each_note(n_notes: int) -> None:
    class Down:
        n_asked = 0

        def get(self, scope: str, topic: str) -> str | None:
            self.n_asked += 1
            raise TimeoutError

        def put(self, scope: str, topic: str, text: str) -> None: ...

        def remove(self, scope: str, topic: str) -> None: ...

        def topics(self, scope: str) -> list[str]:
            return [f"t{n}" for n in range(n_notes)]

    shelf = Down()
    with pytest.raises(ToolError, match="The notes could not be read: TimeoutError"):
        await Kit(notes(shelf))("read_notes")
    assert shelf.n_asked == min(n_notes, 10)
