"""Previews: what a call would do, asked of its tool once, shown to the person who decides, and deciding nothing itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.readings import Told, last_told
from tests.scenarios.stage import Desk, Stage
from tests.security.test_secrets_at_rest import found_in
from windlass import Agent, Allow, Ask, Limits, ToolContext, tool
from windlass.errors import ConfigError, ToolError
from windlass.guards import Secret, register_secret
from windlass.ports.policy import PolicyCall, PolicySession, Ruling
from windlass.testing import ScriptedModel, call, calls, say

DIFF = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old\n+new"


def writer(
    desk: Desk,
    preview: Any,  # noqa: ANN401 - of every kind
    *replies: Any,
    approval: Any = "ask",  # noqa: ANN401 - of every kind
    **more: Any,
) -> Agent[None, str]:
    """Return an agent with a tool that shows what it would write."""

    @tool(effect="once", approval=approval, preview=preview)
    async def write(path: str, text: str = "new") -> str:
        """Write a file."""
        await desk.work((path, text))
        return f"wrote {path}"

    script = replies or (call("write", path="a.txt"), say("Done."))
    model = more.pop("model", None) or ScriptedModel(script)
    return Agent("writer", model=model, tools=[write], **more)


async def shown(stage: Stage, preview: Any) -> object:  # noqa: ANN401 - of every kind
    """Return what a person is shown of a call; see that the question is open, and the call runs when they allow it."""
    desk = Desk()
    async with asyncio.timeout(HANGS_S), stage.runtime(writer(desk, preview)) as rt:
        (wait,) = (await rt.session("s").run("Write.", turn_id="t")).waits
        assert (wait.kind, wait.title, wait.detail["args"]) == (
            "approval", "Run write?", {"path": "a.txt"},
        )  # fmt: skip
        await rt.approve(wait.key)
        await rt.turn("s", "t").result(timeout=HANGS_S)
    assert desk.runs == [("a.txt", "new")]
    return wait.detail.get("preview")


async def test_who_is_asked_is_shown_what_the_call_would_do(stage: Stage) -> None:
    given: list[Any] = []

    async def preview(ctx: ToolContext[Any], args: Mapping[str, Any]) -> str:
        given.append((ctx.session_id, ctx.turn_id, ctx.call_id, ctx.deps, args))
        return DIFF

    assert await shown(stage, preview) == DIFF
    # With what the model left out: it runs, too.
    assert given == [("s", "t", "call_0_0", None, {"path": "a.txt", "text": "new"})]


@pytest.mark.parametrize(
    ("preview", "said"),
    [
        (lambda args: f"writes {args['path']}", "writes a.txt"),
        (lambda ctx, args: f"{ctx.call_id} writes", "call_0_0 writes"),
        (lambda args: "", None),
        (lambda args: "bad \x00 and \ud800", "bad \ufffd and \ufffd"),
        (lambda args: "\x1b[2J\u202egpj", "\x1b[2J\u202egpj"),
        (lambda args: None, "(no preview: tool write: preview: found NoneType, wanted a text)"),
        (lambda args: args["nothing"], "(no preview: KeyError)"),
        (lambda args: args.clear() or "changed its copy", "changed its copy"),
    ],
    ids=["args", "context", "nothing", "unclean", "controls", "none", "raises", "its own copy"],
)
async def test_a_preview_is_a_text_of_the_arguments_whatever_it_holds(
    memory_stage: Stage, preview: object, said: str | None
) -> None:
    assert await shown(memory_stage, preview) == said


async def test_a_tool_error_says_in_the_preview_why_there_is_none(memory_stage: Stage) -> None:
    def preview(args: Mapping[str, Any]) -> str:
        raise ToolError(f"{args['path']} is a folder")

    assert await shown(memory_stage, preview) == "(no preview: a.txt is a folder)"


async def test_other_errors_are_not_quoted_for_they_may_hold_anything(memory_stage: Stage) -> None:
    def preview(args: Mapping[str, Any]) -> str:
        raise OSError(13, "Permission denied", "/srv/eva/.ssh/id")

    assert await shown(memory_stage, preview) == "(no preview: PermissionError)"


async def test_what_would_end_the_program_ends_the_preview(memory_stage: Stage) -> None:
    def preview(args: Mapping[str, Any]) -> str:
        raise SystemExit(3)

    told = "(no preview: tool write: preview: the function raised SystemExit)"
    assert await shown(memory_stage, preview) == told


async def test_a_preview_that_hangs_holds_up_the_question_for_its_time_and_no_longer(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.runtime.approvals._PREVIEW_S", 0.05)
    never, ended = asyncio.Event(), asyncio.Event()

    async def preview(args: Mapping[str, Any]) -> str:
        try:
            await never.wait()
        finally:
            ended.set()
        return "too late"

    assert await shown(memory_stage, preview) == "(no preview: it was not there within 0.05 s)"
    async with asyncio.timeout(HANGS_S):
        await ended.wait()  # it was cancelled


async def test_a_plain_function_that_hangs_is_left_to_its_thread(
    memory_stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.runtime.approvals._PREVIEW_S", 0.05)
    gate = threading.Event()

    def preview(args: Mapping[str, Any]) -> str:
        gate.wait(HANGS_S)
        return "too late"

    try:
        assert await shown(memory_stage, preview) == "(no preview: it was not there within 0.05 s)"
    finally:
        gate.set()


async def test_a_cancel_does_not_wait_for_a_preview(memory_stage: Stage) -> None:
    entered, never = asyncio.Event(), asyncio.Event()

    async def preview(args: Mapping[str, Any]) -> str:
        entered.set()
        await never.wait()
        return ""

    async with memory_stage.runtime(writer(Desk(), preview)) as rt:
        handle = await rt.session("s").submit("Write.", turn_id="t")
        await entered.wait()
        await rt.cancel("s", "t", "never mind")
        async with asyncio.timeout(5):
            result = await handle.result()

    assert getattr(result.outcome, "reason", None) == "cancelled"


async def test_arguments_are_known_in_the_order_in_which_the_tool_has_them(stage: Stage) -> None:
    """A store keeps the names of arguments sorted; a person reads `old` before `new`."""

    @tool(approval="ask")
    def swap(path: str, old: str, new: str, count: int = 1, why: str | None = None) -> str:
        """Swap words."""
        return "done"

    swaps = call("swap", old="a", new="b", path="c")
    agent = Agent("swapper", model=ScriptedModel([swaps]), tools=[swap])
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Swap.")
        (wait,) = await rt.approvals()

    assert wait.detail["args"] == {"new": "b", "old": "a", "path": "c"}
    assert wait.detail["order"] == ["path", "old", "new", "count", "why"]


async def test_a_preview_that_runs_a_turn_of_its_own_session_is_refused_and_holds_up_nothing(
    memory_stage: Stage,
) -> None:
    """That turn would wait for the one that waits for the preview."""
    runtime: list[Any] = []

    async def preview(args: Mapping[str, Any]) -> str:
        result = await runtime[0].session("s").run("Hello.")
        return str(result.text)

    desk = Desk()
    async with (
        asyncio.timeout(HANGS_S),
        memory_stage.runtime(writer(desk, preview)) as rt,
    ):
        runtime.append(rt)
        (wait,) = (await rt.session("s").run("Write.", turn_id="t")).waits

    assert wait.detail["preview"] == (
        "(no preview: session s: a tool of this session cannot wait for another turn of it; "
        "use enqueue() or submit())"
    )


async def test_of_ten_megabytes_so_much_is_kept_as_a_person_would_read(
    memory_stage: Stage,
) -> None:
    found = await shown(memory_stage, lambda args: "x" * 10_000_000)

    assert found == "x" * 65_536 + "\n… 9,934,464 more characters"


async def test_a_secret_is_in_no_preview_also_where_it_is_cut(tmp_path: Path) -> None:
    key = register_secret(Secret("sk-canary-4711-preview", name="API_KEY")).reveal()
    whole = await shown(Stage("sqlite", tmp_path), lambda args: f"+{key}\n+more")
    (tmp_path / "2").mkdir()
    cut = await shown(
        Stage("sqlite", tmp_path / "2"), lambda args: "x" * 65_530 + key + "y" * 1_000
    )
    (tmp_path / "3").mkdir()

    def fails(args: Mapping[str, Any]) -> str:
        raise ToolError(f"refused: {key}")

    told = await shown(Stage("sqlite", tmp_path / "3"), fails)

    assert whole == "+[API_KEY]\n+more"
    # Not even its first six characters, which would have had room.
    assert cut == "x" * 65_530 + "\n… 1,016 more characters"
    assert told == "(no preview: refused: [API_KEY])"
    assert found_in(tmp_path, key) == found_in(tmp_path, key[:6]) == []


async def test_it_is_asked_for_when_the_question_opens_and_never_again(stage: Stage) -> None:
    """Not by a worker that finds the question open, nor by one that continues after the answer: the wait keeps it."""
    asked: list[str] = []

    def preview(args: Mapping[str, Any]) -> str:
        asked.append(args["path"])
        return f"state {len(asked)}"

    desk = Desk()
    model = ScriptedModel([call("write", path="a.txt"), say("Done.")])
    for _ in range(3):
        async with stage.runtime(writer(desk, preview, model=model)) as rt:
            if not asked:
                await rt.session("s").submit("Write.", turn_id="t")
            (wait,) = (await rt.turn("s", "t").result(timeout=HANGS_S)).waits
    async with stage.runtime() as office:
        (open_now,) = await office.approvals()
        assert open_now.detail["preview"] == "state 1"
        await office.approve(wait.key)
    async with stage.runtime(writer(desk, preview, model=model)) as rt:
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert asked == ["a.txt"]
    assert desk.runs == [("a.txt", "new")]


async def test_where_nobody_is_asked_it_is_not_asked_for(memory_stage: Stage) -> None:
    asked, desk = list[object](), Desk()

    def preview(args: Mapping[str, Any]) -> str:
        asked.append(args)
        return DIFF

    agent = writer(desk, preview, approval="never")
    async with memory_stage.runtime(agent) as rt:
        await rt.session("s").run("Write.")

    assert (asked, desk.runs) == ([], [("a.txt", "new")])


class Careful:
    """Asks about everything, in its own words."""

    version = "1"

    def __init__(self) -> None:
        self.seen: list[object] = []

    def decide(self, asked: PolicyCall, session: PolicySession) -> Ruling:
        self.seen.append(asked.args)
        return Allow() if asked.args.get("path") == "b.txt" else Ask(title="May it?", risk="high")


async def test_a_policy_that_asks_has_the_preview_of_the_tool_shown(memory_stage: Stage) -> None:
    agent = writer(Desk(), lambda args: DIFF, approval="never", policy=Careful())
    async with memory_stage.runtime(agent) as rt:
        (wait,) = (await rt.session("s").run("Write.")).waits

    assert (wait.title, wait.detail["preview"]) == ("May it?", DIFF)


async def test_who_writes_other_arguments_decides_by_those_and_is_not_asked_again(
    memory_stage: Stage,
) -> None:
    """The preview was of the model's arguments. The policy sees the new ones, and the tool runs with them."""
    desk, asked, policy = Desk(), list[Any](), Careful()

    def preview(args: Mapping[str, Any]) -> str:
        asked.append(args["path"])
        return f"writes {args['path']}"

    async with memory_stage.runtime(writer(desk, preview, policy=policy)) as rt:
        (wait,) = (await rt.session("s").run("Write.", turn_id="t")).waits
        await rt.approve(wait.key, edit={"path": "b.txt", "text": "other"})
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert asked == ["a.txt"]
    assert policy.seen[-1] == {"path": "b.txt", "text": "other"}
    assert desk.runs == [("b.txt", "other")]


