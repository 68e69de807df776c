"""Forking and deleting: history is shared, never copied, and goes with its last reader."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from typing import Any

import msgspec

from windlass import errors
from windlass.journal import ForkedFrom, FrameOpened, HistoryPage, UsageLine
from windlass.kernel import ConversationRecord, Message, Stopped, Text
from windlass.ports import CancelReceipt, SessionView, WaitAnswer
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import FAR_MS, Driven, Scene, ending, expect


async def _grown(scene: Scene, turns: int, *, session_id: str = "s1", prefix: str = "t") -> str:
    """Let a session have so many turns more; return the worker that drove them."""
    worker = await scene.join()
    view = await scene.store.load_session(session_id) if prefix != "t" else None
    head = view.head if view else 0
    generation = view.generation + 1 if view else 1
    used = (UsageLine(source="turn", model="scripted", calls=1),)
    for at in range(turns):
        turn_id = f"{prefix}{head + at + 1}"
        place = {"turn_id": turn_id, "session_id": session_id}
        await scene.accept(**place)
        turn = await scene.start(**place, worker_id=worker, generation=generation)
        end = ending(turn_id, head=head + at, usage=used)
        await scene.write(turn.unit(reply(turn), commit=end))
    return worker


async def _turn_ids(scene: Scene, session_id: str) -> list[str]:
    return [page.turn_id for page in (await scene.session(session_id)).pages]


async def a_fork_begins_with_the_history_of_its_parent(scene: Scene) -> None:
    await _grown(scene, 3)
    parent = await scene.session("s1")

    fork = await scene.store.fork("s1", "f1", at=2, now_ms=9)

    wanted = SessionView(
        session_id="f1",
        agent="helper",
        created_ms=9,
        head=2,
        generation=0,
        parent="s1",
        parent_head=2,
        pages=parent.pages[:2],
    )
    expect(fork, wanted)
    expect(await scene.session("f1"), wanted)
    expect(await scene.session("s1"), parent)


async def a_fork_without_a_place_begins_at_the_head(scene: Scene) -> None:
    await _grown(scene, 2)

    await scene.store.fork("s1", "f1")
    await scene.store.fork("s1", "f0", at=0)

    expect(await _turn_ids(scene, "f1"), ["t1", "t2"])
    expect(await _turn_ids(scene, "f0"), [])


async def a_fork_and_its_parent_go_on_apart(scene: Scene) -> None:
    await _grown(scene, 2)
    await scene.store.fork("s1", "f1", at=1)
    await _grown(scene, 2, session_id="f1", prefix="f")
    await scene.store.release("s1", generation=1)
    await _grown(scene, 1, session_id="s1", prefix="p")

    expect(await _turn_ids(scene, "f1"), ["t1", "f2", "f3"])
    expect(await _turn_ids(scene, "s1"), ["t1", "t2", "p3"])
    expect((await scene.turn("f2", session_id="f1")).turn_index, 2)
    expect((await scene.session("f1")).usage[0].calls, 2, "calls that the fork counts")


async def a_fork_of_a_fork_may_begin_before_its_parent_did(scene: Scene) -> None:
    await _grown(scene, 3)
    await scene.store.fork("s1", "f1", at=2)
    await _grown(scene, 1, session_id="f1", prefix="f")

    await scene.store.fork("f1", "g1", at=1)
    await scene.store.fork("f1", "g3", at=3)

    expect(await _turn_ids(scene, "g1"), ["t1"])
    expect(await _turn_ids(scene, "g3"), ["t1", "t2", "f3"])


async def a_frame_is_all_from_the_last_page_that_is_a_beginning(scene: Scene) -> None:
    """A frame alone is no beginning: what was remembered before it is not told again there."""
    opened = FrameOpened(frame_id="f")
    begun = FrameOpened(frame_id="g", carries=True)
    nodes = ((), (begun,), (), (begun,), (opened,), ())
    worker = await scene.join()
    for head, added in enumerate(nodes):
        turn = await scene.begin(f"t{head + 1}", worker_id=worker)
        await scene.commit(turn, msgspec.structs.replace(ending(head=head), nodes=added))
    forks = {"f6": ("s1", 6), "f5": ("s1", 5), "f3": ("s1", 3), "f1": ("s1", 1), "f0": ("s1", 0)}
    forks |= {"g5": ("f6", 5), "g2": ("f5", 2)}
    for name, (parent, at) in forks.items():
        await scene.store.fork(parent, name, at=at)

    found = {name: await _frame(scene, name) for name in ("s1", *forks)}
    whole = (await scene.session("s1")).pages

    wanted = {"s1": whole[3:], "f6": whole[3:], "f5": whole[3:5], "f3": whole[1:3]}
    wanted |= {"f1": whole[:1], "f0": (), "g5": whole[3:5], "g2": whole[1:2]}
    expect(found, wanted)
    await _grown(scene, 1, session_id="f3", prefix="own")
    expect([page.turn_id for page in await _frame(scene, "f3")], ["t2", "t3", "own4"])
    bare = await scene.store.load_session("s1", history=False, frame=True)
    expect((bare.head, bare.pages), (6, ()))


async def _frame(scene: Scene, session_id: str) -> tuple[HistoryPage, ...]:
    return (await scene.store.load_session(session_id, frame=True)).pages


def _part(turn_id: str, **more: Any) -> HistoryPage:
    """Return the page of a fork that begins inside a turn."""
    said = Message(id="m1", role="user", parts=(Text(text="Look."),))
    wanted: dict[str, Any] = {
        "format": HistoryPage.FORMAT,
        "turn_id": turn_id,
        "nodes": (ConversationRecord(message=said),),
        "outcome": Stopped(reason="incomplete"),
        "committed_ms": 9,
        "forked": ForkedFrom(session_id="s1", turn_id=turn_id, iterations=1),
    }
    return HistoryPage(**wanted | more)


async def a_fork_may_begin_with_a_part_of_the_turn_that_follows(scene: Scene) -> None:
    await _grown(scene, 3)
    parent, part = await scene.session("s1"), _part("t3")

    fork = await scene.store.fork("s1", "f1", at=2, now_ms=9, page=part)

    expect((fork.head, fork.parent, fork.parent_head, fork.usage), (3, "s1", 2, ()))
    expect(fork.pages, (*parent.pages[:2], part))
    expect(await scene.session("f1"), fork)
    expect(await scene.store.load_history("f1", before=4, limit=1), (part,))
    expect(await scene.store.load_turn("f1", "t3"), None)
    expect(await scene.session("s1"), parent)
    await _grown(scene, 1, session_id="f1", prefix="f")
    expect(await _turn_ids(scene, "f1"), ["t1", "t2", "t3", "f4"])
    expect((await scene.turn("f4", session_id="f1")).turn_index, 4)


async def a_part_of_the_first_turn_is_a_whole_history(scene: Scene, turn: Driven) -> None:
    """The turn is unfinished, and goes on as it was."""
    await scene.store.fork("s1", "f1", at=0, page=_part("t1"))
    await scene.store.fork("f1", "g1", at=1)
    await scene.commit(turn)

    expect(await _turn_ids(scene, "f1"), ["t1"])
    expect((await scene.session("g1")).pages, (_part("t1"),))
    expect([page.forked for page in (await scene.session("s1")).pages], [None])


async def a_part_of_a_turn_outlives_the_turn(scene: Scene) -> None:
    await _grown(scene, 2)
    digest = await scene.store.put_blob(b"drawn", now_ms=0)
    fork = await scene.store.fork("s1", "f1", at=1, page=_part("t2"), blobs=(digest,))
    await scene.store.fork("f1", "g1")

    await scene.store.delete_session("s1", now_ms=1)
    await scene.store.delete_session("f1", now_ms=2)
    await scene.store.vacuum(now_ms=FAR_MS, retention_ms=0)

    expect((await scene.session("g1")).pages, fork.pages)
    expect(await scene.store.get_blob(digest), b"drawn")
    await scene.store.delete_session("g1", now_ms=3)
    await scene.store.vacuum(now_ms=FAR_MS, retention_ms=0)
    await scene.refused(errors.InvalidInput, scene.store.get_blob(digest))


async def a_part_of_a_turn_is_told_to_none_who_watch(scene: Scene) -> None:
    await _grown(scene, 2)
    mark = (await scene.store.changes(None)).mark

    await scene.store.fork("s1", "f1", at=1, page=_part("t2"))

    expect((await scene.store.changes(mark)).changes, ())


async def a_page_that_is_no_part_of_a_turn_begins_no_fork(scene: Scene) -> None:
    await _grown(scene, 1)
    used = (UsageLine(source="turn", model="scripted", calls=1),)

    for page in (_part("t1", forked=None), _part("t1", usage=used)):
        await scene.refused(errors.InvalidInput, scene.store.fork("s1", "f1", at=0, page=page))
    no_blob = scene.store.fork("s1", "f1", at=0, page=_part("t1"), blobs=("0" * 64,))
    await scene.refused(errors.InvalidInput, no_blob)
    await scene.store.fork("s1", "f1", at=0)
    again = scene.store.fork("s1", "f1", at=0, page=_part("t1"))
    await scene.refused(errors.IdempotencyConflict, again)


async def a_fork_takes_no_turns_items_or_waits_along(scene: Scene, turn: Driven) -> None:
    await scene.enqueue("i1")
    await scene.write(turn.unit(waits=(turn.wait("w"),)))

    fork = await scene.store.fork("s1", "f1")

    expect((fork.active, fork.owner, fork.usage), (None, None, ()))
    inbox = await scene.store.inbox("f1")
    expect((inbox.queued_turns, inbox.items), ((), ()))
    expect(await scene.store.list_waits(session_id="f1"), ())
    expect(await scene.store.load_turn("f1", "t1"), None)


async def a_place_that_is_no_end_of_a_turn_is_refused(scene: Scene) -> None:
    await _grown(scene, 2)

    for at in (-1, 3):
        await scene.refused(errors.InvalidInput, scene.store.fork("s1", "f1", at=at))
    await scene.refused(errors.InvalidInput, scene.store.fork("s1", "f/1"))


async def an_id_that_is_taken_is_no_fork(scene: Scene) -> None:
    await _grown(scene, 1)
    await scene.store.fork("s1", "f1")
    await scene.store.fork("s1", "gone")
    await scene.store.delete_session("gone", now_ms=1)

    for taken in ("f1", "s1"):
        await scene.refused(errors.IdempotencyConflict, scene.store.fork("s1", taken))
    await scene.refused(errors.SessionDeleted, scene.store.fork("s1", "gone"))
    await scene.refused(errors.UnknownSession, scene.store.fork("s9", "f2"))
    await scene.refused(errors.SessionDeleted, scene.store.fork("gone", "f2"))


async def a_deleted_session_leaves_only_its_id(scene: Scene, turn: Driven) -> None:
    await scene.enqueue("i1")
    await scene.write(turn.unit(waits=(turn.wait("w"),)))
    await scene.commit(turn)
    store = scene.store

    report = await store.delete_session("s1", now_ms=1)

    expect((report.session_id, report.pages > 0), ("s1", True))
    expect(await store.list_sessions(), ())
    for call in (
        store.load_session("s1"),
        store.load_turn("s1", "t1"),
        store.inbox("s1"),
        store.withdraw("s1", "i1"),
        store.delete_session("s1", now_ms=2),
        store.release("s1", generation=1),
        scene.commit(turn),
        scene.take_over(turn, turn.worker_id),
    ):
        await scene.refused(errors.SessionDeleted, call)
    await scene.refused(errors.InvalidInput, store.resolve_wait("w", WaitAnswer()))
    await scene.unchanged(store.request_cancel("s1", "t1"), CancelReceipt(status="unknown"))


async def a_session_with_an_unfinished_turn_is_not_deleted(scene: Scene) -> None:
    await scene.accept()
    await scene.refused(errors.HeadMoved, scene.store.delete_session("s1", now_ms=1))
    turn = await scene.start(worker_id=await scene.join())
    await scene.refused(errors.HeadMoved, scene.store.delete_session("s1", now_ms=1))
    await scene.write(turn.unit(parks=True))
    await scene.refused(errors.HeadMoved, scene.store.delete_session("s1", now_ms=1))
    await scene.commit(turn)

    await scene.store.delete_session("s1", now_ms=1)


async def a_session_that_is_not_there_is_not_deleted(scene: Scene) -> None:
    await scene.refused(errors.UnknownSession, scene.store.delete_session("s9", now_ms=1))
    await scene.refused(errors.UnknownSession, scene.store.load_session("s9"))


async def a_turn_of_a_session_that_never_was_is_none_and_of_a_deleted_one_refused(
    scene: Scene,
) -> None:
    turn = await scene.begin()
    await scene.commit(turn)

    await scene.unchanged(scene.store.load_turn("s9", "t1"), None)
    await scene.unchanged(scene.store.load_turn("s1", "t9"), None)
    await scene.store.delete_session("s1", now_ms=1)
    await scene.refused(errors.SessionDeleted, scene.store.load_turn("s1", "t1"))
    await scene.refused(errors.SessionDeleted, scene.store.load_turn("s1", "t9"))


async def a_fork_outlives_its_parent(scene: Scene) -> None:
    await _grown(scene, 3)
    fork = await scene.store.fork("s1", "f1", at=2)
    await scene.store.fork("f1", "g1", at=1)

    await scene.store.delete_session("s1", now_ms=1)

    expect(await scene.session("f1"), fork)
    await scene.store.delete_session("f1", now_ms=2)
    expect(await _turn_ids(scene, "g1"), ["t1"])
    await scene.store.delete_session("g1", now_ms=3)
    expect(await scene.store.list_sessions(), ())


async def the_delete_of_a_fork_leaves_its_parent_whole(scene: Scene) -> None:
    await _grown(scene, 2)
    await scene.store.fork("s1", "f1")
    await _grown(scene, 1, session_id="f1", prefix="f")
    parent = await scene.session("s1")

    await scene.store.delete_session("f1", now_ms=1)

    expect(await scene.session("s1"), parent)


async def sessions_are_listed_by_id_page_by_page(scene: Scene) -> None:
    for name in ("b", "a", "d", "c"):
        await scene.accept(session_id=name)
    store = scene.store

    async def names(after: str = "", limit: int = 100) -> list[str]:
        found = await store.list_sessions(after=after, limit=limit)
        return [summary.session_id for summary in found]

    expect(await names(), ["a", "b", "c", "d"])
    expect(await names(limit=2), ["a", "b"])
    expect(await names(after="b", limit=2), ["c", "d"])
    expect(await names(after="d"), [])


@with_crash
async def forks_and_tombstones_are_there_after_a_crash(scene: Scene) -> None:
    await _grown(scene, 3)
    fork = await scene.store.fork("s1", "f1", at=2)
    part = await scene.store.fork("s1", "f2", at=2, page=_part("t3"))
    await scene.store.delete_session("s1", now_ms=1)

    await scene.crash()

    expect(await scene.session("f1"), fork)
    expect(await scene.session("f2"), part)
    await scene.refused(errors.SessionDeleted, scene.store.load_session("s1"))
