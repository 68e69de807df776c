"""`windlass repair`: lists what a provider may reject, and hides it."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from tests.cli.agents.talkers import talker
from tests.cli.started import values, windlass
from windlass import Attachment, Runtime, Text

AGENT = ("-m", "talkers:talker")
STORE = ("--store", "w.db")


def seeded(folder: Path) -> str:
    """Return the id of the message with a file, of a session in this folder."""

    async def talk() -> str:
        async with Runtime(talker, store=f"sqlite:///{folder / 'w.db'}") as rt:
            session = rt.session("ada")
            await session.run("hello")
            await session.run([Text(text="look"), Attachment.from_bytes(b"%PDF-1", name="a.pdf")])
            [found] = [one.id for one in await session.frame() if len(one.parts) == 2]
            return found

    # The talker writes down what it was asked, where it is.
    with contextlib.chdir(folder):
        return asyncio.run(talk())


def test_it_lists_what_may_be_rejected_and_hides_it(tmp_path: Path) -> None:
    bad = seeded(tmp_path)

    listed = windlass("repair", "ada", "--json", *STORE, cwd=tmp_path)
    shown = windlass("repair", "ada", *STORE, cwd=tmp_path)
    hidden = windlass("repair", "ada", "--hide", bad, *AGENT, *STORE, cwd=tmp_path)
    after = windlass("repair", "ada", *STORE, cwd=tmp_path)

    assert values(listed) == [{"id": bad, "role": "user", "why": "1 attachment"}]
    assert bad in shown.stdout
    assert (hidden.returncode, hidden.stdout) == (
        0,
        "Hidden from the model: 1 message, 1 attachment.\n",
    )
    assert "no message that the model sees has attachments" in after.stderr + after.stdout


def test_all_attachments_at_once_and_nothing_left_to_hide(tmp_path: Path) -> None:
    seeded(tmp_path)

    first = windlass("repair", "ada", "--attachments", *AGENT, *STORE, cwd=tmp_path)
    again = windlass("repair", "ada", "--attachments", *AGENT, *STORE, cwd=tmp_path)

    assert first.stdout == "Hidden from the model: 0 messages, 1 attachment.\n"
    assert again.stdout == "There is nothing to hide.\n"


def test_a_message_that_is_not_there_is_refused(tmp_path: Path) -> None:
    seeded(tmp_path)

    done = windlass("repair", "ada", "--hide", "m_none", *AGENT, *STORE, cwd=tmp_path)

    assert done.returncode == 2
    assert "hide[0]: found an id of no message that the model sees" in done.stderr
