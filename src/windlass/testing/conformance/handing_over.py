"""Handing over: the end of a turn gives its session to another agent, with what waits there."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from windlass.errors import IdempotencyConflict, InvalidInput
from windlass.kernel import HandedOff
from windlass.ports import DueTurn, NewItem, TurnCommit
from windlass.ports.unit import AcceptTurn
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, new_turn


def _end(agent: str | None = "other") -> TurnCommit:
    return ending(outcome=HandedOff(target="other", task="go on"), agent=agent)


def _next(turn_id: str = "next") -> AcceptTurn:
    turn = new_turn("go on", agent="other")
    return AcceptTurn(session_id="s1", turn_id=turn_id, turn=turn)


async def _agents(scene: Scene, *turn_ids: str) -> list[str]:
    return [(await scene.turn(turn_id)).agent for turn_id in turn_ids]


async def the_end_of_a_turn_gives_its_session_to_another_agent(scene: Scene, turn: Driven) -> None:
    await scene.commit(turn, _end())

    expect((await scene.session()).agent, "other")
    expect([one.agent for one in await scene.store.list_sessions()], ["other"])
    expect(await _agents(scene, "t1"), ["helper"])  # it was that one's


async def an_end_that_names_no_agent_leaves_the_session_where_it_is(
    scene: Scene, turn: Driven
) -> None:
    await scene.accept("t2")

    await scene.commit(turn, _end(None))

    expect((await scene.session()).agent, "helper")
    expect(await _agents(scene, "t2"), ["helper"])


async def an_end_that_comes_again_is_compared_by_its_agent(scene: Scene, turn: Driven) -> None:
    receipt = await scene.commit(turn, _end())

    await scene.unchanged(scene.commit(turn, _end()), receipt)
    await scene.refused(IdempotencyConflict, scene.commit(turn, _end("third")))


async def turns_that_wait_for_the_old_agent_go_along(scene: Scene, turn: Driven) -> None:
    await scene.accept("t2")
    await scene.accept("t3", agent="third")
    await scene.accept("t4")
    await scene.accept("elsewhere", session_id="s2")

    await scene.commit(turn, _end())

    expect(await _agents(scene, "t2", "t3", "t4"), ["other", "third", "other"])
    expect((await scene.turn("elsewhere", session_id="s2")).agent, "helper")
    due = (await scene.store.due(0, agents=("other",))).turns
    wanted = DueTurn(
        session_id="s1", turn_id="t2", agent="other", why="queued", owner=turn.worker_id
    )
    expect(due, (wanted,))


async def items_that_wait_are_the_new_agents(scene: Scene, turn: Driven) -> None:
    await scene.store.enqueue("s1", NewItem(item_id="i", when="next_turn"))

    await scene.commit(turn, _end())

    found = (await scene.store.due(0, agents=("other",))).inboxes
    expect([(one.agent, one.first.item_id) for one in found], [("other", "i")])
    expect((await scene.store.due(0, agents=("helper",))).inboxes, ())


async def an_end_that_is_refused_gives_nothing_away(scene: Scene, turn: Driven) -> None:
    await scene.accept("t2")
    end = ending(outcome=HandedOff(target="other"), agent="other", settle=("nothing",))

    await scene.refused(InvalidInput, scene.commit(turn, end))
    await scene.refused(InvalidInput, turn.unit(commit=end, errands=(_next(),)))

    await scene.commit(turn)
    expect(await _agents(scene, "t2"), ["helper"])


async def a_turn_that_the_end_of_another_accepts_has_its_place(scene: Scene, turn: Driven) -> None:
    await scene.accept("t2")
    await scene.enqueue("i")

    (receipt,) = await scene.send(turn, _next(), commit=_end())

    expect((receipt.status, receipt.session_id, receipt.turn_id), ("done", "s1", "next"))
    session = await scene.session()
    expect((session.agent, session.queued, session.waiting), ("other", ("next", "t2"), 1))
    (due,) = (await scene.store.due(0, agents=("other",))).turns
    expect((due.turn_id, due.why), ("next", "queued"))
    follower = await scene.start("next", worker_id=turn.worker_id)
    await scene.commit(follower, ending(head=1))
    expect((await scene.session()).queued, ("t2",))


async def a_turn_of_another_session_has_a_place_of_its_own(scene: Scene, turn: Driven) -> None:
    await scene.accept("first", session_id="s2")
    elsewhere = AcceptTurn(session_id="s2", turn_id="second", turn=new_turn("go on"))

    await scene.send(turn, elsewhere, commit=_end())

    expect((await scene.session("s2")).queued, ("first", "second"))


async def a_turn_that_is_accepted_before_the_end_queues_behind(scene: Scene, turn: Driven) -> None:
    await scene.accept("t2")

    await scene.send(turn, _next())

    expect((await scene.session()).queued, ("t2", "next"))


async def a_hand_over_that_landed_is_known(scene: Scene, turn: Driven) -> None:
    unit = turn.unit(commit=_end(), errands=(_next(),))
    first = await scene.write(unit)

    again = await scene.write(unit)

    expect(again.committed, first.committed)
    expect([one.status for one in again.errands], ["known"])
    expect((await scene.session()).queued, ("next",))


@with_crash
async def a_hand_over_is_there_after_a_crash(scene: Scene, turn: Driven) -> None:
    await scene.accept("t2")
    await scene.send(turn, _next(), commit=_end())

    await scene.keeps(scene.session)
    expect(await _agents(scene, "next", "t2"), ["other", "other"])
