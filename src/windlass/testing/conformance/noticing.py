"""Noticing: what was written is told in its order, once, to those who ask on; and a bell says when to ask."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from windlass import ports
from windlass.errors import HeadMoved, InvalidInput
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import (
    Driven,
    Scene,
    ending,
    expect,
    expect_that,
    new_turn,
    request,
)

YES = ports.WaitAnswer(value=True)
# A limit for what never takes long unless it hangs.
_HANGS_S = 60.0


async def _now(scene: Scene) -> str:
    return (await scene.store.changes(None)).mark


async def _behind(
    store: ports.Store, mark: str, *, limit: int = 256, pages: bool = False
) -> tuple[ports.Change, ...]:
    """Return all that is told behind a mark, however many answers it takes."""
    told: list[ports.Change] = []
    while True:
        found = await store.changes(mark, limit=limit, pages=pages)
        expect_that(len(found.changes) <= limit, "no more is told than was asked for")
        told += found.changes
        if not found.has_more:
            return tuple(told)
        expect_that(found.mark != mark, "the next mark is further on")
        mark = found.mark


async def _kinds(scene: Scene, mark: str) -> list[tuple[str, str, str]]:
    told = await _behind(scene.store, mark)
    return [(one.kind, one.session_id, one.turn_id) for one in told]


async def _whole_life(scene: Scene) -> tuple[str, Driven]:
    """Let a turn wait, be answered and end; return the mark of before, and the turn."""
    mark = await _now(scene)
    turn = await scene.begin()
    await scene.write(turn.unit(reply(turn), waits=(turn.wait("w"),), parks=True))
    await scene.store.resolve_wait("w", YES)
    await scene.write(turn.unit(reply(turn, 1), position=1, commit=ending()))
    return mark, turn


async def the_mark_of_now_has_nothing_behind_it(scene: Scene) -> None:
    await scene.begin()

    found = await scene.store.changes(None)

    expect((found.changes, found.has_more), ((), False))
    expect(await scene.store.changes(found.mark), found)


async def a_turn_is_told_from_its_acceptance_to_its_end(scene: Scene) -> None:
    mark, turn = await _whole_life(scene)

    told = await _behind(scene.store, mark)

    wait = turn.wait("w")
    place: dict[str, Any] = {"session_id": "s1", "turn_id": "t1"}
    expect(
        list(told),
        [
            ports.Change(kind="accepted", **place),
            ports.Change(kind="joined", worker_id=turn.worker_id),
            ports.Change(kind="page", position=0, **place),
            ports.Change(kind="opened", wait=wait, **place),
            ports.Change(kind="parked", **place),
            ports.Change(kind="answered", wait=wait, **place),
            ports.Change(kind="page", position=1, **place),
            ports.Change(kind="ended", **place),
        ],
    )


async def the_sessions_that_were_touched_are_named_once_each(scene: Scene) -> None:
    mark = await _now(scene)
    for session_id, turn_id in (("b", "t1"), ("a", "t1"), ("b", "t2")):
        await scene.accept(turn_id, session_id=session_id)

    expect((await scene.store.changes(mark)).sessions, ("b", "a"))


async def what_one_unit_writes_is_told_in_the_order_of_its_parts(scene: Scene) -> None:
    turn = Driven("s1", "t1", await scene.join(), 1)
    mark = await _now(scene)

    unit = turn.unit(
        reply(turn),
        accept=new_turn(),
        start=turn.start,
        waits=(turn.wait("w1"), turn.wait("w2")),
        commit=ending(follow_ups=(ports.NewItem(item_id="i"),)),
    )
    await scene.write(unit)

    told = await _behind(scene.store, mark)
    kinds = [one.kind for one in told]
    expect(kinds[:5], ["accepted", "page", "opened", "opened", "ended"])
    expect(sorted(kinds[5:]), ["answered", "answered", "arrived"])
    ended = [one.wait.key for one in told if one.kind == "answered" and one.wait is not None]
    expect(ended, ["w1", "w2"], "the waits that ended with their turn")


async def a_wait_whose_time_is_over_is_told(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w", expires_ms=5),)))
    mark = await _now(scene)

    await scene.store.resolve_wait("w", ports.WaitAnswer(now_ms=9))

    expect(await _kinds(scene, mark), [("answered", "s1", "t1")])


async def a_turn_that_goes_on_at_once_did_not_park(scene: Scene, turn: Driven) -> None:
    await scene.approve(turn)
    mark = await _now(scene)

    await scene.write(turn.unit(parks=True))

    expect(await _kinds(scene, mark), [])


async def a_wish_to_cancel_and_an_item_are_told(scene: Scene, turn: Driven) -> None:
    mark = await _now(scene)

    await scene.store.request_cancel("s1", turn.turn_id)
    await scene.enqueue("i1")

    expect(await _kinds(scene, mark), [("cancelled", "s1", "t1"), ("arrived", "s1", "")])


async def workers_that_come_and_go_are_told(scene: Scene) -> None:
    mark = await _now(scene)

    stays, goes, dies = await scene.join(), await scene.join(), await scene.join()
    await scene.store.leave(goes)
    await scene.kill(dies)
    await scene.store.vacuum(now_ms=0, retention_ms=0)

    told = [(one.kind, one.worker_id) for one in await _behind(scene.store, mark)]
    came = [("joined", stays), ("joined", goes), ("joined", dies)]
    expect(told, [*came, ("left", goes), ("left", dies)])


async def what_was_known_already_is_not_told_again(scene: Scene, turn: Driven) -> None:
    unit = turn.unit(reply(turn), waits=(turn.wait("w"),), parks=True)
    await scene.write(unit)
    await scene.store.request_cancel("s1", "t1")
    await scene.enqueue("i1")
    mark = await _now(scene)

    await scene.write(unit)
    await scene.accept()
    await scene.store.request_cancel("s1", "t1")
    await scene.enqueue("i1")
    await scene.store.leave("nobody")

    expect(await scene.store.changes(mark), ports.Changes(mark=mark))


async def a_refusal_is_not_told(scene: Scene, turn: Driven) -> None:
    mark = await _now(scene)

    unit = turn.unit(reply(turn), waits=(turn.wait("w"),), commit=ending(head=7))
    await scene.refused(HeadMoved, unit)

    expect(await scene.store.changes(mark), ports.Changes(mark=mark))


async def pages_come_along_when_they_are_asked_for(scene: Scene) -> None:
    mark, _ = await _whole_life(scene)

    told = await _behind(scene.store, mark, pages=True)

    pages = tuple(one.page for one in told if one.kind == "page")
    expect(pages, (await scene.turn()).pages)
    others = [one.page for one in told if one.kind != "page"]
    expect(set(others), {None}, "the pages of what is none")


async def whoever_asks_on_misses_nothing_and_hears_nothing_twice(scene: Scene) -> None:
    mark, _ = await _whole_life(scene)
    whole = await _behind(scene.store, mark)

    for limit in (1, 2, 3, len(whole), len(whole) + 1):
        expect(await _behind(scene.store, mark, limit=limit), whole, f"what is told by {limit}")
    exactly = await scene.store.changes(mark, limit=len(whole))
    expect((exactly.changes, exactly.has_more), (whole, False))


async def turns_of_several_sessions_are_told_apart(scene: Scene) -> None:
    worker, mark = await scene.join(), await _now(scene)
    turns = [await scene.begin(session_id=name, worker_id=worker) for name in ("a", "b")]
    for turn in turns:
        await scene.write(turn.unit(reply(turn), commit=ending()))
    again = await scene.begin("t2", session_id="a", worker_id=worker)
    await scene.write(again.unit(reply(again)))

    wanted = [
        ("accepted", "a", "t1"), ("accepted", "b", "t1"),
        ("page", "a", "t1"), ("ended", "a", "t1"),
        ("page", "b", "t1"), ("ended", "b", "t1"),
        ("accepted", "a", "t2"), ("page", "a", "t2"),
    ]  # fmt: skip
    expect(await _kinds(scene, mark), wanted)


async def what_is_deleted_is_told_as_such_and_hides_nothing(scene: Scene) -> None:
    mark, turn = await _whole_life(scene)
    at_the_end = await _now(scene)
    await scene.store.delete_session(turn.session_id, now_ms=1)

    wanted = [("deleted", turn.session_id, "")]
    expect([one for one in await _kinds(scene, mark) if one[1]], wanted)
    expect(await _kinds(scene, at_the_end), wanted)
    await scene.accept(session_id="s2")

    wanted.append(("accepted", "s2", "t1"))
    expect([one for one in await _kinds(scene, mark) if one[1]], wanted)
    expect(await _kinds(scene, at_the_end), wanted)


async def what_is_reclaimed_is_left_out_and_hides_nothing(scene: Scene) -> None:
    mark, _ = await _whole_life(scene)
    at_the_end = await _now(scene)
    await scene.store.vacuum(now_ms=10, retention_ms=1)

    expect([one for one in await _kinds(scene, mark) if one[0] == "page"], [])
    expect(await _kinds(scene, at_the_end), [])
    await scene.accept("t2")

    expect(await _kinds(scene, at_the_end), [("accepted", "s1", "t2")])
    expect((await _kinds(scene, mark))[-1], ("accepted", "s1", "t2"))


async def a_mark_that_is_none_is_refused(scene: Scene) -> None:
    await scene.begin()
    mark = await _now(scene)

    hostile: list[object] = ["", "0", "x", "-1", f"{mark}\n", f" {mark}", "9" * 9_999, "\ud800", 7]
    for text in hostile:
        refusal = await scene.refused(InvalidInput, scene.store.changes(text))  # type: ignore[arg-type]  # hostile
        expect(refusal.field, "mark")


async def a_mark_of_another_store_is_refused(scene: Scene) -> None:
    other = await scene.harness.make()
    await scene.begin()
    mark = (await other.changes(None)).mark

    await scene.refused(InvalidInput, scene.store.changes(mark))


async def a_mark_is_of_the_rows_not_of_the_store_that_shows_them(scene: Scene) -> None:
    mark, _ = await _whole_life(scene)

    other = await scene.second()

    expect(await _behind(other, mark), await _behind(scene.store, mark))


@with_crash
async def a_mark_outlives_a_crash(scene: Scene) -> None:
    mark, _ = await _whole_life(scene)
    middle = (await scene.store.changes(mark, limit=3)).mark

    for one in (mark, middle):
        before = await _behind(scene.store, one)
        await scene.crash()
        expect(await _behind(scene.store, one), before, "what is told after a crash")


class _Ears:
    """Counts how often a bell rang, and waits for it."""

    def __init__(self, store: ports.Store) -> None:
        self.rings = 0
        self._rang = asyncio.Event()
        self.leave: Callable[[], None] = store.watch(self.hear)

    def hear(self) -> None:
        self.rings += 1
        self._rang.set()

    async def rung(self) -> None:
        """Wait for the bell to ring."""
        async with asyncio.timeout(_HANGS_S):
            await self._rang.wait()
        self._rang.clear()


async def a_bell_rings_once_soon_after_it_was_asked_for(scene: Scene) -> None:
    for _ in range(2):
        ears = _Ears(scene.store)
        await ears.rung()
        ears.leave()


async def a_bell_rings_for_everything_that_is_written(scene: Scene) -> None:
    turn, ears = await scene.begin(), _Ears(scene.store)
    await ears.rung()

    parks = turn.unit(reply(turn), waits=(turn.wait("w"),), parks=True)
    writes: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: scene.write(parks),
        lambda: scene.store.resolve_wait("w", YES),
        lambda: scene.store.release("s1", generation=turn.generation),
        lambda: scene.accept("t2"),
        lambda: scene.enqueue("i1"),
        scene.join,
    )
    for write in writes:
        await write()
        await ears.rung()
    ears.leave()


async def a_bell_rings_for_what_another_store_writes(scene: Scene) -> None:
    other = await scene.second()
    ears = _Ears(scene.store)
    await ears.rung()

    await other.accept("s1", "t1", ports.NewTurn(agent="helper", request=request("hi")))

    await ears.rung()
    ears.leave()


async def a_bell_that_was_left_rings_no_more(scene: Scene) -> None:
    gone, stays = _Ears(scene.store), _Ears(scene.store)
    await stays.rung()
    gone.leave()
    gone.leave()
    heard = gone.rings

    await scene.accept()
    await stays.rung()

    expect(gone.rings, heard)
    stays.leave()


async def one_who_leaves_while_it_rings_keeps_no_other_from_hearing(scene: Scene) -> None:
    leaves: list[Callable[[], None]] = []

    def leave_all() -> None:
        for leave in leaves:
            leave()

    leaves.append(scene.store.watch(leave_all))
    gone, stays = _Ears(scene.store), _Ears(scene.store)
    leaves.append(gone.leave)

    await stays.rung()

    expect(gone.rings, 0, "how often one heard that had left")
    stays.leave()
