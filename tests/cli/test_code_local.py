"""The coding agent with the small local model: a real model, killed twice, and one turn that ends once.

What a model this small does is not foretold. What holds whatever it does is told here.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.cli.started import Chat, lines
from tests.limits import HANGS_S
from tests.models.local_server import MODEL
from windlass import Runtime
from windlass.kernel import ToolCall, ToolResult
from windlass.models.local.weights import find_weights, how_to_get, weights_named

ARGS = ("--code", "--tools", "shell", "--model", f"local:{MODEL}", "--session", "s")
QUESTION = "[s]ession >"


def asked_or_over(chat: Chat, n_questions: int) -> bool:
    """Wait for so many questions, or for the prompt; return whether it was a question."""
    deadline = time.monotonic() + HANGS_S
    while chat.screen.count(QUESTION) < n_questions:
        assert time.monotonic() < deadline, f"nothing happens:\n{chat.screen}"
        if chat.screen.rstrip("\n").rpartition("\n")[2] == ">":
            return False
        chat._read()
    return True


async def is_recorded(folder: Path) -> bool:
    """Whether the store has a turn: what shows on the screen may be a moment earlier."""
    async with Runtime(store=f"sqlite:///{folder / 'windlass.db'}") as rt:
        return bool(await rt.turns())


@pytest.mark.slow
def test_a_turn_of_a_real_model_that_is_killed_twice_ends_once(tmp_path: Path) -> None:
    assert find_weights(weights_named(MODEL)) is not None, how_to_get(weights_named(MODEL))
    first = Chat(tmp_path, *ARGS)
    first.say("Run the command: echo ran >> ran.txt")
    first.until("…")  # the model is asked
    first.until_there(lambda: asyncio.run(is_recorded(tmp_path)))
    first.kill()

    second = Chat(tmp_path, *ARGS)
    second.until("unfinished turn")
    asked_or_over(second, 1)
    second.kill()
    assert lines(tmp_path, "ran.txt") == []

    third = Chat(tmp_path, *ARGS)
    n_allowed = 0
    while asked_or_over(third, n_allowed + 1):
        third.answer("y")
        n_allowed += 1
    third.press_ctrl_d()
    third.end()

    async def read() -> tuple[int, list[str], list[str]]:
        async with Runtime(store=f"sqlite:///{tmp_path / 'windlass.db'}") as rt:
            parts = [p for m in await rt.session("s").history() for p in m.parts]
            (view,) = [each for each in await rt.sessions() if each.session_id == "s"]
            calls = [p.call_id for p in parts if isinstance(p, ToolCall)]
            results = [p.call_id for p in parts if isinstance(p, ToolResult)]
            return view.head, calls, results

    n_turns, calls, results = asyncio.run(read())
    assert n_turns == 1
    assert calls == results
    assert len(lines(tmp_path, "ran.txt")) <= n_allowed
