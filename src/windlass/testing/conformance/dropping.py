"""Dropping: an errand whose target is gone, or knows it otherwise, is dropped; its unit lands."""

# ruff: noqa: D103 - the name of a claim says it all
from __future__ import annotations

from collections.abc import AsyncIterator

from windlass.kernel import Attachment
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    NewTurn,
    TurnRequest,
    WaitAnswer,
)
from windlass.testing.conformance.entries import reply
from windlass.testing.conformance.errands import (
    YES,
    begin,
    items_in,
    one_of_each,
    post,
    statuses,
    waiting_session,
)
from windlass.testing.conformance.scene import Driven, Scene, ending, expect, expect_that, new_turn


async def an_errand_under_a_known_id_with_other_content_is_dropped(scene: Scene) -> None:
    turn, _ = await scene.begin(), await waiting_session(scene)
    await scene.send(turn, *one_of_each()[:3])
    other = (
        begin(text="other"),
        post(content="other"),
        AnswerWait(key="w", answer=WaitAnswer(status="rejected")),
    )

    receipts = await scene.send(turn, *other)

    expect(statuses(receipts), ["dropped"] * 3)
    reasons = [
        "turn t2: was already given with other content",
        "item i1: was already given with other content",
        "wait: has another answer",
    ]
    expect([receipt.reason for receipt in receipts], reasons)
    view = await scene.turn(session_id="s2")
    expect(view.waits[0].answer, YES)


async def _gone(scene: Scene) -> AsyncIterator[tuple[str, Errand, str]]:
    """Let targets be gone; yield what they are, an errand to each, and the reason why it is dropped."""
    deleted = await scene.begin(session_id="deleted")
    await scene.write(deleted.unit(waits=(deleted.wait("over"),)))
    await scene.commit(deleted)
    await scene.store.delete_session("deleted", now_ms=1)
    ended = await scene.begin(session_id="ended")
    await scene.write(ended.unit(waits=(ended.wait("ended"),)))
    await scene.commit(ended)
    yes = {"answer": YES}
    yield "deleted", begin("deleted"), "session deleted: was deleted"
    yield "deleted", post("deleted"), "session deleted: was deleted"
    cancel = CancelTurn(session_id="deleted", turn_id="t1")
    yield "deleted", cancel, "session deleted: was deleted"
    yield "no wait", AnswerWait(key="over", **yes), "key: there is no such wait in this store"
    yield "unknown", post("s9"), "session s9: there is no session of this id"
    cancel = CancelTurn(session_id="s9", turn_id="t1")
    yield "unknown", cancel, "session s9: there is no session of this id"
    cancel = CancelTurn(session_id="ended", turn_id="t9")
    yield "unknown", cancel, "turn t9: the session has no turn of this id"
    yield "ended", CancelTurn(session_id="ended", turn_id="t1"), "turn t1: has ended"
    yield "ended", AnswerWait(key="ended", **yes), "wait: ended without an answer"


async def a_target_that_is_gone_drops_its_errand_and_the_unit_lands(scene: Scene) -> None:
    turn = await scene.begin()
    told = [one async for one in _gone(scene)]
    await scene.accept(session_id="s2")

    unit = turn.unit(reply(turn), errands=(*(errand for _, errand, _ in told), post()))
    receipt = await scene.write(unit)

    expect(receipt.page, 1)
    expect([one.reason for one in receipt.errands], [*(reason for _, _, reason in told), ""])
    expect(statuses(receipt.errands), ["dropped"] * len(told) + ["done"])
    expect(await items_in(scene, "s2"), ["i1"])


async def a_hundred_targets_that_are_gone_are_receipts_and_not_failures(scene: Scene) -> None:
    turn = await scene.begin()
    await scene.accept(session_id="s2")
    errands: list[Errand] = []
    for at in range(25):
        errands += [post(f"gone{at}"), CancelTurn(session_id=f"gone{at}", turn_id="t1")]
        errands += [AnswerWait(key=f"gone{at}", answer=YES), post(item_id=f"i{at}")]
        if at:  # what the first of them is known by, with other content
            errands += [post(item_id="i0", content=at)]

    receipts = (await scene.write(turn.unit(commit=ending(), errands=tuple(errands)))).errands

    expect([statuses(receipts).count(one) for one in ("done", "dropped")], [25, 99])
    expect(await items_in(scene, "s2"), [f"i{at}" for at in range(25)])
    expect((await scene.turn()).state, "done")


async def a_dropped_errand_leaves_nothing_behind(scene: Scene, turn: Driven) -> None:
    """A turn with a file that is not there, or with an item that is not there, is not accepted in part."""
    await waiting_session(scene)
    await scene.enqueue("taken", session_id="s2")
    before = await scene.everything()
    file = Attachment(ref="ab" * 32, media_type="text/plain")
    without_file = NewTurn(agent="helper", request=TurnRequest(input=(file,)))
    without_item = new_turn(takes=("taken", "missing"))
    told = [
        AcceptTurn(session_id=name, turn_id="t2", turn=new)
        for name in ("new", "s2")
        for new in (without_file, without_item)
    ]

    receipts = await scene.send(turn, *told)

    no_blob = "Unit.blobs: a digest of no blob in this store"
    no_item = "NewTurn.takes: the inbox has no item"
    reasons = [no_blob, f"{no_item} taken", no_blob, f"{no_item} missing"]
    expect([receipt.reason for receipt in receipts], reasons)
    expect(await scene.everything(), before, "what is there after")
    await scene.send(turn, begin(), begin("new"), post())
    expect((await scene.session("s2")).queued, ("t2",))
    expect([item.arrived for item in (await scene.store.inbox("s2")).items], [2, 4])


async def a_reason_does_not_tell_the_key_of_a_wait(scene: Scene, turn: Driven) -> None:
    other = await scene.begin(session_id="s2")
    await scene.write(other.unit(waits=(other.wait("w_secret"), other.wait("w_2", kind="timer"))))
    await scene.store.resolve_wait("w_secret", WaitAnswer(value="no"))
    keys = ("w_secret", "w_2", "w_none")

    receipts = await scene.send(turn, *(AnswerWait(key=key, answer=YES) for key in keys))

    expect(statuses(receipts), ["dropped"] * 3)
    for key, receipt in zip(keys, receipts, strict=True):
        expect_that(key not in receipt.reason, f"{receipt.reason!r} does not tell the key")


async def an_answer_that_comes_too_late_is_dropped_and_the_wait_is_over(scene: Scene) -> None:
    turn, other = await scene.begin(), await scene.begin(session_id="s2")
    waits = (other.wait("w", expires_ms=5), other.wait("t", kind="timer", expires_ms=5))
    await scene.write(other.unit(waits=waits, parks=True))
    on_time = WaitAnswer(status="expired", now_ms=5)

    told = (AnswerWait(key="w", answer=YES), AnswerWait(key="t", answer=on_time))
    receipts = await scene.send(turn, *told)

    expect(statuses(receipts), ["dropped", "done"])
    expect(receipts[0].reason, "wait: was over before this answer")
    view = await scene.turn(session_id="s2")
    expect([wait.state for wait in view.waits], ["expired", "expired"])
    expect(view.state, "ready")
