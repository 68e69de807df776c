"""Cases 1 to 15: values and bytes that are not what they should be, at every door that takes some."""

from __future__ import annotations

import codecs
import math
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.abuse.bad_calls_scene import Scene, said, texts_in
from tests.abuse.bad_calls_table import Act, Table, bound
from tests.limits import HANGS_S
from windlass.errors import IdempotencyConflict, InvalidInput, LimitExceeded, WindlassError
from windlass.kernel import canonical
from windlass.ports import TurnRequest
from windlass.testing import call

VALUES = Table()


def nested(levels: int) -> list[Any]:
    """Return a list in a list in a list."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> list[Any]:
    """Return a list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


class Odd:
    """Something that is no JSON and has a `str()` all the same."""

    def __str__(self) -> str:
        return "not asked for"


# --- bytes: a request as it would come over a wire -------------------------------------------------

GOOD = canonical.encode(TurnRequest(context={"a": 1}))
BYTES: list[tuple[int, str, bytes, type[WindlassError], str]] = [
    (1, "an empty body", b"", InvalidInput, "$"),
    (1, "null for a request", b"null", InvalidInput, "$"),
    (1, "a list for a request", b"[]", InvalidInput, "$"),
    (1, "text for a request", b'"x"', InvalidInput, "$"),
    (2, "truncated JSON", GOOD[:-1], InvalidInput, "$"),
    (2, "two documents", GOOD + GOOD, InvalidInput, "$"),
    (2, "trailing garbage", GOOD + b"x", InvalidInput, "$"),
    (2, "a byte order mark", codecs.BOM_UTF8 + GOOD, InvalidInput, "$"),
    (2, "UTF-16", GOOD.decode().encode("utf-16"), InvalidInput, "$"),
    (3, "100,000 nested arrays", b'{"context":{"a":' + b"[" * 100_000, LimitExceeded, "$"),
    (4, "5,000 digits", b'{"context":{"a":' + b"9" * 5_000 + b"}}", InvalidInput, "$*"),
    (5, "NaN", b'{"context":{"a":NaN}}', InvalidInput, "$*"),
    (5, "Infinity", b'{"context":{"a":Infinity}}', InvalidInput, "$*"),
    (5, "1e400", b'{"context":{"a":1e400}}', InvalidInput, "$*"),
    (7, "a key twice", b'{"context":{"a":1,"a":2}}', InvalidInput, "$"),
    (8, "an escaped lone surrogate", b'{"context":{"a":"\\ud800"}}', InvalidInput, "$*"),
    (8, "an encoded lone surrogate", b'{"context":{"a":"\xed\xa0\x80"}}', InvalidInput, "$*"),
    (9, "an escaped NUL", b'{"context":{"a":"\\u0000"}}', InvalidInput, "$*"),
    (12, "keys in another order", b'{"context":{"b":1,"a":1}}', InvalidInput, "$"),
]
for _case, _what, _data, _error, _field in BYTES:
    VALUES.build(
        _case,
        f"bytes: {_what}",
        partial(canonical.decode, _data, TurnRequest),
        field=_field,
        error=_error,
    )

# --- arguments as the model wrote them ------------------------------------------------------------

RAW: list[tuple[int, str, str]] = [
    (1, "null", "null"),
    (1, "a list", "[]"),
    (1, "text", '"x"'),
    (2, "truncated", '{"a": 1, "b": '),
    (2, "two documents", '{"a":1,"b":2}{"a":1,"b":2}'),
    (2, "trailing garbage", '{"a":1,"b":2} and so on'),
    (2, "a byte order mark", '\ufeff{"a":1,"b":2}'),
    (3, "100,000 nested arrays", '{"b":1,"a":' + "[" * 100_000),
    (3, "100 levels", '{"b":1,"a":' + "[" * 100 + "]" * 100 + "}"),
    (4, "5,000 digits", '{"b":1,"a":' + "9" * 5_000 + "}"),
    (5, "NaN", '{"b":1,"a":NaN}'),
    (5, "1e400", '{"b":1,"a":1e400}'),
    (7, "a key twice", '{"a":1,"a":5,"b":2}'),
    (8, "a lone surrogate", '{"b":1,"a":"\\ud800"}'),
    (9, "NUL", '{"b":1,"a":"\\u0000"}'),
]


def _told_of(raw: str) -> Act:
    async def act(scene: Scene) -> None:
        told = await scene.told_of(raw)
        assert told.status == "error"
        assert "Not run" in said(told)

    return act


for _case, _what, _raw in RAW:
    VALUES.row(_case, f"arguments of a call: {_what}")(_told_of(_raw))


# --- Python values at the doors that take JSON ----------------------------------------------------

