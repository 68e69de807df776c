"""Replay keys: a path that means one thing, taken apart into what it was made of."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.refusals import refused
from windlass.journal import (
    KINDS,
    MOMENTS,
    KeyParts,
    Moment,
    Scope,
    call_key,
    derived_session_id,
    idempotency_key,
    key_place,
    parse_key,
    replay_key,
    wait_key,
    without_moment,
)
from windlass.kernel import Json

FULL = Scope(session_id="s", turn_id="t", turn_index=0, iteration=12)


# --- grammar -------------------------------------------------------------------------------------


def test_a_key_is_a_path_of_everything_that_places_an_effect() -> None:
    assert replay_key(FULL, "model_call", "e") == "s/t/0/12/model_call/e"
    assert replay_key(FULL, "tool_call", "e", call_ordinal=3) == "s/t/0/12/tool_call/e/3"
    assert (
        replay_key(FULL, "tool_call", "e", call_ordinal=0, moment="intent")
        == "s/t/0/12/tool_call/e/0/intent"
    )


def test_what_a_scope_does_not_have_is_an_empty_segment() -> None:
    assert replay_key(Scope(session_id="s"), "process", "e") == "s////process/e"
    assert replay_key(Scope(session_id="s", iteration=0), "sleep", "e") == "s///0/sleep/e"
    assert replay_key(Scope(session_id="s", turn_id="t"), "sleep", "e") == "s/t///sleep/e"


def test_the_kinds_and_moments_are_these() -> None:
    assert KINDS == (
        "model_call", "model_hooks", "direct_call", "tool_call", "tool_hooks", "process", "run_code",
        "checkpoint", "sync_environment", "finalize", "sleep", "await_event",
    )  # fmt: skip
    assert MOMENTS == ("decide", "intent", "result", "presented", "asked")


def test_a_key_is_taken_apart() -> None:
    assert parse_key("s/t/0/12/tool_call/e/3/result") == KeyParts(
        scope=FULL, kind="tool_call", effect_id="e", call_ordinal=3, moment="result"
    )
    assert parse_key("s////process/e") == KeyParts(
        scope=Scope(session_id="s"), kind="process", effect_id="e"
    )


# --- inverse -------------------------------------------------------------------------------------

# Few and short, so that what could run together often would.
ids = st.text("aA1.:-=~|@+_", min_size=1, max_size=4) | st.sampled_from(
    ["intent", "result", "sleep", "0", "x" * 128]
)
positions = st.none() | st.integers(0, 12) | st.integers(0, 2**63 - 1)
scopes = st.builds(
    Scope, session_id=ids, turn_id=st.none() | ids, turn_index=positions, iteration=positions
)
calls = (
    st.tuples(st.none(), st.none(), st.none())
    | st.tuples(st.integers(0, 10**6), st.none() | st.sampled_from(MOMENTS[:-1]), st.none())
    | st.tuples(st.integers(0, 10**6), st.sampled_from(MOMENTS[-1:]), st.integers(0, 12))
)


@st.composite
def parts(draw: st.DrawFn) -> KeyParts:
    ordinal, moment, question = draw(calls)
    return KeyParts(
        scope=draw(scopes),
        kind=draw(st.sampled_from(KINDS)),
        effect_id=draw(ids),
        call_ordinal=ordinal,
        moment=moment,
        question=question,
    )


@given(parts())
def test_a_key_gives_back_what_it_was_made_of(made_of: KeyParts) -> None:
    key = str(made_of)
    assert parse_key(key) == made_of
    assert key_place(key) == (made_of.kind, made_of.moment)


@given(st.lists(parts(), min_size=2, max_size=6, unique=True))
def test_no_two_different_parts_give_the_same_key(made_of: list[KeyParts]) -> None:
    assert len(set(map(str, made_of))) == len(made_of)


@given(st.text("st/01.model_callintent -\n٣", max_size=40))
def test_any_text_is_a_key_as_it_is_written_or_refused(text: str) -> None:
    try:
        made_of = parse_key(text)
    except ValueError:
        return
    assert str(made_of) == text


@pytest.mark.parametrize("position", [-1, 10**20])
@pytest.mark.parametrize("at", ["turn_index", "iteration", "call_ordinal"])
def test_a_position_is_refused_or_can_be_read_back(at: str, position: int) -> None:
    """What `replay_key` writes, `parse_key` reads: a key that cannot be read is not written."""
    scope: dict[str, Any] = {} if at == "call_ordinal" else {at: position}
    ordinal = position if at == "call_ordinal" else None
    try:
        key = replay_key(
            Scope(session_id="s", turn_id="t", **scope), "tool_call", "e", call_ordinal=ordinal
        )
    except ValueError:
        return
    assert str(parse_key(key)) == key


# --- refusals ------------------------------------------------------------------------------------

NO_IDS = ["", " ", "a/b", "a\n", "ü", "x" * 129, "a b", "..\\", "%2e/"]


@pytest.mark.parametrize("bad", [*NO_IDS, None, 5])
def test_what_is_no_id_is_no_segment_of_a_key(bad: Json) -> None:
    assert refused(lambda: replay_key(FULL, "sleep", bad)).field == "effect_id"
    assert refused(lambda: Scope(session_id=bad)).field == "Scope.session_id"
    if bad is not None:
        error = refused(lambda: Scope(session_id="s", turn_id=bad))
        assert error.field == "Scope.turn_id"


def test_a_moment_belongs_to_a_call() -> None:
    error = refused(lambda: replay_key(FULL, "tool_call", "e", moment="intent"))
    assert error.field == "call_ordinal"


@pytest.mark.parametrize(("moment", "question"), [("asked", None), ("result", 0), (None, 0)])
def test_a_question_has_its_number_and_nothing_else_has_one(
    moment: Moment | None, question: int | None
) -> None:
    error = refused(
        lambda: replay_key(FULL, "tool_call", "e", call_ordinal=0, moment=moment, question=question)
    )
    assert error.field == "question"


NO_KEYS = {
    "": "1 segments",
    "s/t/0/1/sleep": "5 segments",
    "s/t/0/1/tool_call/e/0/intent/more/3": "10 segments",
    "s/t/0/1/tool_call/e/0/intent/more": "unknown moment",
    "s/t/0/1/tool_call/e/0/intent/3": "unknown moment",
    "s/t/0/1/tool_call/e/0/asked": "unknown moment",
    "s/t/0/1/tool_call/e/0/asked/x": "position",
    "s/t/0/1/tool_call/e/0/asked/01": "another spelling",
    "s/t/0/1/nap/e": "unknown kind",
    "s/t/0/1/Sleep/e": "unknown kind",
    "s/t/0/1/tool_call/e/0/after": "unknown moment",
    "s/t/0/1/tool_call/e/0/": "unknown moment",
    "s/t/x/1/sleep/e": "position",
    "s/t/0/-1/sleep/e": "position",
    "s/t/0/1/sleep/e/ 1": "position",
    "s/t/٣/1/sleep/e": "position",
    "s/t/²/1/sleep/e": "position",
    "s/t/00/1/sleep/e": "another spelling",
    "s/t/0/01/sleep/e": "another spelling",
    "s/t/0/1/sleep/e/": "another spelling",
    "s/t/0/1/tool_call/e/01/intent": "another spelling",
    "s/t/" + "9" * 5_000 + "/1/sleep/e": "replay key",
}


@pytest.mark.parametrize("key", NO_KEYS, ids=lambda key: key[:40])
def test_what_replay_key_does_not_write_is_no_key(key: str) -> None:
    error = refused(lambda: parse_key(key))
    assert error.field == "key"
    assert NO_KEYS[key] in str(error)


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("/t/0/1/sleep/e", "Scope.session_id"),
        ("a b/t/0/1/sleep/e", "Scope.session_id"),
        ("s/t\n/0/1/sleep/e", "Scope.turn_id"),
        ("s/t/0/1/sleep/", "effect_id"),
        ("s/t/0/1/sleep/é", "effect_id"),
        ("s/t/0/1/tool_call/e//intent", "call_ordinal"),
        ("s/t/0/1/tool_call/e/0/asked/", "question"),
    ],
)
def test_a_key_with_a_bad_segment_is_refused_by_its_name(key: str, field: str) -> None:
    assert refused(lambda: parse_key(key)).field == field


@pytest.mark.parametrize("key", [None, 5, b"s/t/0/1/sleep/e", ["s"]])
def test_only_text_is_a_key(key: Json) -> None:
    assert "0 segments" in str(refused(lambda: parse_key(key)))


# --- places --------------------------------------------------------------------------------------


def test_the_place_of_a_key_is_its_kind_and_its_moment() -> None:
    assert key_place("s/t/0/1/sleep/e") == ("sleep", None)
    assert key_place("s/t/0/1/tool_call/e/0") == ("tool_call", None)
    assert key_place("s/t/0/1/tool_call/e/0/decide") == ("tool_call", "decide")
    assert key_place("s/t/0/1/tool_call/e/0/asked/3") == ("tool_call", "asked")


@pytest.mark.parametrize("key", ["", "s/t/0/1/sleep", "s/t/0/1/nap/e", "a/b/c/d/sleep/f/g/h/i/j"])
def test_no_key_has_no_place(key: str) -> None:
    assert refused(lambda: key_place(key)).field == "key"


def test_an_intent_and_its_result_are_one_call() -> None:
    intent, result = "s/t/0/1/tool_call/e/0/intent", "s/t/0/1/tool_call/e/0/result"
    assert call_key(intent) == call_key(result) == "s/t/0/1/tool_call/e/0"


@pytest.mark.parametrize(
    "key",
    [
        "s/t/0/1/tool_call/e/0/decide",
        "s/t/0/1/tool_call/e/0/presented",
        "s/t/0/1/tool_call/e/0/asked/0",
        "s/t/0/1/tool_call/e/0",
        "s/t/0/1/sleep/e",
    ],
)
def test_other_keys_stand_for_themselves(key: str) -> None:
    assert call_key(key) == key


def test_an_effect_whose_id_is_intent_or_result_stands_for_itself() -> None:
    """Both are ids: two effects under these names are two rows."""
    first = replay_key(FULL, "model_call", "intent")
    second = replay_key(FULL, "model_call", "result")
    assert call_key(first) == first
    assert call_key(second) == second


@pytest.mark.parametrize("moment", ["decide", "intent", "result", "presented", "asked/2"])
def test_every_moment_of_a_call_belongs_to_it(moment: str) -> None:
    assert without_moment(f"s/t/0/1/tool_call/e/0/{moment}") == "s/t/0/1/tool_call/e/0"


@pytest.mark.parametrize("key", ["s/t/0/1/tool_call/e/0", "s/t/0/1/sleep/intent", "s////process/e"])
def test_a_key_without_a_moment_belongs_to_itself(key: str) -> None:
    assert without_moment(key) == key


# --- names for the world -------------------------------------------------------------------------

# printf '["store","s","t","e",0]' | sha256sum | cut -c-40
GOLDEN_KEY = "wl_85011dc251f9f3d8766fcc53d3deaa94e7a8eec9"


def test_an_idempotency_key_is_the_digest_of_where_the_call_stands() -> None:
    content = json.dumps(["store", "s", "t", "e", 0], separators=(",", ":")).encode()
    assert content == b'["store","s","t","e",0]'
    key = idempotency_key("store", "s", "t", "e", 0)
    assert key == f"wl_{sha256(content).hexdigest()[:40]}"
    assert key == GOLDEN_KEY


def test_an_idempotency_key_is_equal_over_attempts() -> None:
    attempts = {idempotency_key("store", "s", "t", "e", 0) for _ in range(3)}
    assert len(attempts) == 1


def test_no_two_calls_have_one_idempotency_key() -> None:
    places = [
        ("store", "s", "t", "e", 0),
        ("other", "s", "t", "e", 0),
        ("store", "s2", "t", "e", 0),
        ("store", "s", "t2", "e", 0),
        ("store", "s", "t", "e2", 0),
        ("store", "s", "t", "e", 1),
        ("store", "st", "", "e", 0),
        ("stores", "", "t", "e", 0),
    ]
    keys = [idempotency_key(*place) for place in places]
    for left, right in combinations(keys, 2):
        assert left != right


def test_a_wait_key_is_the_mac_of_the_call_and_its_arguments() -> None:
    key, args = "s/t/0/1/tool_call/e/0/decide", "ab" * 32
    mac = hmac.new(b"secret", f"{key}\n{args}".encode(), "sha256").hexdigest()
    assert wait_key(b"secret", key, args) == f"w_{mac}"


def test_a_wait_key_depends_on_the_secret_the_call_and_its_arguments() -> None:
    keys = {
        wait_key(b"secret", "s/t/0/1/sleep/e", "ab"),
        wait_key(b"another", "s/t/0/1/sleep/e", "ab"),
        wait_key(b"secret", "s/t/0/1/sleep/f", "ab"),
        wait_key(b"secret", "s/t/0/1/sleep/e", "ac"),
    }
    assert len(keys) == 4


# printf '["child","lead","t1","tools",0]' | openssl dgst -sha256 -hmac secret | cut -c-40
GOLDEN_CHILD = "c_f59404a497a5f920fa87fd594af86927f7ef7d15"


@pytest.mark.parametrize(
    ("kind", "names", "content", "prefix"),
    [
        ("child", ("lead", "t1", "tools", 0), b'["child","lead","t1","tools",0]', "c_"),
        ("process", ("onboard-ann",), b'["process","onboard-ann"]', "p_"),
        ("schedule", ("digest", "2026-11"), b'["schedule","digest","2026-11"]', "s_"),
        ("trigger", ("orders",), b'["trigger","orders"]', "t_"),
    ],
)
def test_a_derived_session_id_is_the_mac_of_what_begins_the_session(
    kind: Json, names: tuple[str | int, ...], content: bytes, prefix: str
) -> None:
    mac = hmac.new(b"secret", content, "sha256").hexdigest()
    assert derived_session_id(b"secret", kind, *names) == prefix + mac[:40]


def test_the_derived_session_id_of_a_child_is_as_it_ever_was() -> None:
    assert derived_session_id(b"secret", "child", "lead", "t1", "tools", 0) == GOLDEN_CHILD


def test_no_two_beginnings_have_one_derived_session_id() -> None:
    ids = [
        derived_session_id(b"secret", "child", "s", "t", 1),
        derived_session_id(b"another", "child", "s", "t", 1),
        derived_session_id(b"secret", "process", "s", "t", 1),
        derived_session_id(b"secret", "child", "s", "t", "1"),
        derived_session_id(b"secret", "child", "s", "t"),
        derived_session_id(b"secret", "child", "st", 1),
    ]
    assert len({one[2:] for one in ids}) == 6


@pytest.mark.parametrize(
    ("kind", "names", "field"),
    [
        ("chat", ("s",), "kind"),
        ("child", (), "names"),
        ("child", ("a/b",), "names"),
        ("child", ("s", -1), "names"),
        ("child", ("s", True), "names"),
        ("child", ("s", None), "names"),
    ],
)
def test_what_is_no_name_of_a_session_is_refused(
    kind: Json, names: tuple[Any, ...], field: str
) -> None:
    error = refused(lambda: derived_session_id(b"secret", kind, *names))
    assert error.field == field
