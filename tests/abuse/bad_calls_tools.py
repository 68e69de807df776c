"""Cases 33 to 37: what a model may ask of tools, and how their bodies may fail."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tests.abuse.bad_calls_scene import Junk, Scene, calls_in, results_in, said, texts_in
from tests.abuse.bad_calls_table import Act, Table, bound
from tests.limits import HANGS_S
from windlass import Pending, ToolContext, tool
from windlass.errors import LeaseLost, ToolError, WindlassBug
from windlass.kernel import ModelReply, ToolCall
from windlass.kernel.outcomes import Finished, Stopped
from windlass.testing import call, calls

TOOLS = Table()


def reply(*parts: ToolCall) -> ModelReply:
    """Return a reply with these calls, ids and all."""
    return ModelReply(parts=parts, terminal="tool_use")


# --- 33, 34: calls that cannot be run -------------------------------------------------------------


@TOOLS.row(33, "a tool that does not exist is told as an error")
async def unknown_tool(scene: Scene) -> None:
    told = await scene.told(call("subtract", a=1))
    assert (told.status, said(told)) == ("error", "There is no tool called subtract.")
    for odd in ("", "a b", "x" * 5_000, "../add", "add\n", "\u00e4dd"):
        told = await scene.told(reply(ToolCall(call_id="c", name=odd, args={"a": 1, "b": 2})))
        assert told.status == "error"
    assert scene.ran == []


@TOOLS.row(33, "a tool that was removed since the model was offered it is told as gone")
async def removed_tool(scene: Scene) -> None:
    class Server:
        offered = True

        def tools(self, _context: object) -> list[Any]:
            return [tool(_early, name="early")] if self.offered else []

    server = Server()

    async def take_away(_ctx: object) -> str:
        server.offered = False
        return "gone"

    scene.deed = take_away
    async with scene.runtime(store="memory:", tools=[*scene.tools, server]) as rt:
        scene.says(call("do"), call("early"))
        result = await rt.session("s").run("x")
        assert result.outcome == Finished(text="fine")
        told = [(one.status, said(one)) for one in results_in(result.messages)]
        assert told == [("ok", "gone"), ("error", "There is no tool called early.")]


def _early() -> str:
    return "early"


for _what, _args, _words in (
    ("of the wrong type", {"a": "1", "b": 2}, "args.a: found str, wanted int"),
    ("a number with a fraction", {"a": 1.5, "b": 2}, "args.a: found float, wanted int"),
    ("null", {"a": None, "b": 2}, "args.a: found null, wanted int"),
    ("a missing one", {"a": 1}, "args.b: found nothing"),
    ("one too many", {"a": 1, "b": 2, "c": 3}, "args.c: found an argument that does not exist"),
    ("3 MiB", {"a": "x" * (3 * 1024 * 1024), "b": 2}, "wanted at most 262,144"),
):

    async def _told(scene: Scene, args: dict[str, Any], words: str) -> None:
        told = await scene.told(reply(ToolCall(call_id="c", name="add", args=args)))
        assert told.status == "error"
        assert words in said(told)
        assert len(said(told)) < 1_000
        assert scene.ran == []

    TOOLS.row(34, f"arguments: {_what}")(bound(_told, _args, _words))


@TOOLS.row(
    34, "arguments of 10 MiB, more than a reply may have, end the turn; the body does not run"
)
async def over_the_reply(scene: Scene) -> None:
    args = {"a": "x" * (10 * 1024 * 1024), "b": 2}
    scene.says(reply(ToolCall(call_id="c", name="add", args=args)))
    result = await scene.run("go")
    assert isinstance(result.outcome, Stopped)
    assert (result.outcome.reason, scene.ran) == ("limit", [])
    assert "max_reply_bytes" in result.outcome.detail


@TOOLS.row(34, "arguments that are not JSON, or 3 MiB of it, do not reach the body")
async def not_json(scene: Scene) -> None:
    huge = '{"a":"' + "x" * (3 * 1024 * 1024) + '","b":1}'
    for raw in ("a=1, b=2", "<a>1</a>", *([huge] if scene.store == "memory" else [])):
        told = await scene.told_of(raw)
        assert told.status == "error"


# --- 35: many calls, ids that are none ------------------------------------------------------------


@TOOLS.row(35, "500 calls in one reply: 128 run, the model is told of the rest")
async def too_many(scene: Scene) -> None:
    asked = [ToolCall(call_id=f"c{at}", name="add", args={"a": at, "b": 1}) for at in range(500)]
    scene.says(reply(*asked))
    result = await scene.run("go")
    assert result.outcome == Finished(text="fine")
    assert sorted(scene.ran) == [(at, 1) for at in range(128)]  # type: ignore[type-var]  # of tuples
    told = results_in(result.messages)
    assert [one.call_id for one in told] == [f"c{at}" for at in range(128)]
    assert [said(one) for one in told] == [str(at + 1) for at in range(128)]
    assert any("372 more were dropped" in text for text in texts_in(result.messages))


@TOOLS.row(35, "ids given twice, empty or impossible: each call runs once under an id of its own")
async def odd_ids(scene: Scene) -> None:
    odd = ("c", "c", "", " ", "a b", "x" * 5_000, "a/b", "\u00e4", "\n")
    asked = [
        ToolCall(call_id=one, name="add", args={"a": at, "b": 0}) for at, one in enumerate(odd)
    ]
    scene.says(reply(*asked))
    result = await scene.run("go", turn_id="odd")
    assert sorted(scene.ran) == [(at, 0) for at in range(len(odd))]  # type: ignore[type-var]  # of tuples
    ids = [one.call_id for one in calls_in(result.messages)]
    assert len(set(ids)) == len(odd)
    assert ids[0] == "c"
    assert [one.call_id for one in results_in(result.messages)] == ids
    assert [said(one) for one in results_in(result.messages)] == [str(at) for at in range(len(odd))]
    # Minted from their place, so that whoever drives the turn again gets the same ones.
    other = Scene(scene.folder / "other", "memory")
    async with other:
        other.says(reply(*asked))
        assert [
            one.call_id for one in calls_in((await other.run("go", turn_id="odd")).messages)
        ] == ids


# --- 36: bodies that fail -------------------------------------------------------------------------


class Rude(BaseException):
    """Not meant to be caught."""


ERRORS: list[tuple[BaseException, str]] = [
    (ValueError("boom"), "ValueError: boom"),
    (ValueError("a\x00b\ud800"), "ValueError: a\ufffdb\ufffd"),
    (ToolError("no such order"), "no such order"),
    (ToolError(""), "tool_error"),
    (SystemExit(3), "raised SystemExit"),
    (KeyboardInterrupt(), "raised KeyboardInterrupt"),
    (GeneratorExit(), "raised GeneratorExit"),
    (asyncio.CancelledError(), "raised CancelledError"),
    (Rude("out of here"), "raised Rude"),
    (BaseExceptionGroup("two", [SystemExit(1), Rude()]), "raised BaseExceptionGroup"),
    (MemoryError(), "MemoryError"),
    (RecursionError(), "RecursionError"),
    (TimeoutError(), "TimeoutError"),
    (LeaseLost("not yours to raise"), "lease_lost"),
    (WindlassBug("not yours to raise"), "windlass_bug"),
    (ValueError("x" * 1_000_000), "ValueError: xxx"),
]


def _fails_as(error: BaseException, words: str) -> Act:
    async def act(scene: Scene) -> None:
        async def fail(_ctx: object) -> object:
            raise error

        def fail_at_once() -> object:
            raise error

        scene.deed, scene.sync_deed = fail, fail_at_once
        for name in ("do", "do_sync"):
            told = await scene.told(call(name))
            assert told.status == "error"
            assert words in said(told)
            assert len(said(told)) < 5_000
            assert "Traceback" not in said(told)

    return act


for _at, (_error, _words) in enumerate(ERRORS):
    TOOLS.row(36, f"{_at} a tool raises {type(_error).__name__}: {_words[:30]!r}")(
        _fails_as(_error, _words)
    )


@TOOLS.row(36, "siblings of a call that fails badly have their results")
async def siblings(scene: Scene) -> None:
    async def fail(_ctx: object) -> object:
        raise Rude

    scene.deed = fail
    scene.says(calls(("do", {}), ("add", {"a": 1, "b": 2}), ("do", {})))
    result = await scene.run("go")
    assert [one.status for one in results_in(result.messages)] == ["error", "ok", "error"]


@TOOLS.row(36, "a coroutine in place of a result is named, not awaited and not left behind")
async def returns_coroutine(scene: Scene) -> None:
    async def result() -> int:
        return 1

    async def give(_ctx: object) -> object:
        return result()

    scene.deed, scene.sync_deed = give, result
    for name in ("do", "do_sync"):
        told = await scene.told(call(name))
        assert told.status == "error"
        assert "returned a coroutine" in said(told)


@TOOLS.row(36, "a tool that never returns ends by its timeout; nobody can say whether it acted")
async def never_returns(scene: Scene) -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    async def hang() -> None:
        await asyncio.Event().wait()

    @tool(timeout=0.05)
    def block() -> None:
        release.wait(HANGS_S)

    @tool(timeout=0.05, effect="pure")
    async def look() -> None:
        await asyncio.Event().wait()

    async with scene.runtime(store="memory:", tools=[hang, block, look]) as rt:
        scene.says(calls(("hang", {}), ("block", {}), ("look", {})))
        result = await rt.session("s").run("x")
        release.set()
        assert result.outcome == Finished(text="fine")
        told = [one.status for one in results_in(result.messages)]
        assert told == ["unknown", "unknown", "timeout"]
        assert "did not return in 0.05 s" in said(results_in(result.messages)[0])
        assert [issue.code for issue in result.issues] == ["unknown_outcome", "unknown_outcome"]


@TOOLS.row(36, "a promise that is not the call's own is no result")
async def forged_promise(scene: Scene) -> None:
    scene.gift = Pending("w_forged")
    told = await scene.told(call("give"))
    assert told.status in ("error", "unknown")
    assert await scene.rt.waits() == ()


# --- 37: bodies that go on ------------------------------------------------------------------------


@TOOLS.row(
    37,
    "a tool that ignores its timeout is left behind; the turn ends, and what it does later is in no commit",
)
async def ignores_timeout(scene: Scene) -> None:
    leave, left = asyncio.Event(), asyncio.Event()

    @tool(timeout=0.05)
    async def stubborn(ctx: ToolContext[Any]) -> str:
        await _stubbornly(leave)
        ctx.progress("late")
        left.set()
        return "late"

    async with scene.runtime(store="memory:", tools=[stubborn]) as rt:
        scene.says(call("stubborn"))
        result = await asyncio.wait_for(rt.session("s").run("x", turn_id="t"), HANGS_S)
        assert result.outcome == Finished(text="fine")
        assert results_in(result.messages)[0].status == "unknown"
        kept = await rt.session("s").history()
        leave.set()
        await left.wait()
        assert (await rt.session("s").run("y")).text == "fine"
        assert (await rt.session("s").history())[: len(kept)] == kept


@TOOLS.row(37, "a tool that ignores that its turn was cancelled is left behind")
async def ignores_cancel(scene: Scene) -> None:
    began, leave, left = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def stubborn(ctx: ToolContext[Any]) -> str:
        began.set()
        await _stubbornly(leave)
        left.set()
        return "late"

    scene.deed = stubborn
    scene.says(call("do"))
    handle = await scene.session.submit("x", turn_id="c")
    await began.wait()
    await scene.rt.cancel("s", "c", "enough")
    result = await handle.result(timeout=HANGS_S)
    assert result.outcome == Stopped(reason="cancelled", detail="enough")
    kept = await scene.session.history()
    leave.set()
    await left.wait()
    await asyncio.sleep(0)
    assert await scene.session.history() == kept


async def _stubbornly(leave: asyncio.Event) -> None:
    while not leave.is_set():
        try:
            await leave.wait()
        except asyncio.CancelledError:
            continue


@TOOLS.row(37, "a tool that cancels the task it runs in has failed, and nothing else has")
async def cancels_itself(scene: Scene) -> None:
    async def cancel_myself(_ctx: object) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "not reached"

    scene.deed = cancel_myself
    told = await scene.told(call("do"))
    assert told.status in ("error", "unknown")


@TOOLS.row(
    37, "a thread that writes into a result after it was returned changes nothing that is kept"
)
async def writes_later(scene: Scene) -> None:
    shared: dict[str, Any] = {"list": [1]}
    write, written = threading.Event(), threading.Event()
    contexts: list[ToolContext[Any]] = []

    def later() -> None:
        write.wait(HANGS_S)
        shared["list"].append("late")
        shared["more"] = Junk
        contexts[0].progress("late")
        written.set()

    async def give(ctx: ToolContext[Any]) -> object:
        contexts.append(ctx)
        threading.Thread(target=later, daemon=True).start()
        return shared

    scene.deed = give
    told = await scene.told(call("do"))
    kept = await scene.kept()
    write.set()
    await asyncio.to_thread(written.wait, 20)
    assert said(told) == '{"list":[1]}'
    assert await scene.kept() == kept