JSON: list[tuple[int, str, Any, type[WindlassError]]] = [
    (3, "100 levels", nested(100), LimitExceeded),
    (3, "100,000 levels", nested(100_000), LimitExceeded),
    (4, "an integer of 5,000 digits", 10**5_000, InvalidInput),
    (5, "NaN", math.nan, InvalidInput),
    (5, "infinity", -math.inf, InvalidInput),
    (8, "a lone surrogate", "a\ud800", InvalidInput),
    (8, "a lone surrogate in a key", {"\ud800": 1}, InvalidInput),
    (9, "NUL", "a\x00b", InvalidInput),
    (13, "keys 1 and '1'", {1: "a", "1": "b"}, InvalidInput),
    (14, "bytes", b"x", InvalidInput),
    (14, "a set", {1}, InvalidInput),
    (14, "a datetime", datetime(2020, 1, 1, tzinfo=UTC), InvalidInput),
    (14, "a Decimal", Decimal("1.5"), InvalidInput),
    (14, "a Path", Path("x"), InvalidInput),
    (14, "an instance", Odd(), InvalidInput),
    (15, "a list that holds itself", cyclic(), LimitExceeded),
]
for _case, _what, _value, _error in JSON:
    VALUES.refuse(
        _case,
        f"context: {_what}",
        bound(lambda scene, value: scene.run(context={"a": value}), _value),
        field="context.a*",
        error=_error,
    )
    VALUES.refuse(
        _case,
        f"an answer to a wait: {_what}",
        bound(lambda scene, value: scene.rt.resolve(scene.key, value), _value),
        field="value*",
        error=_error,
        needs="deferred",
    )
    VALUES.refuse(
        _case,
        f"edited arguments: {_what}",
        bound(
            lambda scene, value: scene.rt.approve(scene.key, edit={"cents": 1, "memo": value}),
            _value,
        ),
        field="edit.memo*",
        needs="approval",
    )

# --- where an object is wanted --------------------------------------------------------------------

_given: Any
for _given in ([], "x", 5, [("a", 1)]):
    VALUES.refuse(
        1,
        f"context={_given!r}",
        bound(lambda scene, given: scene.run(context=given), _given),
        field="context",
    )
    VALUES.refuse(
        1,
        f"edit={_given!r}",
        bound(lambda scene, given: scene.rt.approve(scene.key, edit=given), _given),
        field="edit",
        needs="approval",
    )
for _given in (None, 5, {}, [], b"x", {"type": "text", "text": "x"}):
    VALUES.refuse(
        1,
        f"input={_given!r}",
        bound(lambda scene, given: scene.run(given), _given),
        field="input",
    )
VALUES.refuse(
    3, "input: a list in a list", lambda scene: scene.run(nested(100_000)), field="input[0]"
)


# --- text -----------------------------------------------------------------------------------------

DOORS: dict[str, tuple[Any, str]] = {
    "input": (lambda scene, bad: scene.run(bad), "input[0]"),
    "the second part": (lambda scene, bad: scene.run(["good", bad]), "input[1]"),
    "prompt": (lambda scene, bad: scene.run(prompt=bad), "prompt"),
    "submit": (lambda scene, bad: scene.session.submit(bad), "input[0]"),
    "enqueue": (lambda scene, bad: scene.session.enqueue(bad), "input[0]"),
}
ANSWERS: dict[str, tuple[Any, str, Any]] = {
    "reason of a denial": (
        lambda scene, bad: scene.rt.deny(scene.key, reason=bad), "reason", "approval",
    ),
    "by": (lambda scene, bad: scene.rt.approve(scene.key, by=bad), "by", "approval"),
    "error": (lambda scene, bad: scene.rt.reject(scene.key, bad), "error", "deferred"),
    "reason of a cancel": (lambda scene, bad: scene.rt.cancel("w", "w", bad), "reason", "deferred"),
}  # fmt: skip
for _case, _name, _bad in ((8, "a lone surrogate", "a\ud800"), (9, "NUL", "a\x00")):
    for _door, (_act, _field) in DOORS.items():
        VALUES.refuse(
            _case,
            f"{_name} in {_door}",
            bound(_act, _bad),
            field=_field,
        )
    for _door, (_act, _field, _needs) in ANSWERS.items():
        VALUES.refuse(
            _case,
            f"{_name} in {_door}",
            bound(_act, _bad),
            field=_field,
            needs=_needs,
        )


@VALUES.row(
    8, "what a tool returns with a lone surrogate and NUL has been paid for: repaired and told"
)
async def repaired(scene: Scene) -> None:
    scene.gift = "a\ud800b\x00c"
    told = await scene.told(call("give"))
    assert told.status == "ok"
    assert said(told).endswith("a\ufffdb\ufffdc")


# --- kept as it is --------------------------------------------------------------------------------


