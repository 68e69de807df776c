"""Cases 22 to 24: who comes first, who cancels, who answers."""

from __future__ import annotations

import asyncio

import pytest

from tests.abuse.bad_calls_scene import Scene, results_in, texts_in
from tests.abuse.bad_calls_table import Table, bound
from tests.limits import HANGS_S
from windlass import Runtime
from windlass.errors import InvalidInput
from windlass.kernel.outcomes import Finished, Stopped
from windlass.stores.sqlite import SqliteStore
from windlass.testing import call, say

ORDER = Table()

# --- 22: races ------------------------------------------------------------------------------------


@ORDER.row(22, "two inputs race on one session, 50 times: both are kept, in one order")
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


@ORDER.row(22, "50 inputs and 50 items at once: each is there once")
async def crowd(scene: Scene) -> None:
    items = [scene.session.enqueue(f"item {at}", key=f"k{at}") for at in range(50)]
    turns = [scene.session.submit(f"turn {at}", turn_id=f"t{at}") for at in range(50)]
    await asyncio.gather(*items, *turns)
    for at in range(50):
        assert (await scene.rt.turn("s", f"t{at}").result(timeout=HANGS_S)).outcome == Finished(
            text="fine"
        )
    await scene.until_idle()
    said = [text for text in texts_in(await scene.session.history()) if text != "fine"][1:]
    wanted = [f"{kind} {at}" for kind in ("item", "turn") for at in range(50)]
    assert sorted(said) == sorted(wanted)


# --- 23: cancelling -------------------------------------------------------------------------------


@ORDER.row(23, "cancel of what is unknown or finished: the receipt says which, and nothing changes")
async def cancel_nothing(scene: Scene) -> None:
    await scene.run("x", turn_id="done")
    kept = await scene.kept()
    assert (await scene.rt.cancel("none", "none")).status == "unknown"
    assert (await scene.rt.cancel("s", "none")).status == "unknown"
    assert (await scene.rt.cancel("s", "done", "too late")).status == "finished"
    assert (await scene.rt.turn("s", "done").cancel()).status == "finished"
    assert await scene.kept() == kept


@ORDER.row(23, "cancel twice: the first reason stands")
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
    result = await handle.result(timeout=HANGS_S)
    assert result.outcome == Stopped(reason="cancelled", detail=first)
    assert (await scene.rt.cancel("s", "c", "again")).status == "finished"
    assert [one.status for one in results_in(await scene.session.history())] == ["unknown"]


# --- 24: answers ----------------------------------------------------------------------------------


@ORDER.row(
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
    ended = await scene.rt.turn("w", "w").result(timeout=HANGS_S)
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
        ORDER.refuse(
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
ORDER.refuse(
    24,
    "a question is not resolved past its approver",
    lambda scene: scene.rt.resolve(scene.key, True),
    field="key",
    needs="approval",
)
ORDER.refuse(
    24,
    "a result is not approved",
    lambda scene: scene.rt.approve(scene.key),
    field="key",
    needs="deferred",
)


@ORDER.row(24, "a key of another store opens nothing here", needs="deferred")
async def foreign_key(scene: Scene) -> None:
    there = Scene(scene.folder / "there", scene.store)
    there.folder.mkdir()
    async with there:
        await there.park("deferred")
        assert there.key != scene.key
        with pytest.raises(InvalidInput) as caught:
            await scene.rt.resolve(there.key, "theirs")
        assert caught.value.field == "key"
        await there.works()


@ORDER.row(24, "an answer that two runtimes give at once is one answer", needs="deferred")
async def two_runtimes(scene: Scene) -> None:
    if scene.store == "memory":
        answerer = Runtime(store=scene.rt._services.store)
    else:
        store = SqliteStore(scene.folder / "a.db")
        await store.open()
        answerer = Runtime(store=store)
    async with answerer:
        pair = await asyncio.gather(
            answerer.resolve(scene.key, "there"), scene.rt.resolve(scene.key, "here")
        )
    assert sorted(one.status for one in pair) == ["accepted", "already"]
    assert pair[0].answer == pair[1].answer
    scene.says(say("fine"))
