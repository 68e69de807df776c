"""Cases 17 to 21: ids, keys, and what is not there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.abuse.bad_calls_scene import Scene, texts_in
from tests.abuse.bad_calls_table import Table, bound
from tests.limits import HANGS_S
from windlass import Agent, Attachment, Runtime
from windlass.errors import (
    ConfigError,
    IdempotencyConflict,
    InvalidInput,
    SessionDeleted,
    UnknownSession,
)
from windlass.testing import call

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
        # A name is text of one line without a path; SQL in it is as harmless as elsewhere.
        name = evil.translate({ord(char): " " for char in "\x00\n\r\t/\\"})
        upload = Attachment.from_bytes(b"x", media_type="text/plain", name=name)
        result = await scene.run([evil, upload], turn_id=turn, prompt=evil, context={evil: evil})
        assert texts_in(result.messages) == [evil, "fine"]
        assert result.tool_calls[0].outcome.value == evil
        await scene.session.enqueue(evil, when="next_turn", key=f"i{at}")
        # Mail to an idle session starts a turn of its own, and that asks the same model.
        await scene.until_idle()
        parked = scene.rt.session(f"w{at}")
        scene.says(call("pay", cents=1, memo=evil))
        waiting = await parked.run("x", turn_id="t")
        assert (
            await scene.rt.deny(waiting.waits[0].key, reason=evil, by=evil)
        ).status == "accepted"
        ended = await scene.rt.turn(f"w{at}", "t").result(timeout=HANGS_S)
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


@IDS.row(20, "a key that began its session: the same receipt again, and nothing enters twice")
async def known_first_item(scene: Scene) -> None:
    new = scene.rt.session("new")
    await new.enqueue("x", key="k")
    assert (await new.enqueue("x", key="k")).known
    with pytest.raises(IdempotencyConflict):
        await new.enqueue("y", key="k")
    assert (await new.run("z")).text == "fine"
    assert texts_in(await new.history()) == ["x", "fine", "z", "fine"]
    assert (await new.enqueue("x", key="k")).known


# --- 21: sessions that are not there --------------------------------------------------------------

for _verb in ("history", "nodes", "usage", "inbox", "delete", "fork"):
    IDS.refuse(
        21,
        f"{_verb} of an unknown session",
        bound(lambda scene, verb: getattr(scene.rt.session("none"), verb)(), _verb),
        field="session_id",
        error=UnknownSession,
    )
IDS.refuse(
    21,
    "withdraw in an unknown session",
    lambda scene: scene.rt.session("none").withdraw("x"),
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


@IDS.row(21, "input begins a session that is not there; nothing else does")
async def begun(scene: Scene) -> None:
    for name in ("run", "submit", "enqueue"):
        await getattr(scene.rt.session(name), name)("x")
        await scene.rt.session(name).run("y")
        assert texts_in(await scene.rt.session(name).history()) == ["x", "fine", "y", "fine"]


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
