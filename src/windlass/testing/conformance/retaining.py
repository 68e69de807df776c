"""Retaining: a store keeps sessions that are not chats for a time after they ended, each kind for its own."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from typing import Any

from windlass.errors import InvalidInput, SessionDeleted
from windlass.ports import NewItem, PostItem, SessionKind
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.errands import begin, child, post
from windlass.testing.conformance.scene import Driven, Scene, ending, expect
from windlass.testing.conformance.signalling import asking
from windlass.testing.conformance.signalling import post as signal

KEPT_MS = 100
ALL: dict[SessionKind, int] = dict.fromkeys(("child", "process", "schedule", "trigger"), KEPT_MS)
KINDS: tuple[SessionKind, ...] = tuple(ALL)
MANY = 130
"""More than a store reclaims in one step."""


async def _vacuum(scene: Scene, now_ms: int, keep_ms: Any = None, retention_ms: int = 0) -> int:  # noqa: ANN401 - kinds
    report = await scene.store.vacuum(
        now_ms=now_ms, retention_ms=retention_ms, keep_ms=ALL if keep_ms is None else keep_ms
    )
    return report.sessions


async def _driven(scene: Scene, session_id: str, turn_id: str = "t1") -> Driven:
    return await scene.start(turn_id, session_id=session_id, worker_id=await scene.join())


async def _end(scene: Scene, turn: Driven, now_ms: int) -> None:
    await scene.commit(turn, ending(now_ms=now_ms))


async def _ended(scene: Scene, *names: str, kind: SessionKind = "process", at_ms: int = 10) -> None:
    """Let sessions at the top of a tree each have had a turn, that ended at a time."""
    worker_id = await scene.join()
    for name in names:
        await scene.run(begin(name, "t1", kind=kind))
        turn = await scene.start(session_id=name, worker_id=worker_id)
        await _end(scene, turn, at_ms)


async def _left(scene: Scene) -> list[str]:
    return [one.session_id for one in await scene.store.list_sessions(kind=None, limit=1_000)]


async def a_session_goes_when_it_ended_longer_ago_than_its_kind_is_kept(scene: Scene) -> None:
    for at, kind in enumerate(KINDS):
        await _ended(scene, kind, kind=kind, at_ms=10 * at)

    found = [
        (await _vacuum(scene, KEPT_MS + 10 * at + more), len(await _left(scene)))
        for at, _ in enumerate(KINDS)
        for more in (0, 1)
    ]

    expect(found, [(0, 4), (1, 3), (0, 3), (1, 2), (0, 2), (1, 1), (0, 1), (1, 0)])
    await scene.refused(SessionDeleted, scene.store.load_session("process"))
    (receipt,) = await scene.run(begin("process", "t2", kind="process"))
    expect((receipt.status, receipt.code), ("dropped", "session_deleted"))


async def each_kind_has_a_time_of_its_own_and_no_other_goes(scene: Scene) -> None:
    for kind in KINDS:
        await _ended(scene, kind, kind=kind)
    await _ended(scene, "chat", kind="chat")
    chat = await scene.begin()
    await scene.commit(chat)

    expect(await _vacuum(scene, 10**6, {"process": 10, "trigger": 10**7}), 1)
    expect(await _left(scene), ["chat", "child", "s1", "schedule", "trigger"])
    expect(await _vacuum(scene, 10**6, {}), 0)
    expect((await scene.store.vacuum(now_ms=10**6, retention_ms=0)).sessions, 0)


async def chats_are_not_kept_for_a_time(scene: Scene) -> None:
    await _ended(scene, "p1")
    for wrong in ({"chat": 1}, {"other": 1}, {"child": -1}, {"child": 1.5}, {"process": None}):
        await scene.refused(InvalidInput, _vacuum(scene, 10**6, wrong))


async def the_last_turn_of_a_session_counts(scene: Scene) -> None:
    await _ended(scene, "p1", at_ms=10)
    await scene.run(begin("p1", "t2"))
    worker_id = (await scene.session("p1")).owner or ""
    await scene.start("t2", session_id="p1", worker_id=worker_id)

    expect(await _vacuum(scene, 10**6), 0, "while a turn is under way")
    await scene.commit(Driven("p1", "t2", worker_id, 1), ending(head=1, now_ms=500))
    found = [await _vacuum(scene, now_ms) for now_ms in (500 + KEPT_MS, 501 + KEPT_MS)]

    expect(found, [0, 1])


async def a_session_with_something_unfinished_anywhere_below_stays(scene: Scene) -> None:
    await scene.run(begin("p1", "t1", kind="process"))
    first = await _driven(scene, "p1")
    await scene.send(first, begin("p2", "t1", kind="process"))
    second = await _driven(scene, "p2")
    await scene.send(second, begin("p3", "t1", kind="process"))
    third = await _driven(scene, "p3")
    for turn in (first, second):
        await _end(scene, turn, 10)

    expect((await _vacuum(scene, 10**6), await _left(scene)), (0, ["p1", "p2", "p3"]))
    await scene.write(third.unit(waits=(third.wait("w"),), parks=True))
    expect((await _vacuum(scene, 10**6), await _left(scene)), (0, ["p1", "p2", "p3"]))
    await _end(scene, third, 10**6)
    expect((await _vacuum(scene, 10**6 + KEPT_MS), len(await _left(scene))), (0, 3))
    expect((await _vacuum(scene, 10**6 + KEPT_MS + 1), await _left(scene)), (3, []))


async def what_is_kept_below_a_session_keeps_it(scene: Scene) -> None:
    await scene.run(begin("p1", "t1", kind="process"))
    first = await _driven(scene, "p1")
    await scene.send(first, begin("e1", "t1", kind="schedule"), begin("talk", "t1"))
    second, talk = await _driven(scene, "e1"), await _driven(scene, "talk")
    for turn in (first, second):
        await _end(scene, turn, 10)

    expect(await _vacuum(scene, 10**6, {"process": 1}), 0, "of a kind that is not named")
    expect(await _vacuum(scene, 10**6, ALL), 2)
    expect(await _left(scene), ["talk"])
    await scene.commit(talk)


async def a_session_that_an_item_is_to_enter_stays(scene: Scene) -> None:
    await _ended(scene, "p1", "p2")
    wake = NewItem(item_id="i1", kind="wake", when="next_turn")
    await scene.run(PostItem(session_id="p1", item=wake), signal("k1", to="p2"))

    expect((await _vacuum(scene, 10**6), await _left(scene)), (1, ["p1"]))
    await scene.store.withdraw("p1", "i1")
    expect(await _vacuum(scene, 10**6), 1)


async def a_child_stays_while_the_journal_of_the_turn_that_began_it_does(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.send(turn, child("c1"), begin("p1", "t1", kind="process"))
    for name in ("c1", "p1"):
        await _end(scene, await _driven(scene, name), 10)

    expect((await _vacuum(scene, 10**6), await _left(scene)), (1, ["c1", "s1"]))
    await _end(scene, turn, 10**6)
    kept = [await _vacuum(scene, 10**6 + 500, retention_ms=500), await _left(scene)]
    expect(kept, [0, ["c1", "s1"]])
    expect((await _vacuum(scene, 10**6 + 501, retention_ms=500), await _left(scene)), (1, ["s1"]))


async def a_later_turn_does_not_hold_the_child_of_an_earlier_one(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.send(turn, child("c1"))
    await _end(scene, await _driven(scene, "c1"), 10)
    await _end(scene, turn, 20)
    await scene.begin("t2", worker_id=turn.worker_id)

    expect((await _vacuum(scene, 10**6), await _left(scene)), (1, ["s1"]))


async def what_goes_leaves_no_row_and_a_tombstone(scene: Scene) -> None:
    digest = await scene.store.put_blob(b"some bytes", now_ms=0)
    await scene.run(begin("p1", "t1", kind="process"))
    turn = await _driven(scene, "p1")
    await scene.write(turn.unit(reply(turn), waits=(asking(turn, "w"),), blobs=(digest,)))
    await scene.run(signal("k1", to="p1"), signal("k2", to="p1"))
    await _end(scene, turn, 10)
    mark = (await scene.store.changes(None)).mark

    report = await scene.store.vacuum(now_ms=10**6, retention_ms=10**9, keep_ms=ALL)

    expect((report.sessions, report.bodies), (1, 1))
    told = [(one.kind, one.session_id) for one in (await scene.store.changes(mark)).changes]
    expect(told, [("deleted", "p1")])
    await scene.refused(InvalidInput, scene.store.get_blob(digest))
    for call in (scene.store.load_session("p1"), scene.store.inbox("p1")):
        await scene.refused(SessionDeleted, call)
    (receipt,) = await scene.run(post("p1"))
    expect((receipt.status, receipt.code), ("dropped", "session_deleted"))


async def many_go_at_once_and_none_that_is_younger(scene: Scene) -> None:
    await _ended(scene, *(f"p{at:03}" for at in range(MANY)), at_ms=10)
    await _ended(scene, "young", at_ms=10**6)

    expect((await _vacuum(scene, 10**6), await _left(scene)), (MANY, ["young"]))


@with_crash
async def what_went_is_gone_after_a_crash(scene: Scene) -> None:
    await _ended(scene, "p1", "p2", at_ms=10)
    await _ended(scene, "p3", at_ms=10**6)
    await _vacuum(scene, 10**6)

    await scene.keeps(scene.everything)

    expect(await _left(scene), ["p3"])
    await scene.refused(SessionDeleted, scene.store.load_session("p1"))
