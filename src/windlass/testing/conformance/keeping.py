"""Keeping: bytes stay while something refers to them, journals while somebody may ask."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from hashlib import sha256

from windlass import ports
from windlass.errors import IdempotencyConflict, InvalidInput, LeaseLost
from windlass.kernel.messages import Attachment
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, expect_that, new_turn

DAY_MS = 24 * 60 * 60 * 1000
WORDS = b"some words"


async def _vacuum(scene: Scene, now_ms: int) -> ports.VacuumReport:
    return await scene.store.vacuum(now_ms=now_ms, retention_ms=0)


async def _is_kept(scene: Scene, digest: str, *, until_ms: int = 9 * DAY_MS) -> None:
    """Fail unless the words are there after a vacuum at that time."""
    await _vacuum(scene, until_ms)
    expect(await scene.store.get_blob(digest), WORDS)


async def _is_gone(scene: Scene, digest: str) -> None:
    """Fail unless a vacuum long after takes the words away."""
    await _vacuum(scene, 9 * DAY_MS)
    await scene.refused(InvalidInput, scene.store.get_blob(digest))


async def bytes_are_found_by_their_digest(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=0)

    expect(digest, sha256(WORDS).hexdigest())
    expect(await scene.store.get_blob(digest), WORDS)
    expect(await scene.store.put_blob(WORDS, now_ms=1), digest)
    empty = await scene.store.put_blob(b"", now_ms=0)
    expect(await scene.store.get_blob(empty), b"")


async def large_bytes_are_kept_whole(scene: Scene) -> None:
    large = bytes(range(256)) * 16 * 1024

    digest = await scene.store.put_blob(large, now_ms=0)

    expect_that(await scene.store.get_blob(digest) == large, "the bytes are equal")


async def a_digest_of_nothing_is_refused(scene: Scene) -> None:
    await scene.refused(InvalidInput, scene.store.get_blob("ab" * 32))
    await scene.refused(InvalidInput, scene.store.get_blob("no digest"))


async def a_unit_refers_only_to_bytes_that_are_there(scene: Scene, turn: Driven) -> None:
    await scene.refused(InvalidInput, turn.unit(reply(turn), blobs=("ab" * 32,)))
    await scene.refused(InvalidInput, turn.unit(commit=ending(), blobs=("ab" * 32,)))


async def bytes_that_nothing_refers_to_go_after_a_day(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=5)

    await _is_kept(scene, digest, until_ms=DAY_MS + 5)
    report = await _vacuum(scene, DAY_MS + 6)
    expect(report.bodies, 1)
    await scene.refused(InvalidInput, scene.store.get_blob(digest))


async def bytes_that_are_put_again_have_another_day(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=0)
    await scene.store.put_blob(WORDS, now_ms=DAY_MS)

    await _is_kept(scene, digest, until_ms=DAY_MS + 1)


async def bytes_stay_while_a_journal_refers_to_them(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=0)
    turn = await scene.begin()
    await scene.write(turn.unit(reply(turn), blobs=(digest,)))

    await _is_kept(scene, digest)


async def bytes_stay_while_a_turn_that_waits_refers_to_them(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=0)
    unit = ports.Unit(session_id="s1", turn_id="t1", accept=new_turn(), blobs=(digest,))
    await scene.write(unit)

    await _is_kept(scene, digest)


async def bytes_stay_while_a_turn_that_was_accepted_alone_refers_to_them(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=0)
    file = Attachment(ref=digest, media_type="text/plain")
    new = ports.NewTurn(agent="helper", request=ports.TurnRequest(input=(file,)))
    await scene.store.accept("s1", "t1", new)

    await _is_kept(scene, digest)


async def bytes_stay_while_an_item_that_waits_refers_to_them(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=0)
    await scene.begin()
    parts = [{"type": "attachment", "ref": digest, "media_type": "text/plain"}]
    item = ports.NewItem(item_id="i1", when="next_turn", content={"parts": parts})
    await scene.store.enqueue("s1", item, now_ms=0)

    await _is_kept(scene, digest)

    await scene.store.withdraw("s1", "i1")
    await _is_gone(scene, digest)


async def bytes_stay_while_history_refers_to_them(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=0)
    turn = await scene.begin()
    await scene.write(turn.unit(commit=ending(), blobs=(digest,)))

    await _is_kept(scene, digest)
    expect((await scene.turn()).request, None, "the request of a turn that ended long ago")


async def bytes_that_only_the_journal_referred_to_go_with_it(scene: Scene) -> None:
    seen = await scene.store.put_blob(WORDS, now_ms=0)
    raw = await scene.store.put_blob(b"what was shown to nobody", now_ms=0)
    turn = await scene.begin()
    await scene.write(turn.unit(reply(turn), blobs=(raw, seen)))
    await scene.write(turn.unit(position=1, commit=ending(blobs=(seen,)), blobs=(seen,)))
    await _vacuum(scene, DAY_MS)
    expect(await scene.store.get_blob(raw), b"what was shown to nobody")

    await _is_kept(scene, seen)
    await scene.refused(InvalidInput, scene.store.get_blob(raw))


async def bytes_go_with_the_last_session_that_refers_to_them(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=0)
    turn = await scene.begin()
    await scene.write(turn.unit(commit=ending(), blobs=(digest,)))
    await scene.store.fork("s1", "f1")
    await scene.store.delete_session("s1", now_ms=9 * DAY_MS)
    await _is_kept(scene, digest)

    await scene.store.delete_session("f1", now_ms=9 * DAY_MS)
    await _is_gone(scene, digest)


async def the_journal_of_a_turn_that_ended_long_ago_goes(scene: Scene, turn: Driven) -> None:
    await scene.write(turn.unit(reply(turn), waits=(turn.wait("w"), turn.wait("w2"))))
    await scene.store.resolve_wait("w", ports.WaitAnswer(value=True))
    receipt = await scene.commit(turn, ending(now_ms=100))
    before, session = await scene.turn(), await scene.session()

    report = await scene.store.vacuum(now_ms=200, retention_ms=100)
    expect((report.journals, report.waits), (0, 0))
    expect(await scene.turn(), before)
    report = await scene.store.vacuum(now_ms=201, retention_ms=100)

    expect((report.journals, report.waits), (1, 2))
    view = await scene.turn()
    expect((view.request, view.pages, view.waits), (None, (), ()))
    expect((view.state, view.outcome, view.receipt), ("done", before.outcome, receipt))
    expect((view.request_digest, view.turn_index), (before.request_digest, 1))
    expect(await scene.session(), session)
    report = await scene.store.vacuum(now_ms=999, retention_ms=100)
    expect((report.journals, report.waits), (0, 0))


async def a_turn_that_ended_long_ago_still_answers(scene: Scene, turn: Driven) -> None:
    receipt = await scene.commit(turn)
    await _vacuum(scene, 1)

    expect((await scene.accept()).state, "done")
    await scene.refused(IdempotencyConflict, scene.accept(text="other"))
    await scene.unchanged(scene.commit(turn), receipt)
    await scene.refused(IdempotencyConflict, scene.commit(turn, ending("other")))


async def a_turn_that_has_not_ended_keeps_everything(scene: Scene, turn: Driven) -> None:
    await scene.enqueue("i1")
    await scene.write(turn.unit(reply(turn), waits=(turn.wait("w"),), parks=True))
    await scene.store.resolve_wait("w", ports.WaitAnswer(value=True))
    before = await scene.everything()

    await _vacuum(scene, 9 * DAY_MS)

    expect(await scene.everything(), before)


async def items_that_ended_long_ago_go(scene: Scene, turn: Driven) -> None:
    await scene.enqueue("used", "back", "open", now_ms=100)
    await scene.store.withdraw("s1", "back")
    await scene.store.take_inbox("s1", "t1", generation=1, limit=1)
    await scene.commit(turn, ending(settle=("used",), now_ms=150))

    reports = [await _vacuum(scene, now) for now in (100, 101, 151)]

    expect([report.items for report in reports], [0, 1, 1])
    expect([item.item_id for item in (await scene.store.inbox("s1")).items], ["open"])
    receipt = await scene.store.enqueue("s1", ports.NewItem(item_id="used", content="new"))
    expect(receipt, ports.InboxReceipt(item_id="used", state="pending"))


async def dead_workers_go_and_live_ones_stay(scene: Scene, turn: Driven) -> None:
    alive = await scene.begin(session_id="s2")
    await scene.kill(turn.worker_id)

    report = await _vacuum(scene, 0)

    expect(report.workers, 1)
    expect((await scene.session("s1")).owner, None)
    expect((await scene.session("s2")).owner, alive.worker_id)
    await scene.refused(LeaseLost, scene.store.renew(turn.worker_id, until_ms=9).durable())
    await scene.store.renew(alive.worker_id, until_ms=9).durable()


@with_crash
async def bytes_are_there_after_a_crash(scene: Scene) -> None:
    digest = await scene.store.put_blob(WORDS, now_ms=0)

    await scene.crash()

    expect(await scene.store.get_blob(digest), WORDS)
