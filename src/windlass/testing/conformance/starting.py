"""Starting: an errand begins a turn in a session of some kind, which belongs to the tree of the one that sent it."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from typing import get_args

from windlass.errors import HeadMoved, IdempotencyConflict, InvalidInput, SessionDeleted
from windlass.kernel import Attachment
from windlass.ports import (
    AcceptTurn,
    DueTurn,
    NewTurn,
    SessionKind,
    TurnRequest,
    WaitAnswer,
    WaitView,
)
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import intent, reply
from windlass.testing.conformance.errands import begin, child, post
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, new_turn, request

KINDS: tuple[SessionKind, ...] = get_args(SessionKind)


async def _driven(scene: Scene, session_id: str, turn_id: str = "t1") -> Driven:
    """Let a worker begin a turn that an errand accepted."""
    return await scene.start(turn_id, session_id=session_id, worker_id=await scene.join())


async def _tree(scene: Scene, session_id: str) -> tuple[str, str | None, str | None]:
    view = await scene.session(session_id)
    return view.kind, view.started_by, view.root


async def _wait(scene: Scene, key: str = "w") -> WaitView:
    return {view.wait.key: view for view in (await scene.turn()).waits}[key]


# ------------------------------------------------------------------ sessions of a kind


async def a_session_that_an_errand_makes_is_of_its_kind_and_in_the_tree(scene: Scene) -> None:
    turn = await scene.begin()

    await scene.send(turn, *(begin(kind, "t1", kind=kind) for kind in KINDS))

    for kind in KINDS:
        expect(await _tree(scene, kind), (kind, "s1", "s1"))
        view = await scene.session(kind)
        expect((view.agent, view.created_ms, view.head), ("helper", 7, 0))
        expect((view.parent, view.queued), (None, ("t1",)))
    (summary,) = [one for one in await scene.store.list_sessions() if one.session_id == "chat"]
    expect((summary.kind, summary.started_by), ("chat", "s1"))


async def an_errand_may_make_a_session_that_belongs_to_no_other(scene: Scene, turn: Driven) -> None:
    await scene.send(turn, begin("trigger", "t1", kind="trigger", at_top=True))

    expect(await _tree(scene, "trigger"), ("trigger", None, None))


async def a_session_that_callers_make_is_a_chat_at_the_top(scene: Scene, turn: Driven) -> None:
    expect(await _tree(scene, "s1"), ("chat", None, None))
    (summary,) = await scene.store.list_sessions()
    expect((summary.kind, summary.started_by), ("chat", None))
    await scene.commit(turn)


async def what_a_child_begins_has_the_same_root(scene: Scene, turn: Driven) -> None:
    await scene.send(turn, child("c1"))
    await scene.send(await _driven(scene, "c1"), child("c2", kind="process"))
    await scene.send(await _driven(scene, "c2"), child("c3"))

    expect(await _tree(scene, "c2"), ("process", "c1", "s1"))
    expect(await _tree(scene, "c3"), ("child", "c2", "s1"))


async def a_session_that_is_there_keeps_its_kind_and_its_place(scene: Scene, turn: Driven) -> None:
    await scene.accept(session_id="s2")
    await scene.send(turn, child("c1"))
    other = await _driven(scene, "s2")

    told = (begin("c1", "t2", kind="process"), begin("s2", "t2", kind="child"))
    receipts = await scene.send(other, *told)

    expect([receipt.status for receipt in receipts], ["done"] * 2)
    expect(await _tree(scene, "c1"), ("child", "s1", "s1"))
    expect(await _tree(scene, "s2"), ("chat", None, None))


async def errands_without_a_unit_make_sessions_at_the_top(scene: Scene) -> None:
    await scene.run(begin("p1", "t1", kind="process"))

    expect(await _tree(scene, "p1"), ("process", None, None))
    await scene.send(await _driven(scene, "p1"), child("c1"))
    expect(await _tree(scene, "c1"), ("child", "p1", "p1"))


async def a_fork_is_a_chat_that_nothing_began(scene: Scene, turn: Driven) -> None:
    await scene.send(turn, child("c1"))
    await scene.commit(await _driven(scene, "c1"))

    fork = await scene.store.fork("c1", "f1")

    expect((fork.kind, fork.started_by, fork.root, fork.parent), ("chat", None, None, "c1"))
    await scene.accept(session_id="f1")


async def a_turn_that_an_errand_accepts_is_as_any_other(scene: Scene, turn: Driven) -> None:
    new = new_turn("dig", agent="digger", submitter="lead", by="eva", now_ms=9)

    await scene.send(turn, AcceptTurn(session_id="c1", turn_id="t1", turn=new, kind="child"))

    view = await scene.turn(session_id="c1")
    expect((view.agent, view.state, view.submitter, view.by), ("digger", "queued", "lead", "eva"))
    expect((view.request, view.turn_index), (request("dig"), None))
    due = DueTurn(session_id="c1", turn_id="t1", agent="digger", why="queued")
    expect((await scene.store.due(0, agents=("digger",))).turns, (due,))
    now = await _driven(scene, "c1")
    await scene.write(now.unit(reply(now), commit=ending("found")))
    expect((await scene.session("c1")).head, 1)


async def a_turn_that_an_errand_accepts_takes_items_with_it(scene: Scene, turn: Driven) -> None:
    await scene.accept(session_id="s2")
    await scene.enqueue("i1", "i2", session_id="s2")
    told = AcceptTurn(session_id="s2", turn_id="t2", turn=new_turn(takes=("i1",)))

    for status in ("done", "known"):
        (receipt,) = await scene.send(turn, told)
        expect(receipt.status, status)

    states = [(item.state, item.turn_id) for item in (await scene.store.inbox("s2")).items]
    expect(states, [("taken", "t2"), ("pending", None)])


async def bytes_stay_while_a_turn_that_an_errand_accepted_refers_to_them(scene: Scene) -> None:
    turn = await scene.begin()
    digest = await scene.store.put_blob(b"some words", now_ms=0)
    file = Attachment(ref=digest, media_type="text/plain")
    new = NewTurn(agent="helper", request=TurnRequest(input=(file,)))
    await scene.send(turn, AcceptTurn(session_id="c1", turn_id="t1", turn=new, kind="child"))

    await scene.store.vacuum(now_ms=9 * 24 * 60 * 60 * 1000, retention_ms=0)

    expect(await scene.store.get_blob(digest), b"some words")


# ------------------------------------------------------------------ how many


async def a_tree_has_no_more_sessions_at_work_than_are_allowed(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=tuple(turn.wait(key, kind="child") for key in "abc")))

    told = [child(f"c{key}", most=2, rejects=key) for key in "abc"]
    receipts = await scene.send(turn, *told)

    expect([receipt.status for receipt in receipts], ["done", "done", "dropped"])
    reason = "session: found 2 others of its tree with unfinished turns, wanted fewer than 2"
    expect((receipts[2].reason, receipts[2].owner), (reason, None))
    expect(await scene.store.load_turn("cc", "t1"), None)
    rejected = WaitAnswer(status="rejected", value=reason, now_ms=7)
    expect([(await _wait(scene, key)).state for key in "abc"], ["open", "open", "rejected"])
    expect((await _wait(scene, "c")).answer, rejected)
    (known,) = await scene.send(turn, child("ca", most=0))
    expect(known.status, "known")


async def of_errands_that_find_no_room_those_run_first_whose_sessions_are_locked_first(
    scene: Scene, turn: Driven
) -> None:
    names = ("z", "m", "a", "b")

    receipts = await scene.send(turn, *(child(name, most=2) for name in names))

    found = {receipt.session_id: receipt.status for receipt in receipts}
    wanted = {"z": "dropped", "m": "dropped", "a": "done", "b": "done"}
    expect(found, wanted, "what became of each")


async def what_has_ended_makes_room(scene: Scene, turn: Driven) -> None:
    await scene.send(turn, child("c1", most=1))
    (receipt,) = await scene.send(turn, child("c2", most=1))
    expect(receipt.status, "dropped")
    await scene.commit(await _driven(scene, "c1"))

    for session_id, status in (("c2", "done"), ("c3", "dropped")):
        (receipt,) = await scene.send(turn, child(session_id, most=1))
        expect(receipt.status, status)


async def a_session_that_is_at_work_already_takes_no_more_room(scene: Scene, turn: Driven) -> None:
    await scene.send(turn, child("c1", most=1))

    (receipt,) = await scene.send(turn, begin("c1", "t2", kind="child", most=1))

    expect(receipt.status, "done")


async def the_whole_tree_counts_and_no_other(scene: Scene, turn: Driven) -> None:
    other = await scene.begin(session_id="s2")
    await scene.send(other, child("o1"), child("o2"))
    await scene.send(turn, child("c1"))
    now = await _driven(scene, "c1")

    for session_id, most, status in (("d1", 1, "dropped"), ("d1", 2, "done"), ("d2", 2, "dropped")):
        (receipt,) = await scene.send(now, child(session_id, most=most))
        expect(receipt.status, status)
    (receipt,) = await scene.send(turn, child("c2", most=2))
    expect(receipt.status, "dropped")


async def a_turn_that_ends_with_its_unit_makes_room_for_its_errands(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.send(turn, child("c1"))
    now = await _driven(scene, "c1")

    told = (child("c2", most=1), child("c3", most=1))
    receipt = await scene.write(now.unit(commit=ending(), errands=told))

    expect([one.status for one in receipt.errands], ["done", "dropped"])


# ------------------------------------------------------------------ a turn that was not accepted


async def a_turn_for_a_deleted_session_is_told_to_the_turn_that_waits(scene: Scene) -> None:
    turn, gone = await scene.begin(), await scene.begin(session_id="c1")
    await scene.commit(gone)
    await scene.store.delete_session("c1", now_ms=1)
    unit = turn.unit(
        intent(turn),
        waits=(turn.wait("w", kind="child"),),
        parks=True,
        errands=(child("c1", rejects="w"),),
    )

    (receipt,) = (await scene.write(unit)).errands

    expect((receipt.status, receipt.reason), ("dropped", "session c1: was deleted"))
    view = await _wait(scene)
    rejected = WaitAnswer(status="rejected", value="session c1: was deleted", now_ms=7)
    expect((view.state, view.answer, view.page), ("rejected", rejected, 1))
    expect((await scene.turn()).state, "ready", "the turn that parked")


async def whatever_keeps_a_turn_out_is_told_to_the_turn_that_waits(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.accept(session_id="c1", text="other")
    await scene.open_wait(turn, kind="child")

    (receipt,) = await scene.send(turn, child("c1", rejects="w"))

    reason = "turn t1: was already given with other content"
    expect((receipt.status, receipt.reason), ("dropped", reason))
    view = await _wait(scene)
    expect((view.state, view.answer and view.answer.value), ("rejected", reason))


async def an_answer_that_stands_is_not_rejected(scene: Scene, turn: Driven) -> None:
    await scene.approve(turn)

    await scene.send(turn, child("c1", most=0, rejects="w"))

    expect((await _wait(scene)).state, "answered")


async def a_turn_that_ends_with_its_unit_is_told_nothing(scene: Scene, turn: Driven) -> None:
    told = (child("c1", most=0, rejects="w"),)
    unit = turn.unit(waits=(turn.wait("w", kind="child"),), commit=ending(), errands=told)

    (receipt,) = (await scene.write(unit)).errands

    expect((receipt.status, (await _wait(scene)).state), ("dropped", "superseded"))


async def an_errand_rejects_no_wait_of_another_turn(scene: Scene, turn: Driven) -> None:
    other = await scene.begin(session_id="s2")
    await scene.open_wait(other, "theirs")

    for key in ("theirs", "none"):
        unit = turn.unit(reply(turn), errands=(post("s2"), child("c1", rejects=key)))
        refusal = await scene.refused(InvalidInput, unit)
        expect(refusal.field, "AcceptTurn.rejects")


# ------------------------------------------------------------------ what goes with a session


async def _grown_tree(scene: Scene) -> None:
    """Let `s1` have begun `c1`, which has begun `c2`; a chat that `c1` began has begun `c4`; all have ended."""
    turn = await scene.begin()
    await scene.send(turn, child("c1"))
    first = await _driven(scene, "c1")
    await scene.send(first, child("c2"), begin("talk", "t1"))
    second, talk = await _driven(scene, "c2"), await _driven(scene, "talk")
    await scene.send(talk, child("c4"))
    for one in (turn, first, second, talk, await _driven(scene, "c4")):
        await scene.commit(one)


async def _are_deleted(scene: Scene, *names: str) -> None:
    for name in names:
        await scene.refused(SessionDeleted, scene.store.load_session(name))


async def a_session_that_is_deleted_takes_along_what_it_began(scene: Scene) -> None:
    await _grown_tree(scene)
    before = [await scene.session(name) for name in ("talk", "c4")]

    report = await scene.store.delete_session("s1", now_ms=1)

    # Each of the three had what was asked of it, and what was said.
    expect((report.session_id, report.pages), ("s1", 6))
    await _are_deleted(scene, "s1", "c1", "c2")
    expect([await scene.session(name) for name in ("talk", "c4")], before, "a chat and below")
    await scene.refused(SessionDeleted, scene.accept(session_id="c2"))


async def a_child_that_is_deleted_leaves_what_is_above_it(scene: Scene) -> None:
    await _grown_tree(scene)
    top = await scene.session("s1")

    await scene.store.delete_session("c1", now_ms=1)

    await _are_deleted(scene, "c1", "c2")
    expect(await scene.session("s1"), top)
    expect(await _tree(scene, "talk"), ("chat", "c1", "s1"))
    await scene.store.delete_session("s1", now_ms=2)


async def a_tree_in_which_a_turn_is_unfinished_is_not_deleted(scene: Scene) -> None:
    await _grown_tree(scene)
    await scene.run(begin("c2", "t2"))

    for session_id in ("s1", "c1", "c2"):
        call = scene.store.delete_session(session_id, now_ms=1)
        refusal = await scene.refused(HeadMoved, call)
        expect(str(refusal), "session c2: has an unfinished turn; cancel it first")
    await scene.start("t2", session_id="c2", worker_id=(await scene.session("c2")).owner or "")
    now = Driven("c2", "t2", "", 1)
    await scene.commit(now, ending(head=1))
    await scene.store.delete_session("s1", now_ms=1)
    await _are_deleted(scene, "s1", "c1", "c2")


async def a_chat_at_work_below_a_session_does_not_hold_it(scene: Scene) -> None:
    await _grown_tree(scene)
    await scene.accept("t2", session_id="talk")

    await scene.store.delete_session("s1", now_ms=1)

    expect((await scene.session("talk")).queued, ("t2",))


async def a_fork_of_a_child_outlives_its_tree(scene: Scene) -> None:
    await _grown_tree(scene)
    fork = await scene.store.fork("c2", "f1")

    await scene.store.delete_session("s1", now_ms=1)

    expect(await scene.session("f1"), fork)


async def the_id_of_a_deleted_child_is_not_used_again(scene: Scene) -> None:
    await _grown_tree(scene)
    await scene.store.delete_session("c1", now_ms=1)
    turn = await scene.begin("t2", worker_id=(await scene.session("s1")).owner or "")

    (receipt,) = await scene.send(turn, child("c1"))

    expect((receipt.status, receipt.reason), ("dropped", "session c1: was deleted"))
    await scene.refused(IdempotencyConflict, scene.store.fork("s1", "talk"))


@with_crash
async def kinds_and_trees_are_there_after_a_crash(scene: Scene) -> None:
    await _grown_tree(scene)
    await scene.store.delete_session("c2", now_ms=1)

    await scene.keeps(scene.everything)

    expect(await _tree(scene, "c4"), ("child", "talk", "s1"))
    await _are_deleted(scene, "c2")
