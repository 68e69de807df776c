"""Cases 17 to 24: ids, keys, who was first, and what is not there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.abuse.bad_calls_scene import Scene, StoreKind, results_in, texts_in
from tests.abuse.bad_calls_table import Table, bound
from windlass import Agent, Attachment, Runtime
from windlass.errors import (
    ConfigError,
    IdempotencyConflict,
    InvalidInput,
    SessionDeleted,
    UnknownSession,
)
from windlass.kernel.outcomes import Finished, Stopped
from windlass.stores.sqlite import SqliteStore
from windlass.testing import call, say

IDS = Table()

# --- 17: what is no id ----------------------------------------------------------------------------

BAD: dict[str, Any] = {
    "empty": "", "a space": " ", "inside": "a b", "a slash": "a/b", "back": "a\\b", "percent": "%2e%2e",
    "a newline": "a\n", "129": "a" * 129, "emoji": "\U0001f6a2", "NUL": "a\x00", "a number": 5, "bytes": b"a",
    "SQL": "a'; DROP TABLE sessions; --", "surrogate": "\ud800", "True": True,
}  # fmt: skip
DOORS: dict[str, tuple[Any, str]] = {
    "run(turn_id=)": (lambda scene, bad: scene.run(turn_id=bad), "turn_id"),
    "submit(turn_id=)": (lambda scene, bad: scene.session.submit("x", turn_id=bad), "turn_id"),
    "enqueue(key=)": (lambda scene, bad: scene.session.enqueue("x", key=bad), "key"),
    "fork(id=)": (lambda scene, bad: scene.session.fork(id=bad), "id"),
}
for _name, _bad in BAD.items():
    for _door, (_do, _field) in DOORS.items():
        IDS.refuse(17, f"{_door} {_name}", bound(_do, _bad), field=_field)


@IDS.row(17, "doors without I/O refuse what is no id as well, and an agent's name is one")
async def refused_at_once(scene: Scene) -> None:
    for bad in BAD.values():
        for make, field, error in (
            (lambda bad=bad: scene.rt.session(bad), "session_id", InvalidInput),
            (lambda bad=bad: scene.rt.turn(bad, "t"), "session_id", InvalidInput),
            (lambda bad=bad: scene.rt.turn("s", bad), "turn_id", InvalidInput),
            (lambda bad=bad: Agent(bad, model=scene.model), "Agent.name", ConfigError),
        ):
            with pytest.raises(error) as caught:
                make()
            assert caught.value.field == field


for _name in ("a space", "NUL", "a number"):
    for _door, _act, _field in (
        ("cancel(session)", lambda scene, bad: scene.rt.cancel(bad, "t"), "session_id"),
        ("cancel(turn)", lambda scene, bad: scene.rt.cancel("s", bad), "turn_id"),
        ("retry(session)", lambda scene, bad: scene.rt.retry(bad, "t"), "session_id"),
        ("retry(turn)", lambda scene, bad: scene.rt.retry("s", bad), "turn_id"),
    ):
        IDS.refuse(17, f"{_door} {_name}", bound(_act, BAD[_name]), field=_field)


@IDS.row(17, "two dots are an id: no path is ever made of one", instead="ids may hold dots here")
async def two_dots(scene: Scene) -> None:
    before = scene.files()
    assert (await scene.rt.session("..").run("x", turn_id="..")).text == "fine"
    assert scene.files() == before
    assert list(scene.folder.parent.glob("*.db*")) == []


# --- 18, 19: odd, but what they are ---------------------------------------------------------------


@IDS.row(
    18, "ids that differ by case, reserved names and trailing dots are distinct and no file names"
)
async def distinct(scene: Scene) -> None:
    before = scene.files()
    odd = ["a", "A", "CON", "NUL", "con", "a.", "a..", "-rf", "~", "a|b"]
    for one in odd:
        await scene.rt.session(one).run(f"I am {one}", turn_id=one)
    for one in odd:
        assert texts_in(await scene.rt.session(one).history()) == [f"I am {one}", "fine"]
    assert sorted(summary.session_id for summary in await scene.rt.sessions()) == sorted(
        [*odd, "s"]
    )
    assert scene.files() == before


SQL = (
    "'; DROP TABLE sessions; --",
    "%",
    "_",
    "\\",
    '" OR 1=1',
    "Robert'); DELETE FROM log;",
    "$1 ?1 :a",
)


@IDS.row(19, "SQL in every text field is text")
async def sql_is_text(scene: Scene) -> None:
    for at, evil in enumerate(SQL):
        turn = f"sql{at}"
        scene.says(call("give"))
        scene.gift = evil
        upload = Attachment.from_bytes(b"x", media_type="text/plain", name=evil)
        result = await scene.run([evil, upload], turn_id=turn, prompt=evil, context={evil: evil})
        assert texts_in(result.messages) == [evil, "fine"]
        assert result.tool_calls[0].outcome.value == evil
        await scene.session.enqueue(evil, when="next_turn", key=f"i{at}")
        parked = scene.rt.session(f"w{at}")
        scene.says(call("pay", cents=1, memo=evil))
        waiting = await parked.run("x", turn_id="t")
        assert (
            await scene.rt.deny(waiting.waits[0].key, reason=evil, by=evil)
        ).status == "accepted"
        ended = await scene.rt.turn(f"w{at}", "t").result(timeout=5)
        assert evil in str(ended.tool_calls[0].outcome.value)
        assert (await scene.rt.cancel("s", "none", evil)).status == "unknown"
        assert await scene.rt.waits(evil) == ()
        assert (await scene.session.withdraw(evil)).status == "unknown"
    assert len(await scene.rt.sessions()) == 1 + len(SQL)
    assert await scene.rt.sessions(after="'; DROP TABLE sessions; --")


# --- 20: known ids --------------------------------------------------------------------------------


@IDS.row(20, "a known turn id: the same answer, another body refused, another session independent")
async def known_turn(scene: Scene) -> None:
    first = await scene.run("x", turn_id="k", context={"a": 1})
    assert (await scene.run("x", turn_id="k", context={"a": 1})).messages == first.messages
    asked = len(scene.model.requests)
    kept = await scene.kept()
    for other in (
        {"given": "y", "context": {"a": 1}},
        {"given": "x"},
        {"given": "x", "context": {"a": 2}},
        {"given": "x", "context": {"a": 1}, "prompt": "be kind"},
    ):
        for go in (scene.run, scene.submit):
            with pytest.raises(IdempotencyConflict) as caught:
                await go(**other, turn_id="k")
            assert caught.value.field == "turn_id"
    assert await scene.kept() == kept
    assert len(scene.model.requests) == asked
    assert (await scene.rt.session("other").run("y", turn_id="k")).text == "fine"


@IDS.row(
    20, "a known inbox key: the same receipt, another body refused, another session independent"
)
async def known_item(scene: Scene) -> None:
    await scene.rt.session("other").run("hello")
    first = await scene.session.enqueue("x", when="next_turn", key="k")
    again = await scene.session.enqueue("x", when="next_turn", key="k")
    assert (first.known, again.known, again.item_id) == (False, True, "k")
    with pytest.raises(IdempotencyConflict):
        await scene.session.enqueue("y", when="next_turn", key="k")
    assert not (await scene.rt.session("other").enqueue("y", when="next_turn", key="k")).known


# --- 21: sessions that are not there --------------------------------------------------------------

for _verb in ("history", "nodes", "usage", "inbox", "delete", "fork"):
    IDS.refuse(
        21,
        f"{_verb} of an unknown session",
        bound(lambda scene, verb: getattr(scene.rt.session("none"), verb)(), _verb),
        field="session_id",
        error=UnknownSession,
    )
for _verb in ("enqueue", "withdraw"):
    IDS.refuse(
        21,
        f"{_verb} in an unknown session",
        bound(lambda scene, verb: getattr(scene.rt.session("none"), verb)("x"), _verb),
        field="session_id",
        error=UnknownSession,
    )
for _verb in ("result", "status", "messages"):
    IDS.refuse(
        21,
        f"{_verb} of an unknown turn",
        bound(lambda scene, verb: getattr(scene.rt.turn("none", "none"), verb)(), _verb),
        field="turn_id",
        error=UnknownSession,
    )


@IDS.row(21, "a deleted session says so at every door, and its id is not used again")
async def deleted(scene: Scene) -> None:
    gone = scene.rt.session("gone")
    await gone.run("x", turn_id="t")
    await gone.delete()
    kept = await scene.kept()
    for act in (
        lambda: gone.run("x"),
        lambda: gone.run("x", turn_id="t"),
        lambda: gone.submit("x"),
        lambda: gone.enqueue("x"),
        gone.history,
        gone.usage,
        gone.inbox,
        gone.fork,
        gone.delete,
        lambda: scene.session.fork(id="gone"),
        lambda: scene.rt.session("gone").run("x"),
        lambda: scene.rt.turn("gone", "t").result(),
    ):
        with pytest.raises(SessionDeleted) as caught:
            await act()
        assert "gone" in str(caught.value)
    assert await scene.kept() == kept


@IDS.row(
    21,
    "a session of another store is unknown, and no word tells that it is there",
    instead="no tenants in this release; stores are apart",
)
async def foreign(scene: Scene) -> None:
    async with Runtime(Agent("a", model=scene.model), store="memory:") as other:
        await other.session("theirs").run("x")
        with pytest.raises(UnknownSession) as there:
            await scene.rt.session("theirs").history()
        with pytest.raises(UnknownSession) as nowhere:
            await scene.rt.session("nobody").history()
        assert str(there.value).replace("theirs", "nobody") == str(nowhere.value)


# --- 22: races ------------------------------------------------------------------------------------


@IDS.row(22, "two inputs race on one session, 50 times: both are kept, in one order")
async def race(scene: Scene) -> None:
    for at in range(50):
        pair = [f"{at} left", f"{at} right"]
        both = await asyncio.gather(
            *(scene.run(text, turn_id=text.replace(" ", "-")) for text in pair)
        )
        assert [result.text for result in both] == ["fine", "fine"]
    said = texts_in(await scene.session.history())[2:]
    assert said[1::2] == ["fine"] * 100
    for at in range(50):
        assert sorted(said[4 * at : 4 * at + 4 : 2]) == [f"{at} left", f"{at} right"]
    numbered = [node.body for node in await scene.session.nodes()]
    assert len(numbered) == 202


@IDS.row(22, "50 inputs and 50 items at once: each is there once")
async def crowd(scene: Scene) -> None:
    items = [scene.session.enqueue(f"item {at}", key=f"k{at}") for at in range(50)]
    turns = [scene.session.submit(f"turn {at}", turn_id=f"t{at}") for at in range(50)]
    await asyncio.gather(*items, *turns)
    for at in range(50):
        assert (await scene.rt.turn("s", f"t{at}").result(timeout=20)).outcome == Finished(
            text="fine"
        )
    await scene.until_idle()
    said = [text for text in texts_in(await scene.session.history()) if text != "fine"][1:]
    wanted = [f"{kind} {at}" for kind in ("item", "turn") for at in range(50)]
    assert sorted(said) == sorted(wanted)


# --- 23: cancelling -------------------------------------------------------------------------------


@IDS.row(23, "cancel of what is unknown or finished: the receipt says which, and nothing changes")
async def cancel_nothing(scene: Scene) -> None:
    await scene.run("x", turn_id="done")
    kept = await scene.kept()
    assert (await scene.rt.cancel("none", "none")).status == "unknown"
    assert (await scene.rt.cancel("s", "none")).status == "unknown"
    assert (await scene.rt.cancel("s", "done", "too late")).status == "finished"
    assert (await scene.rt.turn("s", "done").cancel()).status == "finished"
    assert await scene.kept() == kept


@IDS.row(23, "cancel twice: the first reason stands")
async def cancel_twice(scene: Scene) -> None:
    began = asyncio.Event()

    async def wait_for_ever(_ctx: object) -> None:
        began.set()
        await asyncio.Event().wait()

    scene.deed = wait_for_ever
    scene.says(call("do"))
    handle = await scene.session.submit("x", turn_id="c")
    await began.wait()
    receipts = await asyncio.gather(
        *(scene.rt.cancel("s", "c", reason) for reason in ("one", "two", "three"))
    )
    assert sorted(receipt.status for receipt in receipts) == ["already", "already", "requested"]
    first = ("one", "two", "three")[[receipt.status for receipt in receipts].index("requested")]
    result = await handle.result(timeout=5)
    assert result.outcome == Stopped(reason="cancelled", detail=first)
    assert (await scene.rt.cancel("s", "c", "again")).status == "finished"
    assert [one.status for one in results_in(await scene.session.history())] == ["unknown"]


# --- 24: answers ----------------------------------------------------------------------------------


@IDS.row(
    24,
    "a wait that is answered twice, or late: the first answer stands and is returned",
    needs="deferred",
)
async def first_wins(scene: Scene) -> None:
    first, second = await asyncio.gather(
        scene.rt.resolve(scene.key, "one", by="eva"), scene.rt.resolve(scene.key, "two", by="bob")
    )
    assert sorted([first.status, second.status]) == ["accepted", "already"]
    assert first.answer is not None
    assert first.answer == second.answer
    ended = await scene.rt.turn("w", "w").result(timeout=5)
    assert ended.tool_calls[0].outcome.value == first.answer.value
    for late in (
        await scene.rt.resolve(scene.key, "three"),
        await scene.rt.reject(scene.key, "no"),
    ):
        assert (late.status, late.answer) == ("already", first.answer)


for _name, _key in {
    "no key": "", "a guess": "w_" + "0" * 40, "a number": 5, "NUL": "\x00", "long": "w" * 10_000,
}.items():  # fmt: skip
    for _verb, _more in (("approve", ()), ("deny", ()), ("resolve", (1,)), ("reject", ("no",))):
        IDS.refuse(
            24,
            f"{_verb}: a forged key ({_name})",
            bound(
                lambda scene, verb, key, more: getattr(scene.rt, verb)(key, *more),
                _verb,
                _key,
                _more,
            ),
            field="key",
            needs="deferred",
        )
IDS.refuse(
    24,
    "a question is not resolved past its approver",
    lambda scene: scene.rt.resolve(scene.key, True),
    field="key",
    needs="approval",
)
IDS.refuse(
    24,
    "a result is not approved",
    lambda scene: scene.rt.approve(scene.key),
    field="key",
    needs="deferred",
)


@IDS.row(24, "a key of another store opens nothing here", needs="deferred")
async def foreign_key(scene: Scene) -> None:
    there = Scene(scene.folder / "there", _kind(scene))
    there.folder.mkdir()
    async with there:
        await there.park("deferred")
        assert there.key != scene.key
        with pytest.raises(InvalidInput) as caught:
            await scene.rt.resolve(there.key, "theirs")
        assert caught.value.field == "key"
        await there.works()


def _kind(scene: Scene) -> StoreKind:
    return scene.store


@IDS.row(24, "an answer that two runtimes give at once is one answer", needs="deferred")
async def two_runtimes(scene: Scene) -> None:
    if scene.store == "memory":
        answerer = Runtime(store=scene.rt._machinery.store)
    else:
        answerer = Runtime(store=SqliteStore(scene.folder / "a.db"))
        await answerer._machinery._settings.store.open()  # type: ignore[union-attr]  # a store
    async with answerer:
        pair = await asyncio.gather(
            answerer.resolve(scene.key, "there"), scene.rt.resolve(scene.key, "here")
        )
    assert sorted(one.status for one in pair) == ["accepted", "already"]
    assert pair[0].answer == pair[1].answer
    scene.says(say("fine"))
