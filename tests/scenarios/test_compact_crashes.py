"""Kill a compaction at every moment: there is one new frame, or none yet; never two, and never half of one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import said_by_user
from tests.scenarios.summing import is_wish
from windlass import Agent, Runtime, ToolContext, tool
from windlass.journal import FrameOpened
from windlass.kernel import ModelReply, ModelRequest, ToolResult
from windlass.kernel.summary import SEED
from windlass.testing import FunctionModel, Scenario, call, crash_points, kill_everywhere
from windlass.testing.crashing.kill_everywhere import StoreKind
from windlass.testing.provider_rules import broken_rules

HERE = Path(__file__)


class Outside:
    """What outlives every crash: what models were asked, and how often the tool acted."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.keys: set[str] = set()


def agents(outside: Outside, summary: ModelReply | str) -> Agent[None, str]:
    @tool(effect="keyed")
    async def work(ctx: ToolContext[None]) -> str:
        """Work."""
        outside.keys.add(ctx.idempotency_key)
        return "worked"

    async def answer(request: ModelRequest) -> ModelReply | str:
        outside.requests.append(request)
        if is_wish(request):
            await asyncio.sleep(0.02)  # so that its acceptance is a write of its own
            return summary
        if isinstance(request.messages[-1].parts[0], ToolResult):
            return "Done."
        return call("work") if "work" in said_by_user(request)[-1] else "Heard."

    return Agent("a", model=FunctionModel(answer, name="m"), tools=[work])


async def program(rt: Runtime[Any]) -> dict[str, Any]:
    """A talk, a compaction, a talk: what came of it, and what is stored."""
    session = rt.session("s")
    await session.run("Please work.", turn_id="t1")
    compacted = await session.compact(turn_id="c")
    last = await session.run("And now?", turn_id="t2")
    nodes = await session.nodes()
    history = await session.history()
    return {
        "outcome": repr(compacted.outcome),
        "last": last.text,
        "turns": list(dict.fromkeys(node.turn_id for node in nodes)),
        "frames": sum(isinstance(node.body, FrameOpened) for node in nodes),
        "ids": len({message.id for message in history}) - len(history),
    }


def scenario(summary: ModelReply | str, wanted: dict[str, Any]) -> Callable[[], Scenario]:
    def make() -> Scenario:
        outside = Outside()

        def check(result: dict[str, Any]) -> None:
            assert result == wanted
            assert len(outside.keys) == 1
            assert all(broken_rules(request) == [] for request in outside.requests)
            told = said_by_user(outside.requests[-1])
            if not is_wish(outside.requests[-1]):
                is_short = told[0].startswith(f"{SEED}SUM")
                assert is_short is bool(wanted["frames"]) or told == ["Please work."]

        return Scenario(
            agents=lambda: agents(outside, summary), run=program, check=check, allow_unknown=False
        )

    return make


GOOD = scenario(
    "<summary>SUM</summary>",
    {
        "outcome": "Finished(text='SUM')",
        "last": "Heard.",
        "turns": ["t1", "c", "t2"],
        "frames": 1,
        "ids": 0,
    },
)
BAD = scenario(
    ModelReply(text="<summary>SU", terminal="output_limit"),
    {
        "outcome": "Stopped(reason='incomplete', detail='The summary was cut off at its output limit.')",
        "last": "Heard.",
        "turns": ["t1", "t2"],
        "frames": 0,
        "ids": 0,
    },
)


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("make", [GOOD, BAD], ids=["a summary", "no summary"])
async def test_killed_anywhere_a_compaction_ends_as_if_nothing_had_happened(
    store: StoreKind, make: Callable[[], Scenario]
) -> None:
    report = await kill_everywhere(make, store=store)

    assert (report.unknown, report.missed, report.left_out) == ((), (), 0)


async def test_killed_twice_it_still_does() -> None:
    report = await kill_everywhere(GOOD, twice=True, only="model call 3")

    assert len(report.points) > 2


async def test_the_seams_of_a_compaction_are_among_the_points() -> None:
    points = [str(point) for point in await crash_points(GOOD)]

    # Accepted while the model is asked; the reply, the frame and the turn's end are one write.
    (asked,) = [at for at, one in enumerate(points) if one == "before model call 3"]
    assert points[asked : asked + 7] == [
        "before model call 3",
        "during model call 3",
        "before write 4: the turn is accepted, its start",
        "after write 4: the turn is accepted, its start",
        "after model call 3, before its reply was recorded",
        "before write 5: reply 1, the turn's end",
        "after write 5: reply 1, the turn's end",
    ]


# ---------------------------------------------------------------------- a process that really dies


def play(step: str, folder: Path) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, HERE, step, folder / "c.db"],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode in (0, 9), ended.stderr
    return ended.returncode, ended.stdout


def test_a_process_dies_in_the_middle_of_a_compaction_and_another_finishes_it(
    tmp_path: Path,
) -> None:
    assert play("die", tmp_path) == (9, "")
    assert play("finish", tmp_path) == (0, "SUM 1")
    assert play("finish", tmp_path) == (0, "SUM 1")


async def _main(step: str, file: str) -> None:
    outside = Outside()
    agent = agents(outside, "<summary>SUM</summary>")
    if step == "die":

        def deadly(request: ModelRequest) -> str:
            if is_wish(request):
                os._exit(9)
            return "Heard."

        agent = Agent("a", model=FunctionModel(deadly, name="m"))
    async with Runtime(agent, store=f"sqlite:///{file}", durability="process") as rt:
        session = rt.session("s")
        await session.run("Hello.", turn_id="t1")
        result = await session.compact(turn_id="c")
        frames = sum(isinstance(node.body, FrameOpened) for node in await session.nodes())
        sys.stdout.write(f"{result.text} {frames}")


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
