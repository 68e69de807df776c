"""Listing: every list is walked page by page, shows each thing once, and holds what was asked for."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from typing import Any

from windlass import ports
from windlass.errors import InvalidInput, SessionDeleted, UnknownSession
from windlass.journal import FrameOpened
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import Driven, Scene, ending, expect

YES = ports.WaitAnswer(value=True)


async def _turns(scene: Scene, **wanted: Any) -> list[str]:
    found = await scene.store.list_turns(**wanted)
    return [f"{one.session_id}/{one.turn_id}" for one in found]


async def _sessions(scene: Scene, **wanted: Any) -> list[str]:
    return [one.session_id for one in await scene.store.list_sessions(**wanted)]


async def _waits(scene: Scene, **wanted: Any) -> list[str]:
    return [one.wait.key for one in await scene.store.list_waits(**wanted)]


async def _three_kinds_of_turns(scene: Scene) -> None:
    """Let turns of two agents be done, running and queued: a/t1, b/t1, a/t2, c/t1 in that order."""
    worker = await scene.join()
    done = await scene.begin(session_id="a", worker_id=worker)
    await scene.accept(session_id="b", agent="other")
    await scene.commit(done, ending(now_ms=7))
    await scene.begin("t2", session_id="a", worker_id=worker)
    await scene.accept(session_id="c")


# ---------------------------------------------------------------- turns


async def turns_are_listed_the_newest_first(scene: Scene) -> None:
    await _three_kinds_of_turns(scene)

    expect(await _turns(scene), ["c/t1", "a/t2", "b/t1", "a/t1"])
    numbers = [one.no for one in await scene.store.list_turns()]
    expect(numbers, sorted(numbers, reverse=True))


async def paging_through_turns_shows_each_once(scene: Scene) -> None:
    await _three_kinds_of_turns(scene)
    whole = await scene.store.list_turns()

    for limit in (1, 3):
        walked: list[ports.TurnSummary] = []
        before: int | None = None
        for _ in (*whole, None):
            some = await scene.store.list_turns(before=before, limit=limit)
            walked += some
            before = some[-1].no if some else before
        expect(tuple(walked), whole, f"what is walked by {limit}")


async def turns_are_listed_by_state_agent_and_session(scene: Scene) -> None:
    await _three_kinds_of_turns(scene)

    expect(await _turns(scene, state="done"), ["a/t1"])
    expect(await _turns(scene, state="running"), ["a/t2"])
    expect(await _turns(scene, state="queued"), ["c/t1", "b/t1"])
    expect(await _turns(scene, state="queued", agent="other"), ["b/t1"])
    expect(await _turns(scene, state="parked"), [])
    expect(await _turns(scene, session_id="a"), ["a/t2", "a/t1"])
    expect(await _turns(scene, session_id="a", state="queued"), [])
    expect(await _turns(scene, session_id="a", limit=1), ["a/t2"])
    expect(await _turns(scene, session_id="nothing"), [])
    expect(await _turns(scene, agent="helper", limit=2), ["c/t1", "a/t2"])


async def a_line_of_a_turn_says_how_it_stands(scene: Scene) -> None:
    turn = await scene.begin(by="eva")
    await scene.store.request_cancel("s1", "t1", reason="enough")
    (line,) = await scene.store.list_turns()
    wanted = ports.TurnSummary(
        no=line.no,
        session_id="s1",
        turn_id="t1",
        agent="helper",
        state="running",
        by="eva",
        cancel="enough",
        owner=turn.worker_id,
    )
    expect(line, wanted)

    other = await scene.begin(session_id="s2")
    await scene.commit(other, ending(now_ms=7))
    (line,) = await scene.store.list_turns(session_id="s2")
    expect((line.state, line.owner, line.ended_ms), ("done", None, 7))


async def the_turns_of_a_deleted_session_are_not_listed(scene: Scene, turn: Driven) -> None:
    await scene.commit(turn)
    await scene.store.delete_session("s1", now_ms=1)

    expect(await _turns(scene), [])
    expect(await _turns(scene, session_id="s1"), [])


# ---------------------------------------------------------------- sessions, waits, workers


async def sessions_are_listed_by_agent(scene: Scene) -> None:
    for session_id, agent in (("b", "one"), ("a", "one"), ("c", "two")):
        await scene.accept(session_id=session_id, agent=agent)

    expect(await _sessions(scene, agent="one"), ["a", "b"])
    expect(await _sessions(scene, agent="one", after="a"), ["b"])
    expect(await _sessions(scene, agent="one", limit=1), ["a"])
    expect(await _sessions(scene, agent="three"), [])


async def sessions_are_listed_by_kind_and_a_chat_is_begun_by_none(scene: Scene) -> None:
    await scene.accept()

    for kind in ("chat", None):
        expect(await _sessions(scene, kind=kind), ["s1"])
    expect(await _sessions(scene, kind="child"), [])
    expect(await _sessions(scene, started_by="s1"), [])
    expect(await _sessions(scene, started_by="nothing"), [])
    (line,) = await scene.store.list_sessions()
    expect((line.kind, line.started_by), ("chat", None))


async def paging_through_waits_shows_each_once(scene: Scene, turn: Driven) -> None:
    keys = ["e", "b", "d", "a", "c"]
    await scene.write(turn.unit(waits=tuple(turn.wait(key) for key in keys)))

    walked: list[str] = []
    after: str | None = None
    for _ in keys:
        some = await _waits(scene, after=after, limit=2)
        walked += some
        after = some[-1] if some else after

    expect(walked, keys)
    expect(await _waits(scene, after="d", session_id="s1", turn_id="t1"), ["a", "c"])
    expect(await _waits(scene, after="a", kind="timer"), [])


async def a_wait_that_was_answered_is_still_a_place_to_go_on_from(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.write(turn.unit(waits=tuple(turn.wait(key) for key in ("a", "b", "c"))))
    await scene.store.resolve_wait("b", YES)

    expect(await _waits(scene), ["a", "c"])
    expect(await _waits(scene, after="b"), ["c"])


async def waits_behind_one_that_is_none_are_refused(scene: Scene, turn: Driven) -> None:
    await scene.open_wait(turn)

    refusal = await scene.refused(InvalidInput, scene.store.list_waits(after="nothing"))
    expect(refusal.field, "after")


async def workers_are_listed_by_id_with_their_presence(scene: Scene) -> None:
    expect(await scene.store.list_workers(now_ms=0), ())
    alive, over, dead, left = [await scene.join() for _ in range(4)]
    await scene.store.renew(alive, until_ms=3_000).durable()
    await scene.kill(dead)
    await scene.store.leave(left)

    found = await scene.store.list_workers(now_ms=1_000)

    expect([one.worker_id for one in found], sorted((alive, over, dead)))
    shown = {one.worker_id: (one.until_ms, one.is_present) for one in found}
    expect(shown, {alive: (3_000, True), over: (1_000, False), dead: (1_000, False)})


# ---------------------------------------------------------------- history and journal


async def _five_turns(scene: Scene) -> None:
    """Let five turns end; the third begins a frame."""
    worker = await scene.join()
    for at in range(5):
        turn = await scene.begin(f"t{at + 1}", worker_id=worker)
        nodes = (FrameOpened(frame_id="f", carries=True),) if at == 2 else ()
        end = ports.TurnCommit(expected_head=at, nodes=nodes, outcome=ending().outcome)
        await scene.commit(turn, end)


async def _history(scene: Scene, session_id: str = "s1", **wanted: Any) -> list[str]:
    return [page.turn_id for page in await scene.store.load_history(session_id, **wanted)]


async def history_is_read_page_by_page_from_its_end(scene: Scene) -> None:
    await _five_turns(scene)

    expect(await scene.store.load_history("s1"), (await scene.session()).pages)
    expect(await _history(scene, limit=2), ["t4", "t5"])
    expect(await _history(scene, before=4, limit=2), ["t2", "t3"])
    expect(await _history(scene, before=2, limit=2), ["t1"])
    expect(await _history(scene, before=1, limit=2), [])
    expect(await _history(scene, before=99), ["t1", "t2", "t3", "t4", "t5"])


async def a_part_of_history_may_begin_with_its_last_frame(scene: Scene) -> None:
    await _five_turns(scene)

    expect(await _history(scene, frame=True), ["t3", "t4", "t5"])
    expect(await _history(scene, frame=True, limit=2), ["t4", "t5"])
    expect(await _history(scene, frame=True, before=5), ["t3", "t4"])
    expect(await _history(scene, frame=True, before=3), ["t1", "t2"])


async def the_history_of_a_fork_is_read_over_what_it_shares(scene: Scene) -> None:
    await _five_turns(scene)
    await scene.store.fork("s1", "f", at=4)
    turn = await scene.begin("own", session_id="f")
    await scene.commit(turn, ending(head=4))

    expect(await _history(scene, "f"), ["t1", "t2", "t3", "t4", "own"])
    expect(await _history(scene, "f", limit=2), ["t4", "own"])
    expect(await _history(scene, "f", before=4, limit=2), ["t2", "t3"])
    expect(await _history(scene, "f", frame=True), ["t3", "t4", "own"])


async def there_is_no_history_of_a_session_that_is_none(scene: Scene, turn: Driven) -> None:
    expect(await _history(scene), [])
    await scene.refused(UnknownSession, scene.store.load_history("s9"))
    await scene.commit(turn)
    await scene.store.delete_session("s1", now_ms=1)

    await scene.refused(SessionDeleted, scene.store.load_history("s1"))


async def a_turn_is_read_from_a_page_on(scene: Scene, turn: Driven) -> None:
    for at in range(3):
        await scene.write(turn.unit(reply(turn, at), position=at))
    whole = await scene.turn()

    async def since(number: int) -> ports.TurnView:
        view = await scene.store.load_turn("s1", "t1", since=number)
        if view is None:
            raise AssertionError("found no turn, wanted one")
        expect(view.since, number)
        return view

    for _ in range(2):
        expect([(await since(number)).pages for number in range(5)], _tails(whole))
        await scene.commit(turn)
    expect((await since(2)).state, "done")


def _tails(view: ports.TurnView) -> list[tuple[Any, ...]]:
    return [view.pages[number:] for number in range(5)]
