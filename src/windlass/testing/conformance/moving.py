"""Moving: a process is made to belong to another session, with all below it; and what sessions are found by."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from typing import Any

from windlass.errors import SessionDeleted
from windlass.ports import ErrandReceipt, MoveSession
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.errands import begin, child
from windlass.testing.conformance.scene import Driven, Scene, ending, expect


def _move(session_id: str = "p1", to: str = "s2") -> MoveSession:
    return MoveSession(session_id=session_id, to=to)


async def _driven(scene: Scene, session_id: str) -> Driven:
    return await scene.start(session_id=session_id, worker_id=await scene.join())


async def _tree(scene: Scene, *names: str) -> list[tuple[str | None, str | None]]:
    views = [await scene.session(name) for name in names]
    return [(view.started_by, view.root) for view in views]


async def _grown(scene: Scene, turn: Driven) -> list[Driven]:
    """Let `s1` have begun the process `p1`, that the child `c1`, that a chat, and that the process `p2`."""
    await scene.accept(session_id="s2")
    driven = [turn]
    for name, kind in (("p1", "process"), ("c1", "child"), ("talk", "chat"), ("p2", "process")):
        await scene.send(driven[-1], begin(name, "t1", kind=kind))
        driven.append(await _driven(scene, name))
    return driven


BELOW = ("p1", "c1", "talk", "p2")


# ------------------------------------------------------------------ a process moves


async def a_process_moves_with_all_below_it(scene: Scene, turn: Driven) -> None:
    driven = await _grown(scene, turn)

    receipts = await scene.send(turn, _move())

    owner = driven[1].worker_id
    expect(receipts, (ErrandReceipt(status="done", session_id="p1", owner=owner),))
    wanted = [("s2", "s2"), ("p1", "s2"), ("c1", "s2"), ("talk", "s2")]
    expect(await _tree(scene, *BELOW), wanted)
    found = [[one.session_id for one in await _below(scene, root)] for root in ("s1", "s2")]
    expect(found, [[], ["c1", "p1", "p2", "talk"]])


async def _below(scene: Scene, root: str) -> Any:  # noqa: ANN401 - lines of a list
    return await scene.store.list_sessions(kind=None, root=root)


async def a_process_moves_below_another_session_and_to_the_top_of_that_tree(
    scene: Scene, turn: Driven
) -> None:
    await _grown(scene, turn)
    other = await _driven(scene, "s2")
    await scene.send(other, child("c9"))

    (receipt,) = await scene.run(_move("p2", "c9"))

    expect((receipt.status, await _tree(scene, "p2")), ("done", [("c9", "s2")]))
    expect(await _tree(scene, "p1", "talk"), [("s1", "s1"), ("c1", "s1")])


async def a_process_at_the_top_moves_below_one(scene: Scene) -> None:
    await scene.accept(session_id="s2")
    await scene.run(begin("p1", "t1", kind="process"))
    await scene.send(await _driven(scene, "p1"), child("c1"))

    await scene.run(_move())

    expect(await _tree(scene, "p1", "c1"), [("s2", "s2"), ("p1", "s2")])


async def what_is_there_already_is_known(scene: Scene, turn: Driven) -> None:
    await _grown(scene, turn)

    found = [(await scene.run(_move()))[0].status for _ in range(2)]
    found += [one.status for one in await scene.send(turn, _move())]

    expect(found, ["done", "known", "known"])


async def what_a_moved_process_begins_is_of_its_new_tree(scene: Scene, turn: Driven) -> None:
    _, process, *_ = await _grown(scene, turn)

    told = (_move(), child("q1"), child("c2", most=1))
    receipts = await scene.send(process, *told)

    # They run by the ids of their sessions: `c2` comes before the move and finds others of the old tree at work, `q1` after.
    expect([one.status for one in receipts], ["done", "done", "dropped"])
    expect(await _tree(scene, "q1"), [("p1", "s2")])
    await scene.send(process, child("c3"))
    expect(await _tree(scene, "c3"), [("p1", "s2")])


async def what_cannot_be_moved_stays_and_says_why(scene: Scene, turn: Driven) -> None:
    await _grown(scene, turn)
    gone = await scene.begin(session_id="gone")
    await scene.commit(gone)
    await scene.store.delete_session("gone", now_ms=1)
    before = await _tree(scene, "s1", *BELOW)

    moves = [
        (_move("c1"), "invalid_input"),
        (_move("s1"), "invalid_input"),
        (_move("talk"), "invalid_input"),
        (_move(to="p1"), "invalid_input"),
        (_move(to="p2"), "invalid_input"),
        (_move(to="gone"), "session_deleted"),
        (_move(to="never"), "unknown_session"),
        (_move("gone"), "session_deleted"),
        (_move("never"), "unknown_session"),
    ]
    receipts = await scene.send(turn, *(move for move, _ in moves))

    expect([one.status for one in receipts], ["dropped"] * len(moves))
    expect([one.code for one in receipts], [code for _, code in moves])
    expect(await _tree(scene, "s1", *BELOW), before)


async def a_moved_process_goes_with_the_session_that_it_belongs_to(
    scene: Scene, turn: Driven
) -> None:
    driven = await _grown(scene, turn)
    await scene.run(_move())
    for one in (*driven, await _driven(scene, "s2")):
        await scene.commit(one)

    await scene.store.delete_session("s1", now_ms=1)
    expect([(await scene.session(name)).session_id for name in BELOW], list(BELOW))
    await scene.store.delete_session("s2", now_ms=2)

    for name in ("p1", "c1"):
        await scene.refused(SessionDeleted, scene.store.load_session(name))
    expect(await _tree(scene, "talk"), [("c1", "s2")])


async def a_process_that_ends_with_its_unit_moves_all_the_same(scene: Scene, turn: Driven) -> None:
    _, process, *_ = await _grown(scene, turn)

    receipt = await scene.write(process.unit(commit=ending(), errands=(_move(),)))

    expect([one.status for one in receipt.errands], ["done"])
    expect(await _tree(scene, "p1"), [("s2", "s2")])


# ------------------------------------------------------------------ what began it, told


async def an_errand_without_a_unit_names_what_began_a_session(scene: Scene, turn: Driven) -> None:
    await scene.send(turn, child("c1"))

    told = (begin("p1", "t1", kind="process", parent="c1"), begin("p2", "t1", parent="never"))
    receipts = await scene.run(*told)

    expect([one.status for one in receipts], ["done", "dropped"])
    expect((receipts[1].code, receipts[1].owner), ("unknown_session", None))
    expect(await _tree(scene, "p1"), [("c1", "s1")])
    (known,) = await scene.run(begin("p1", "t1", kind="process", parent="never"))
    expect(known.status, "known")
    await scene.run(begin("p1", "t2", parent="never"))
    expect(await _tree(scene, "p1"), [("c1", "s1")])


async def the_tree_of_a_parent_has_as_many_at_work_as_are_allowed(
    scene: Scene, turn: Driven
) -> None:
    await scene.send(turn, child("c1"))

    told = [begin(name, "t1", kind="process", parent="c1", most=2) for name in ("p1", "p2")]
    receipts = await scene.run(*told)

    expect([one.status for one in receipts], ["done", "dropped"])
    expect(receipts[1].code, "limit_exceeded")


# ------------------------------------------------------------------ labels


async def a_session_is_found_by_its_label_and_its_root(scene: Scene, turn: Driven) -> None:
    told = [
        begin("p1", "t1", kind="process", label="nightly"),
        begin("p2", "t1", kind="process", label="hourly"),
        child("c1"),
    ]
    await scene.send(turn, *told)
    await scene.run(begin("p3", "t1", kind="process", label="nightly"))

    async def names(**wanted: Any) -> list[str]:
        return [one.session_id for one in await scene.store.list_sessions(**wanted)]

    expect(await names(kind="process", label="nightly"), ["p1", "p3"])
    expect(await names(kind=None, label="nightly", root="s1"), ["p1"])
    expect(await names(kind=None, root="s1"), ["c1", "p1", "p2"])
    expect(await names(kind=None, root="s1", after="c1", limit=1), ["p1"])
    expect(await names(kind=None, label="weekly"), [])
    expect(await names(kind=None, root="p1"), [])
    lines = await scene.store.list_sessions(kind="process")
    found = [(line.label, line.root) for line in lines]
    expect(found, [("nightly", "s1"), ("hourly", "s1"), ("nightly", None)])
    expect([(await scene.session(name)).label for name in ("p1", "c1")], ["nightly", None])


async def a_session_that_is_there_keeps_its_label(scene: Scene, turn: Driven) -> None:
    await scene.send(turn, begin("p1", "t1", kind="process", label="first"))

    await scene.send(
        turn, begin("p1", "t2", kind="process", label="second"), begin("s1", label="x")
    )

    expect([(await scene.session(name)).label for name in ("p1", "s1")], ["first", None])


@with_crash
async def labels_and_moves_are_there_after_a_crash(scene: Scene, turn: Driven) -> None:
    await _grown(scene, turn)
    await scene.run(_move(), begin("p3", "t1", kind="process", label="nightly", parent="p1"))

    await scene.keeps(scene.everything)

    expect(await _tree(scene, "p2", "p3"), [("talk", "s2"), ("p1", "s2")])
    expect((await scene.session("p3")).label, "nightly")
