"""Claiming turns: a worker is given turns that no worker drives, the oldest first, and each to one worker."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from asyncio import gather
from collections.abc import Collection, Sequence
from typing import Any

from windlass import ports
from windlass.errors import InvalidInput, LeaseLost
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, new_turn

YES = ports.WaitAnswer(value=True)
_MANY = 200


async def _claim(
    scene: Scene,
    worker_id: str,
    *,
    agents: Sequence[str] = ("helper",),
    limit: int = 10,
    now_ms: int = 0,
    **more: Any,
) -> tuple[ports.ClaimedTurn, ...]:
    return await scene.store.claim(
        worker_id, agents=agents, limit=limit, until_ms=1_000, now_ms=now_ms, **more
    )


def _named(claimed: Collection[ports.ClaimedTurn]) -> list[str]:
    return [f"{one.lease.session_id}/{one.lease.turn_id}" for one in claimed]


async def _given(scene: Scene, worker_id: str, **more: Any) -> list[str]:
    return _named(await _claim(scene, worker_id, **more))


async def a_claim_gives_the_lease_the_turn_and_its_session(scene: Scene) -> None:
    before = await scene.begin()
    await scene.commit_and_accept(before)
    worker = await scene.replace_worker(before)

    (claimed,) = await _claim(scene, worker)

    lease = ports.Lease(
        session_id="s1", turn_id="t2", worker_id=worker, generation=2, until_ms=1_000
    )
    expect(claimed.lease, lease)
    expect(claimed.turn, await scene.turn("t2"))
    expect((claimed.turn.state, claimed.turn.owner), ("running", worker))
    expect(claimed.session, await scene.store.load_session("s1", frame=True))
    await scene.commit(Driven("s1", "t2", worker, 2), ending(head=1))


async def a_claimed_turn_brings_its_journal_and_its_waits(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn), waits=(turn.wait("w"),), parks=True))
    await scene.store.resolve_wait("w", YES)
    await scene.store.release("s1", generation=1)

    (claimed,) = await _claim(scene, await scene.join())

    expect(claimed.turn, await scene.turn())
    expect((len(claimed.turn.pages), claimed.turn.waits[0].state), (1, "answered"))


async def the_oldest_are_given_first_and_no_more_than_wanted(scene: Scene) -> None:
    worker = await scene.join()
    for session_id in ("c", "a", "b"):
        await scene.accept(session_id=session_id)

    expect(await _given(scene, worker, limit=0), [])
    expect(await _given(scene, worker, limit=2), ["c/t1", "a/t1"])
    expect(await _given(scene, worker, limit=2), ["b/t1"])
    expect(await _given(scene, worker, limit=2), [])


async def turns_of_other_agents_are_not_given(scene: Scene) -> None:
    worker = await scene.join()
    for session_id, agent in (("a", "one"), ("b", "two"), ("c", "one")):
        await scene.accept(session_id=session_id, agent=agent)

    expect(await _given(scene, worker, agents=()), [])
    expect(await _given(scene, worker, agents=("two", "three")), ["b/t1"])
    expect(await _given(scene, worker, agents=("one",)), ["a/t1", "c/t1"])


async def of_one_session_only_its_turn_is_given(scene: Scene) -> None:
    worker = await scene.join()
    for session_id in ("a", "b"):
        await scene.accept(session_id=session_id)

    expect(await _given(scene, worker, session_id="nothing"), [])
    expect(await _given(scene, worker, session_id="b"), ["b/t1"])


async def sessions_that_are_to_be_left_out_are(scene: Scene) -> None:
    worker = await scene.join()
    for session_id in ("a", "b", "c"):
        await scene.accept(session_id=session_id)

    expect(await _given(scene, worker, but=("a", "c"), limit=1), ["b/t1"])
    expect(await _given(scene, worker, session_id="a", but=("a",)), [])


async def a_session_gives_its_oldest_turn_and_none_beside_it(scene: Scene) -> None:
    worker = await scene.join()
    await scene.accept("t1")
    await scene.accept("t2")
    # A younger turn behind one of another agent waits for that.
    await scene.accept("t1", session_id="s2", agent="other")
    await scene.accept("t2", session_id="s2")

    expect(await _given(scene, worker), ["s1/t1"])
    expect(await _given(scene, worker), [])
    await scene.commit(Driven("s1", "t1", worker, 1))
    expect(await _given(scene, worker), ["s1/t2"])


async def a_parked_turn_is_not_given(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(waits=(turn.wait("w"),), parks=True))
    await scene.store.leave(turn.worker_id)
    await scene.accept("t2")

    expect(await _given(scene, await scene.join(), now_ms=9_999), [])


async def an_answered_and_an_abandoned_turn_are_given(scene: Scene) -> None:
    answered = await scene.begin(session_id="answered")
    await scene.write(answered.unit(waits=(answered.wait("w"),), parks=True))
    await scene.store.resolve_wait("w", YES)
    expired = await scene.begin(session_id="expired")
    dead = await scene.begin(session_id="dead")
    await scene.store.renew(dead.worker_id, until_ms=9_000).durable()
    worker = await scene.join(until_ms=9_000)

    expect(await _given(scene, worker, now_ms=999), [], "what live workers have")
    await scene.kill(dead.worker_id)
    await scene.store.release("answered", generation=answered.generation)
    expect(await _given(scene, worker, now_ms=999), ["answered/t1", "dead/t1"])
    expect(await _given(scene, worker, now_ms=1_000), [f"{expired.session_id}/t1"])


async def a_queued_turn_is_left_to_the_live_worker_that_has_its_session(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.commit_and_accept(turn)
    other = await scene.join()

    expect(await _given(scene, other, now_ms=999), [])
    (claimed,) = await _claim(scene, turn.worker_id, now_ms=999)
    expect((claimed.lease.turn_id, claimed.lease.generation), ("t2", 2))


async def a_worker_is_not_given_what_it_drives_itself(scene: Scene, turn: Driven) -> None:
    expect(await _given(scene, turn.worker_id), [])


async def a_claim_fences_the_worker_before_out(scene: Scene, turn: Driven) -> None:
    other = await scene.replace_worker(turn)

    (claimed,) = await _claim(scene, other)

    await scene.refused(LeaseLost, turn.unit(reply(turn)))
    now = turn._replace(worker_id=other, generation=claimed.lease.generation)
    await scene.write(now.unit(reply(now)))


async def a_claim_counts_as_a_takeover_does(scene: Scene, turn: Driven) -> None:
    counts = []
    for _ in range(2):
        turn = turn._replace(worker_id=await scene.replace_worker(turn))
        (claimed,) = await _claim(scene, turn.worker_id)
        counts.append((claimed.lease.takeovers, claimed.turn.takeovers))
    now = turn._replace(generation=claimed.lease.generation)
    await scene.write(now.unit(waits=(now.wait("w"),), parks=True))
    await scene.store.resolve_wait("w", YES)
    await scene.store.release("s1", generation=now.generation)
    (claimed,) = await _claim(scene, turn.worker_id)

    expect(counts, [(1, 1), (2, 2)])
    expect(claimed.lease.takeovers, 0, "what goes on after an answer")


async def a_claim_holds_on_as_long_as_it_says(scene: Scene) -> None:
    worker, other = await scene.join(until_ms=10), await scene.join()
    await scene.accept()

    (claimed,) = await _claim(scene, worker)

    expect(claimed.lease.until_ms, 1_000)
    expect(await _given(scene, other, now_ms=999), [])


async def a_worker_that_has_not_joined_is_given_nothing(scene: Scene) -> None:
    await scene.accept()

    await scene.refused(InvalidInput, _claim(scene, "nobody"))


async def a_cancelled_turn_is_given_so_that_it_can_end(scene: Scene) -> None:
    await scene.accept()
    await scene.store.request_cancel("s1", "t1", reason="enough")

    (claimed,) = await _claim(scene, await scene.join())

    expect(claimed.turn.cancel, "enough")


async def nobody_is_given_what_another_has(scene: Scene) -> None:
    stores = (scene.store, await scene.second())
    workers = [await store.join(until_ms=1_000, now_ms=0) for store in stores]
    for at in range(_MANY):
        await scene.store.accept(f"s{at}", "t1", new_turn())

    async def claim_all(store: ports.Store, worker_id: str) -> list[str]:
        given: list[str] = []
        while len(given) <= _MANY:
            some = await store.claim(
                worker_id, agents=("helper",), limit=7, until_ms=1_000, now_ms=0
            )
            if not some:
                break
            given += _named(some)
        return given

    one, two = await gather(*map(claim_all, stores, workers))

    expect(len(one) + len(two), _MANY, "how many were given")
    expect({*one, *two}, {f"s{at}/t1" for at in range(_MANY)})


@with_crash
async def what_was_claimed_before_a_crash_is_given_again(scene: Scene) -> None:
    await scene.accept()
    await _claim(scene, await scene.join())

    await scene.crash()

    (claimed,) = await _claim(scene, await scene.join())
    expect((claimed.lease.generation, claimed.lease.takeovers), (2, 1))
