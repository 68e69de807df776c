"""Agents that call each other: models that play a script anew in each turn, and usage that can be added up by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tests.limits import HANGS_S
from windlass import Agent, Message, ModelReply, ModelRequest, Runtime, Text, Usage
from windlass.models.scripted import replies_so_far
from windlass.testing import CrashFound, FunctionModel, KillReport, Scenario, calls, kill_everywhere

USED = Usage(input_tokens=10, output_tokens=5)
TOKENS = 15


def used(reply: ModelReply, usage: Usage = USED) -> ModelReply:
    """Return a reply that took this much."""
    return msgspec.structs.replace(reply, usage=usage)


def lines(*replies: ModelReply, name: str = "scripted") -> FunctionModel:
    """Return a model that plays the same script in every turn, whichever session that is in."""
    script = [used(one) for one in replies]

    def answer(request: ModelRequest) -> ModelReply:
        return script[min(replies_so_far(request), len(script) - 1)]

    return FunctionModel(answer, name=name)


def agent(name: str, *replies: ModelReply, **more: Any) -> Agent[Any, Any]:
    """Return an agent that plays this script in every turn."""
    made: Agent[Any, Any] = Agent(name, model=lines(*replies), **more)
    return made


def asks(*names: str) -> ModelReply:
    """Return a reply that calls agents, each with a task of its own."""
    return calls(*((name, {"task": f"part {at}"}) for at, name in enumerate(names)))


def told(request: ModelRequest) -> list[str]:
    """Return the texts of the last message of a request."""
    found: list[str] = []
    for part in request.messages[-1].parts:
        content = getattr(part, "content", (part,))
        found += [one.text for one in content if hasattr(one, "text")]
    return found


async def idle(rt: Runtime[Any]) -> None:
    """Wait until nothing is unfinished and nothing waits in an inbox."""
    async with asyncio.timeout(HANGS_S):
        while await _is_busy(rt):  # noqa: ASYNC110 - nothing tells of all sessions
            await asyncio.sleep(0)


async def _is_busy(rt: Runtime[Any]) -> bool:
    # The end of a turn posts what it wakes: after the turns, inboxes tell of that; and what those began is a turn again.
    for _ in range(2):
        if any(one.state != "done" for one in await rt.turns(limit=100)):
            return True
        for one in await rt.sessions(kind=None):
            if (await rt.session(one.session_id).inbox()).items:
                return True
    return False


_OTHERWISE = "the scenario ends otherwise when it is run again without a crash"
_TRIES = 20


async def killed_in_time(make: Callable[[], Scenario]) -> tuple[KillReport, list[str]]:
    """Kill a scenario everywhere whose end depends on which of its turns was faster; return what was wrong otherwise."""
    for left in reversed(range(_TRIES)):
        try:
            return await kill_everywhere(make, timeout=HANGS_S), []
        except CrashFound as found:
            problems = [one.problem for one in found.findings]
            return found.report, [one for one in problems if "ended otherwise" not in one]
        except AssertionError as error:
            # It is killed after two runs that end alike, and those are a matter of time, too.
            if not left or not str(error).startswith(_OTHERWISE):
                raise
    raise AssertionError("unreachable")


def words(messages: Iterable[Message]) -> list[str]:
    """Return the texts of messages, in order."""
    return [part.text for one in messages for part in one.parts if type(part) is Text]
