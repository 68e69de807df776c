"""Several workers on one file: no turn runs twice, and none is left behind.

Workers are real processes; turns are submitted by this one, which drives none. How soon a worker comes is counted in its
looks for work: it looks four times a second, and a machine with other work to do delays the looks as well.

A worker's claim to a new turn rides with the first thing that it writes: until then two may begin it, ask for its first
reply and look something up, but only one gets to act. So `look`, which is pure, is not counted; `pay` and `post` are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.durability.soak import gang
from tests.durability.soak.gang import task
from tests.durability.soak.member_process import Member, wait_until
from tests.durability.soak.place import Job, Place, members
from windlass import Runtime, Text
from windlass.ports import NewTurn, TurnRequest
from windlass.testing import VirtualClock

LEASE_S = 2.0
LOOKS_PER_S = 4
TWO_LOOKS_S = 2 / LOOKS_PER_S
LOOKS_TO_TAKE_OVER = 2 * LOOKS_PER_S


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path)
    yield place
    place.ledger.close()


# ------------------------------------------------------------------------- sharing


def test_two_workers_share_the_work_and_no_call_runs_twice(place: Place) -> None:
    jobs = [
        Job(f"s{session}", task("pay:0+look:0.1", "post:0.1", "look:0+look:0"), turn)
        for turn in ("t0", "t1")
        for session in range(12)
    ]
    with members(place, 2, "--max-turns", "4") as (first, second):
        place.submit(*jobs)
        place.await_ends(*jobs)
        assert first.lines("tool")
        assert second.lines("tool")
        assert (first.stderr, second.stderr) == ("", "")
    assert place.findings(*jobs) == []
    acts = [line for line in place.runs() if line.said["name"] != "look"]
    assert len(acts) == len(jobs) * 2
    for job in jobs:
        session, turn = place.read(job)
        assert [page.turn_id for page in session.pages] == ["t0", "t1"]
        assert turn.takeovers == 0
        # One worker drove it, from its first act to its last.
        own = {a.pid for a in acts if (a.session, a.call[:2]) == (job.session, job.turn)}
        assert len(own) == 1


def test_a_worker_that_takes_the_living_for_dead_is_found_out(place: Place) -> None:
    """The red proof of what the test above and the next one look at."""
    job = Job("s0", task("post:4"))
    robbing = ("--mutant", "take_the_living_for_dead")
    with Member(place.folder) as first, Member(place.folder, *robbing) as robber:
        robber.pause()
        place.submit(job)
        first.await_line("tool", "s0")
        robber.go_on()
        robber.await_line("tool", "s0")
        place.await_ends(job)
    assert place.findings(job) == ["s0: t0/post_0_0 ran 2 times"]


# ------------------------------------------------------------------------- death


def test_the_turns_of_a_killed_worker_are_taken_over_within_two_seconds(place: Place) -> None:
    jobs = [
        Job("s0", task("pay:30", "look:0")),
        Job("s1", task("post:2", "look:0")),
        Job("s2", task("look:2", "pay:0")),
        Job("s3", task("look:0+pay:30+post:2", "post:0")),
        Job("s4", task("pay:0", "pay:30", "look:0")),
    ]
    cut = tuple(job.session for job in jobs)
    last = ("pay_0_0", "post_0_0", "look_0_0", "post_0_2", "pay_1_0")
    with Member(place.folder) as dying, members(place, 2) as heirs:
        for heir in heirs:
            heir.pause()
        place.submit(*jobs)
        for session, call in zip(cut, last, strict=True):
            dying.await_line("tool", session, call)
        for heir in heirs:
            heir.go_on()
        time.sleep(TWO_LOOKS_S)
        assert not any(heir.lines("tool", "model") for heir in heirs), "the living one was robbed"
        killed_s = dying.kill()
        place.await_ends(*jobs)
        assert [heir.stderr for heir in heirs] == ["", ""]
    for session in cut:
        after = [line for line in place.runs(session) if line.pid != dying.pid]
        assert len({line.pid for line in after}) == 1, "one of the two continues a turn"
        (heir,) = (heir for heir in heirs if heir.pid == after[0].pid)
        assert heir.looks_between(killed_s, after[0].at_s) <= LOOKS_TO_TAKE_OVER
    assert place.findings(*jobs, cut=cut) == []
    assert place.statuses(jobs[0]) == {"pay_0_0": "unknown", "look_1_0": "ok"}
    assert place.statuses(jobs[4]) == {"pay_0_0": "ok", "pay_1_0": "unknown", "look_2_0": "ok"}
    for job in jobs:
        _, turn = place.read(job)
        assert turn.takeovers <= 1


# ------------------------------------------------------------------------- standing still


class Taken(NamedTuple):
    """How one turn of a worker that stands still was taken over."""

    looks: int
    after_s: float


class Woken(NamedTuple):
    """What does not hold after a worker was woken up, and how its turns had been taken over."""

    found: list[str]
    lease_left_s: float
    taken: list[Taken]


def wake_a_zombie(place: Place, lease_s: float, *mutant: str) -> Woken:
    """Stop a worker past its lease, let another take over, wake it up."""
    slow_s = lease_s + 2
    jobs = [
        Job("s0", task("pay:0.5", "look:0")),  # ends before the sleeper wakes up
        Job("s1", task(f"post:{slow_s}", "look:0")),  # is under way in both when it does
        Job("s2", task("pay:0.5", f"look:{slow_s}")),
    ]
    cut = tuple(job.session for job in jobs)
    lease = ("--lease", str(lease_s))
    with Member(place.folder, *lease, *mutant) as sleeper, Member(place.folder, *lease) as heir:
        heir.pause()
        place.submit(*jobs)
        for session in cut:
            sleeper.await_line("tool", session)
        heir.go_on()
        stopped_s = sleeper.pause()
        lease_left_s = place.lease_left_s(cut[0])
        began_s = [heir.await_line("tool", session).at_s for session in cut]
        taken = [Taken(heir.looks_between(stopped_s, at), at - stopped_s) for at in began_s]
        place.await_ends(jobs[0])
        before = place.read(jobs[0])
        woken_s = sleeper.go_on()
        if mutant:
            # What was written without a fence cannot be read any more, so the turns need not end.
            with suppress(TimeoutError):
                place.await_ends(*jobs, within_s=2 * slow_s)
            return Woken(place.findings(*jobs, cut=cut), lease_left_s, taken)
        place.await_ends(*jobs)
        found = place.findings(*jobs, cut=cut)
        if place.read(jobs[0]) != before:
            found.append("s0: was changed after its end")
        found += (
            f"{line.session}: {line.call} was begun by the one that was woken up"
            for line in sleeper.lines("tool")
            if line.at_s > woken_s
        )
        found += _goes_on_living(place, sleeper, heir)
    return Woken(found, lease_left_s, taken)


def _goes_on_living(place: Place, sleeper: Member, heir: Member) -> Iterator[str]:
    """Once the other has left, who was woken up drives what comes, also in the session that it had lost."""
    assert heir.leave() == 0
    later, again = Job("later", task("pay:0")), Job("s0", task("pay:0"), "t1")
    place.submit(later, again)
    place.await_ends(later, again)
    yield from place.findings(later, again)
    sleeper.await_line("tool", "later", "t0/pay_0_0")
    sleeper.await_line("tool", "s0", "t1/pay_3_0")
    if sleeper.stderr:
        yield sleeper.stderr


@pytest.mark.slow
def test_the_turns_of_a_worker_that_stands_still_go_on_elsewhere_and_its_late_writes_are_refused(
    place: Place,
) -> None:
    woken = wake_a_zombie(place, LEASE_S)
    assert woken.found == []
    looks = LEASE_S * LOOKS_PER_S + LOOKS_TO_TAKE_OVER
    assert all(1 <= each.looks <= looks for each in woken.taken)
    # Nothing is taken from it before its lease is over.
    assert 0 < woken.lease_left_s <= min(each.after_s for each in woken.taken)
    assert place.statuses(Job("s0", "")) == {"pay_0_0": "unknown", "look_1_0": "ok"}


@pytest.mark.slow
def test_a_worker_that_writes_without_a_fence_is_found_out(place: Place) -> None:
    """The red proof of the test above."""
    woken = wake_a_zombie(place, 1.0, "--mutant", "write_without_fence")
    assert [each for each in woken.found if "generations wrote in the order" in each]


# ------------------------------------------------------------------------- leaving


def test_who_leaves_lets_the_other_go_on_at_once(place: Place) -> None:
    jobs = [
        Job("s0", task("pay:1", "look:0")),
        Job("s1", task("look:0.8", "post:0.8", "pay:0.1")),
        Job("s2", task("pay:0.9+post:0.2", "pay:0")),
    ]
    with members(place, 2) as (leaving, staying):
        staying.pause()
        place.submit(*jobs)
        for job in jobs:
            leaving.await_line("tool", job.session)
        staying.go_on()
        assert leaving.leave() == 0
        place.await_ends(*jobs)
        left_s = leaving.await_line("left").at_s
        assert (leaving.stderr, staying.stderr) == ("", "")
    # It lets bodies that run come to their end, so that nothing is cut and nothing runs again.
    assert place.findings(*jobs) == []
    for job in jobs:
        assert set(place.statuses(job).values()) == {"ok"}
        after = [line for line in place.runs(job.session) if line.pid == staying.pid]
        assert staying.looks_between(left_s, after[0].at_s) <= LOOKS_PER_S


# ------------------------------------------------------------------------- whose agent it is


def test_a_worker_leaves_turns_of_agents_that_it_does_not_have_alone(place: Place) -> None:
    job = Job("s0", task("post:0.5", "look:0"))
    waiting = Job("s1", task("look:0"))

    async def stranger() -> None:
        agent = gang.gang(place.ledger, gang.OTHER)
        async with Runtime(agent, store=place.store) as runtime:
            await asyncio.sleep(TWO_LOOKS_S * 2)
            status = await runtime.status()
        assert [(turn.session_id, turn.why) for turn in status.foreign] == [
            ("s0", "abandoned"),
            ("s1", "queued"),
        ]
        assert {turn.agent for turn in status.foreign} == {gang.NAME}
        assert (status.due, status.driving) == ((), ())

    with Member(place.folder) as dying:
        place.submit(job)
        dying.await_line("tool", "s0")
        dying.kill()
    place.submit(waiting)
    before = [place.read(job), place.read(waiting)]
    asyncio.run(stranger())
    assert [place.read(job), place.read(waiting)] == before
    with Member(place.folder) as heir:
        place.await_ends(job, waiting)
        assert heir.stderr == ""
    assert place.findings(job, waiting, cut=("s0",)) == []


def test_a_worker_lets_go_of_its_session_for_a_turn_of_an_agent_that_it_does_not_have(
    place: Place,
) -> None:
    job = Job("s0", task("pay:0"), "t1")

    async def stranger(member: Member) -> None:
        agent = gang.gang(place.ledger, gang.OTHER)
        async with Runtime(agent, store=place.store) as runtime:
            result = await runtime.session("s0").run(task("pay:0"), turn_id="t0")
            assert result.text == "did 1"
            asked = TurnRequest(input=(Text(text=job.task),))
            turn = NewTurn(agent=gang.NAME, request=asked)
            await runtime._services.store.accept("s0", "t1", turn)
            await asyncio.to_thread(member.await_line, "tool", "s0", "t1/pay_2_0")
            await asyncio.to_thread(place.await_ends, job)

    with Member(place.folder) as member:
        asyncio.run(stranger(member))
    assert place.findings(job) == []


# ------------------------------------------------------------------------- one turn, many callers


def test_fifty_callers_in_two_processes_run_one_turn(place: Place) -> None:
    """I14: whichever call comes first, there is one turn, and every caller gets its result."""
    tasks = (task("pay:0.1", "look:0"), task("look:0", "pay:0"), task("pay:0+post:0", "pay:0"))
    jobs = [Job(f"s{number}", tasks[number % 3]) for number in range(24)]
    with members(place, 2) as racers:
        for job in jobs:
            for racer in racers:
                racer.order(*_order(job), times=25)
            wait_until(partial(_is_answered, place, job), f"{job}")
        assert [racer.stderr for racer in racers] == ["", ""]
    for job in jobs:
        assert set(_answers(place, job)) == {"result did 2"}
        session, _ = place.read(job)
        assert (session.head, session.queued, session.active) == (1, (), None)
    assert place.findings(*jobs) == []


def _is_answered(place: Place, job: Job) -> bool:
    return len(_answers(place, job)) == 50


def _answers(place: Place, job: Job) -> list[str]:
    """Return what the callers of a turn got."""
    return [
        f"{line.kind} {line.said.get('text') or line.said.get('error')}"
        for line in place.ledger.lines("result", "failed")
        if (line.session, line.call) == (job.session, job.turn)
    ]


async def test_two_workers_that_begin_a_turn_at_the_same_moment_act_once(place: Place) -> None:
    """Nothing tells their first pages apart but whose they are."""
    jobs = [Job(f"s{number}", task("pay:0")) for number in range(10)]
    clock = VirtualClock()
    agents = [gang.gang(place.ledger) for _ in range(2)]
    async with (
        Runtime(agents[0], store=place.store, clock=clock) as first,
        Runtime(agents[1], store=place.store, clock=clock) as second,
    ):
        for job in jobs:
            results = await asyncio.gather(
                *(
                    each.session(job.session).run(job.task, turn_id=job.turn)
                    for each in (first, second)
                )
            )
            assert [result.text for result in results] == ["did 1", "did 1"]
    assert await asyncio.to_thread(place.findings, *jobs) == []


def test_a_second_run_waits_for_the_turn_that_runs_in_another_process(place: Place) -> None:
    first, second = Job("s0", task("pay:0.6")), Job("s0", task("pay:0", "look:0"), "t1")
    with members(place, 2) as (owner, other):
        owner.order(*_order(first))
        owner.await_line("tool", "s0")
        other.order(*_order(second))
        other.order(*_order(first))
        got = other.await_line("result", "s0", "t1")
        assert other.await_line("result", "s0", "t0").said == {"text": "did 1", "status": "done"}
        assert owner.await_line("result", "s0", "t0").said == {"text": "did 1", "status": "done"}
        assert (owner.stderr, other.stderr) == ("", "")
    assert got.said == {"text": "did 2", "status": "done"}
    ends = [line for line in place.runs("s0") if line.call.startswith("t1/")]
    began_s = next(line.at_s for line in place.runs("s0") if line.call.startswith("t0/"))
    assert ends[0].at_s - began_s >= 0.6, "it began while the other was under way"
    assert place.findings(first, second) == []
    session, _ = place.read(first)
    assert [page.turn_id for page in session.pages] == ["t0", "t1"]


def _order(job: Job) -> tuple[str, str, str]:
    return job.session, job.turn, job.task
