"""What programs are made of: small pools of ids, so that they meet, and units of every shape."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.conformance.pair import SESSIONS, TURNS
from windlass.journal import Entry
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import (
    AcceptTurn,
    AnswerWait,
    CancelTurn,
    Errand,
    MoveSession,
    NewItem,
    NewTurn,
    PostItem,
    WaitAnswer,
)
from windlass.testing.conformance.entries import intent, reply, result
from windlass.testing.conformance.scene import Driven, request

DAY_MS = 24 * 60 * 60 * 1000
KEYS = ("w1", "w2", "w3", "w4", "w5", "w6")
ITEMS = ("i1", "i2", "i3")
SIGNALS = ("go", "stop")
BLOBS = (b"one", b"two")

# Small pools, so that ids meet. What is right most of the time stands there several times.
sessions = st.sampled_from((*SESSIONS, "s1", "s1", "s1"))
turns = st.sampled_from((*TURNS, "t1"))
workers = st.sampled_from((0, 0, 0, 1, 1, 2, 7))
lags = st.sampled_from((0, 0, 0, 0, 0, 0, 0, -1, 1))
keys = st.sampled_from(KEYS)
items = st.sampled_from(ITEMS)
places = st.integers(0, 3)
texts = st.sampled_from(("a", "a", "a", "b"))
chance = st.sampled_from((False, False, False, True))
entry_kinds = st.sampled_from(("intent", "intent", "result", "result", "reply", "other", "consume"))
entry_lists = st.lists(st.tuples(entry_kinds, places, keys), min_size=1, max_size=3)
endings = st.sampled_from(("done", "done", "other", "cancelled", "limit"))
statuses = st.sampled_from(
    ("answered", "answered", "answered", "rejected", "expired", "superseded")
)
# Where a unit sends something, and what: mostly to sessions that are there, mostly as much as there is room for.
_turns_to_accept = st.builds(
    NewTurn,
    agent=st.just("helper"),
    request=texts.map(request),
    now_ms=st.just(1_000),
    takes=st.lists(items, max_size=1).map(tuple) | st.just(()),
)
signals = st.builds(
    lambda item_id, name, value: NewItem(
        item_id=item_id,
        kind="signal",
        when="asked",
        content={"name": name, "value": value, "by": "eva"},
    ),
    st.sampled_from((*ITEMS, "k1", "k2", "k3", "k4")),
    st.sampled_from((*SIGNALS, "go", "go")),
    texts,
)
errands: st.SearchStrategy[Errand] = st.one_of(
    st.builds(
        AcceptTurn,
        session_id=st.sampled_from(SESSIONS),
        turn_id=turns,
        turn=_turns_to_accept,
        kind=st.sampled_from(("chat", "chat", "chat", "child", "process")),
        most=st.sampled_from((None, None, None, 0, 1)),
        rejects=st.sampled_from((*(None,) * 12, *KEYS)),
        label=st.sampled_from((None, None, "x")),
        parent=st.sampled_from((*(None,) * 6, *SESSIONS)),
    ),
    st.builds(
        PostItem, session_id=sessions, item=signals, now_ms=st.sampled_from((0, 900, 3_999, 4_000))
    ),
    st.builds(MoveSession, session_id=st.sampled_from(SESSIONS), to=st.sampled_from(SESSIONS)),
    st.builds(
        PostItem,
        session_id=sessions,
        item=st.builds(NewItem, item_id=items, content=texts),
        now_ms=st.sampled_from((0, 900)),
    ),
    st.builds(
        AnswerWait,
        key=keys,
        answer=st.builds(WaitAnswer, status=statuses, value=texts, now_ms=st.just(3_900)),
    ),
    st.builds(CancelTurn, session_id=sessions, turn_id=turns, reason=st.sampled_from(("", "late"))),
)
errand_lists = st.lists(errands, max_size=3).map(tuple)
some_errands = st.lists(errands, min_size=1, max_size=3).map(tuple)


def entry(turn: Driven, kind: str, at: int, key: str) -> Entry:
    if kind == "intent":
        return intent(turn, at)
    if kind == "consume":
        return intent(turn, at, consumes=key)
    if kind == "result":
        return result(turn, at)
    return reply(turn, at) if kind == "reply" else result(turn, at, value="other")


def outcome(kind: str) -> Finished | Stopped:
    if kind == "cancelled":
        return Stopped(reason="cancelled")
    return Stopped(reason="limit") if kind == "limit" else Finished(text=kind)
