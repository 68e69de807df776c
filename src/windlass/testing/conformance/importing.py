"""Importing: a session that another store had comes in whole or not at all, and goes on like any other."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

import msgspec

from windlass.errors import IdempotencyConflict, InvalidInput, SessionDeleted
from windlass.journal import HistoryPage, UsageLine
from windlass.ports import ImportedSession, ImportedTurn, SessionView
from windlass.testing.conformance.checks import with_crash
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.scene import Scene, ending, expect, request

_USED = (UsageLine(source="turn", model="scripted", calls=3),)
_WORDS = b"bytes that came along"


def _page(turn_id: str) -> HistoryPage:
    end = ending(turn_id)
    return HistoryPage(
        format=HistoryPage.FORMAT,
        turn_id=turn_id,
        nodes=end.nodes,
        outcome=end.outcome,
        usage=_USED,
        committed_ms=7,
    )


def _session(
    *turn_ids: str, session_id: str = "s1", blobs: tuple[str, ...] = ()
) -> ImportedSession:
    digest = request("hi").digest()
    turns = tuple(
        ImportedTurn(page=_page(turn_id), request_digest=digest, blobs=blobs)
        for turn_id in turn_ids
    )
    return ImportedSession(session_id=session_id, agent="helper", created_ms=5, turns=turns)


async def an_imported_session_has_its_history(scene: Scene) -> None:
    made = await scene.store.import_session(_session("t1", "t2"), now_ms=9)

    pages = (_page("t1"), _page("t2"))
    wanted = SessionView(
        session_id="s1", agent="helper", created_ms=5, head=2, generation=0, pages=pages
    )
    expect(made, wanted)
    expect(await scene.session(), wanted)
    expect((await scene.turn("t2")).page, _page("t2"))
    expect((await scene.turn("t2")).turn_index, 2)


async def an_imported_session_goes_on(scene: Scene) -> None:
    await scene.store.import_session(_session("t1", "t2"), now_ms=9)

    turn = await scene.begin("t3")
    receipt = await scene.commit(turn, ending("t3", head=2))

    expect(receipt.head, 3)
    expect([page.turn_id for page in (await scene.session()).pages], ["t1", "t2", "t3"])


async def what_was_used_elsewhere_does_not_count(scene: Scene) -> None:
    await scene.store.import_session(_session("t1"), now_ms=9)

    expect((await scene.session()).usage, ())
    used = (UsageLine(source="turn", model="scripted", calls=1),)
    turn = await scene.begin("t2")
    await scene.write(turn.unit(reply(turn), commit=ending("t2", head=1, usage=used)))
    expect((await scene.session()).usage, used)


async def a_turn_that_was_imported_is_known(scene: Scene) -> None:
    await scene.store.import_session(_session("t1"), now_ms=9)

    receipt = await scene.accept("t1")
    expect((receipt.state, receipt.known), ("done", True))
    await scene.refused(IdempotencyConflict, scene.accept("t1", text="other"))


async def a_page_without_a_request_is_history_and_no_turn(scene: Scene) -> None:
    shared = ImportedTurn(page=_page("t1"))
    session = msgspec.structs.replace(_session("t1"), turns=(shared, *_session("t1").turns))

    made = await scene.store.import_session(session, now_ms=9)

    expect([page.turn_id for page in made.pages], ["t1", "t1"])
    expect((await scene.turn("t1")).turn_index, 2)


async def an_id_that_is_taken_is_not_imported_over(scene: Scene) -> None:
    await scene.store.import_session(_session("t1"), now_ms=9)
    other_agent = msgspec.structs.replace(_session("t1"), agent="another")
    for again in (_session("t1", "t2"), _session("t2"), _session(), other_agent):
        await scene.refused(IdempotencyConflict, scene.store.import_session(again, now_ms=9))

    await scene.store.delete_session("s1", now_ms=10)
    again = _session("t1")
    await scene.refused(SessionDeleted, scene.store.import_session(again, now_ms=11))


async def the_same_import_again_is_answered_until_the_session_goes_on(scene: Scene) -> None:
    made = await scene.store.import_session(_session("t1"), now_ms=9)
    expect(await scene.store.import_session(_session("t1"), now_ms=10), made)
    expect([page.turn_id for page in (await scene.session()).pages], ["t1"])

    await scene.commit(await scene.begin("t2"), ending("t2", head=1))
    again = scene.store.import_session(_session("t1"), now_ms=11)
    await scene.refused(IdempotencyConflict, again)


async def a_session_without_turns_can_be_imported(scene: Scene) -> None:
    made = await scene.store.import_session(_session(), now_ms=9)

    expect((made.head, made.pages), (0, ()))
    await scene.commit(await scene.begin("t1"), ending("t1"))
    expect((await scene.session()).head, 1)


async def an_import_refers_only_to_bytes_that_are_there(scene: Scene) -> None:
    digest = await scene.store.put_blob(_WORDS, now_ms=0)
    wrong = _session("t1", blobs=(digest, "ab" * 32))
    await scene.refused(InvalidInput, scene.store.import_session(wrong, now_ms=9))

    await scene.store.import_session(_session("t1", blobs=(digest,)), now_ms=9)
    await scene.store.vacuum(now_ms=10**12, retention_ms=0)
    expect(await scene.store.get_blob(digest), _WORDS)
    await scene.store.delete_session("s1", now_ms=10)
    await scene.refused(InvalidInput, scene.store.get_blob(digest))


async def an_import_is_told_to_none_who_watch(scene: Scene) -> None:
    mark = (await scene.store.changes(None)).mark

    await scene.store.import_session(_session("t1", "t2"), now_ms=9)
    expect((await scene.store.changes(mark)).changes, ())

    await scene.accept("t3")
    told = (await scene.store.changes(mark)).changes
    expect([(one.kind, one.turn_id) for one in told], [("accepted", "t3")])


async def a_fork_of_an_imported_session_shares_its_history(scene: Scene) -> None:
    await scene.store.import_session(_session("t1", "t2"), now_ms=9)

    fork = await scene.store.fork("s1", "f1", at=1)

    expect(fork.pages, (_page("t1"),))


@with_crash
async def an_imported_session_outlives_a_crash(scene: Scene) -> None:
    await scene.store.import_session(_session("t1", "t2"), now_ms=9)
    await scene.keeps(scene.session)