async def test_a_function_that_approves_in_this_process_is_shown_it_too(
    memory_stage: Stage,
) -> None:
    seen: list[object] = []

    def approve(wait: Any) -> bool:  # noqa: ANN401 - a wait
        seen.append(wait.detail["preview"])
        return True

    async with memory_stage.runtime(writer(Desk(), lambda args: DIFF), approve=approve) as rt:
        await rt.session("s").run("Write.")

    assert seen == [DIFF]


async def test_calls_of_one_reply_have_each_their_own(memory_stage: Stage) -> None:
    both = calls(("write", {"path": "a"}), ("write", {"path": "b"}))
    agent = writer(Desk(), lambda args: f"writes {args['path']}", both, say("Done."))
    async with memory_stage.runtime(agent) as rt:
        parked = await rt.session("s").run("Write.")

    assert {wait.call_id: wait.detail["preview"] for wait in parked.waits} == {
        "call_0_0": "writes a",
        "call_0_1": "writes b",
    }


async def test_the_time_to_answer_begins_when_the_question_is_there(memory_stage: Stage) -> None:
    def preview(args: Mapping[str, Any]) -> str:
        memory_stage.clock.advance(8)
        return DIFF

    limits = Limits(approval_timeout=60)
    async with memory_stage.runtime(writer(Desk(), preview, limits=limits)) as rt:
        (wait,) = (await rt.session("s").run("Write.")).waits

    assert wait.expires_ms == memory_stage.clock.now_ms() + 60_000


async def test_a_denied_call_is_denied_whatever_its_preview_said(memory_stage: Stage) -> None:
    desk = Desk()
    model = ScriptedModel([call("write", path="a.txt"), say("Done.")])
    async with memory_stage.runtime(writer(desk, lambda args: DIFF, model=model)) as rt:
        (wait,) = (await rt.session("s").run("Write.", turn_id="t")).waits
        await rt.deny(wait.key, reason="No.")
        await rt.turn("s", "t").result(timeout=HANGS_S)

    assert desk.runs == []
    assert last_told(model) == [Told("call_0_0", "denied", "Denied: No.")]


@pytest.mark.parametrize("preview", [3, "a diff", lambda a, b, c: "", lambda: ""])
def test_what_is_no_function_of_the_arguments_is_refused_when_the_tool_is_made(
    preview: object,
) -> None:
    with pytest.raises(ConfigError, match=r"tool write: preview: .*wanted a function of \(ctx"):
        writer(Desk(), preview)