@VALUES.row(6, "integers over 2^53 and 2^63 are exact, in arguments, results, context and answers")
async def exact(scene: Scene) -> None:
    big = {"a": 2**53 + 1, "b": 2**63}
    scene.says(call("add", **big))
    result = await scene.run(context=big, turn_id="big")
    assert scene.ran == [(2**53 + 1, 2**63)]
    assert result.tool_calls[0].outcome.value == 2**53 + 1 + 2**63
    again = await scene.rt.turn("s", "big").result()
    assert again.tool_calls[0].args == big
    assert again.tool_calls[0].outcome.value == 2**53 + 1 + 2**63
    await scene.park("deferred")
    await scene.rt.resolve(scene.key, 2**200)
    ended = await scene.rt.turn("w", "w").result(timeout=HANGS_S)
    assert ended.tool_calls[0].outcome.value == 2**200


for _limit in (2**63, -1, "x", 1.5, None):
    VALUES.refuse(
        6,
        f"a page of {_limit!r} sessions: a number column is meant",
        bound(lambda scene, limit: scene.rt.sessions(limit=limit), _limit),
        field="limit",
        error=LimitExceeded if _limit == 2**63 else InvalidInput,
    )
for _at in (2**63, -1, 99, 1.5):
    VALUES.refuse(
        6,
        f"a fork at turn {_at!r}",
        bound(lambda scene, at: scene.session.fork(at=at, id="f"), _at),
        field="at",
    )


@VALUES.row(
    10, "1.0 and 1 are two requests, 0.0 and -0.0 too; 1e3 and 1000.0 are one, on every store"
)
async def hashed(scene: Scene) -> None:
    for at, (first, second, is_one) in enumerate(
        [(1, 1.0, False), (0.0, -0.0, False), (1e3, 1000.0, True), (1000, 1e3, False)]
    ):
        turn = f"h{at}"
        await scene.run("x", turn_id=turn, context={"n": first})
        if is_one:
            assert (await scene.run("x", turn_id=turn, context={"n": second})).turn_id == turn
            continue
        with pytest.raises(IdempotencyConflict) as caught:
            await scene.run("x", turn_id=turn, context={"n": second})
        assert caught.value.field == "turn_id"


@VALUES.row(
    11, "NFC, NFD, RTL override, zero width and emoji are kept as given; a cut splits no character"
)
async def kept_as_given(scene: Scene) -> None:
    odd = ["\u00e9", "e\u0301", "a\u202eb", "a\u200bb", "\U0001f469\u200d\U0001f680"]
    result = await scene.run(odd)
    assert texts_in(result.messages) == [*odd, "fine"]
    assert texts_in(await scene.session.history())[-6:] == [*odd, "fine"]
    scene.gift = "x" + "\U0001f680" * 300_000
    told = await scene.told(call("give"))
    head = said(told).partition("\n(cut here")[0]
    assert set(head[1:]) == {"\U0001f680"}
    assert 1_048_572 < len(head.encode()) <= 1_048_576


@VALUES.row(11, "an id refuses what looks like another", error=InvalidInput, field="turn_id")
async def refused_as_id(scene: Scene) -> object:
    return await scene.run(turn_id="caf\u00e9")


@VALUES.row(12, "the same context in another order is the same request")
async def shuffled(scene: Scene) -> None:
    first = await scene.run("x", turn_id="k", context={"a": 1, "b": {"c": 2, "d": 3}})
    second = await scene.run("x", turn_id="k", context={"b": {"d": 3, "c": 2}, "a": 1})
    assert second.messages == first.messages
    assert len(scene.model.requests) == 2


# --- results --------------------------------------------------------------------------------------

RESULTS: list[tuple[int, Any, str]] = [
    (13, {1: "a", "1": "b"}, "dict"), (14, b"\xff\x00", "bytes"), (14, {1}, "set"),
    (14, Path("x"), "PosixPath"), (14, Odd(), "Odd"), (14, Odd, "type"), (14, iter("ab"), "str_"),
    (15, cyclic(), "list"), (5, math.nan, "float"), (4, 10**5_000, "int"), (3, nested(100), "list"),
]  # fmt: skip


def _names_its_type(gift: object, name: str) -> Act:
    async def act(scene: Scene) -> None:
        scene.gift = gift
        told = await scene.told(call("give"))
        assert told.status == "ok"  # it acted; calling again would act twice
        assert f"its result of type {name}" in said(told)
        assert "not asked for" not in said(told)

    return act


for _case, _gift, _name in RESULTS:
    VALUES.row(_case, f"a tool returns {_name}: told by its type")(_names_its_type(_gift, _name))


@VALUES.row(
    14, "dates and Decimals have a written form of their own; no str() is guessed for the rest"
)
async def written(scene: Scene) -> None:
    for gift, text in (
        (datetime(2020, 1, 2, tzinfo=UTC), "2020-01-02T00:00:00Z"),
        (Decimal("1.50"), "1.50"),
    ):
        scene.gift = gift
        assert said(await scene.told(call("give"))) == text
