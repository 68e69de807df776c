"""What makes messages a history: unique ids, and every call answered once, in order, at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernel.builders import answers, asks, assistant, call, config, result, user
from windlass.errors import InvalidInput
from windlass.kernel import (
    Attachment,
    Chain,
    Json,
    Message,
    Text,
    TurnMachine,
    check_history,
)
from windlass.kernel.history import trust_history


def message(id: str, role: Json, *parts: Any) -> Message:
    return Message(id=id, role=role, parts=parts)


def where_and_what(*messages: Any) -> tuple[str | None, str]:
    with pytest.raises(InvalidInput) as refused:
        check_history(Chain(messages))
    error = refused.value
    assert str(error) == f"{error.field}: found {error.found}"
    assert error.wanted == "a history in which every call has exactly one result, in order"
    return error.field, str(error.found)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [user("hi")],
        [assistant("hi")],
        [user("a", "1"), user("b", "2")],
        [user("a"), asks(call("c1")), answers(result("c1", "1"))],
        [
            user("a"),
            asks(call("c1"), call("c2")),
            answers(result("c1", "1"), result("c2", "2")),
            asks(call("c3"), id="a2"),
            answers(result("c3", "1"), id="r2"),
            assistant("done", "a3"),
        ],
        [
            asks(call("c1")),
            message("r1", "user", result("c1", "1"), Text(text="and?"), Attachment(ref="b")),
        ],
        [message("e1", "event", Text(text="x")), message("s1", "system", Text(text="y"))],
        [message("m1", "user", *[Text(text="x")] * 1_000)],
    ],
    ids=str,
)
def test_these_are_histories(history: list[Message]) -> None:
    check_history(Chain(history))
    TurnMachine(config(), history)


@pytest.mark.parametrize(
    ("history", "where", "what"),
    [
        pytest.param(["hi"], "messages[0]", "str, not a Message", id="not-a-message"),
        pytest.param([user("a"), None], "messages[1]", "NoneType, not a Message", id="none"),
        pytest.param([user("a", "no id")], "messages[0].id", "text that is not an id", id="bad-id"),
        pytest.param([user("a", "")], "messages[0].id", "text that is not an id", id="no-id"),
        pytest.param(
            [user("a", "x"), user("b", "y"), assistant("c", "x")],
            "messages[2].id",
            "the id 'x' a second time",
            id="id-twice",
        ),
        pytest.param(
            [message("m1", "tool", Text(text="x"))],
            "messages[0].role",
            "the unknown role 'tool'",
            id="role",
        ),
        pytest.param(
            [message("m1", "x" * 50, Text(text="x"))],
            "messages[0].role",
            f"the unknown role '{'x' * 20}'",
            id="long-role",
        ),
        pytest.param([message("m1", "user")], "messages[0].parts", "no parts", id="no-parts"),
        pytest.param(
            [message("m1", "user", Text(text="x"), "y")],
            "messages[0].parts[1]",
            "str, not a part",
            id="not-a-part",
        ),
        pytest.param(
            [message("m1", "user", call("c1"))],
            "messages[0].parts[0]",
            "a call in a message of role user",
            id="a-call-of-a-user",
        ),
        pytest.param(
            [asks(call("c1")), message("m1", "assistant", result("c1", "1"))],
            "messages[1].parts[0]",
            "a result that is not first in a user message",
            id="a-result-of-the-model",
        ),
        pytest.param(
            [asks(call("c1")), message("m1", "user", Text(text="x"), result("c1", "1"))],
            "messages[1].parts[1]",
            "a result that is not first in a user message",
            id="a-late-result",
        ),
        pytest.param(
            [user("a"), answers(result("c1", "1"))],
            "messages[1].parts[0]",
            "a result for 'c1' without its call",
            id="a-result-without-call",
        ),
        pytest.param(
            [asks(call("c1")), user("b")],
            "messages[1]",
            "not the results of c1 that must stand here, in order",
            id="no-result",
        ),
        pytest.param(
            [asks(call("c1"), call("c2")), answers(result("c1", "1"))],
            "messages[1]",
            "not the results of c1, c2 that must stand here, in order",
            id="a-missing-result",
        ),
        pytest.param(
            [asks(call("c1"), call("c2")), answers(result("c2", "1"), result("c1", "1"))],
            "messages[1]",
            "not the results of c1, c2 that must stand here, in order",
            id="out-of-order",
        ),
        pytest.param(
            [asks(call("c1")), answers(result("c1", "1"), result("c1", "1"))],
            "messages[1]",
            "not the results of c1 that must stand here, in order",
            id="a-doubled-result",
        ),
        pytest.param(
            [asks(call("c1")), answers(result("c1", "1")), answers(result("c1", "1"), id="r2")],
            "messages[2].parts[0]",
            "a result for 'c1' without its call",
            id="answered-twice",
        ),
        pytest.param(
            [asks(call("c1"), call("c1"))],
            "messages[0].parts",
            "the call id 'c1' a second time",
            id="one-call-id-twice",
        ),
        pytest.param(
            [asks(call("c1")), answers(result("c1", "1")), asks(call("c1"), id="a2")],
            "messages[2].parts",
            "the call id 'c1' a second time",
            id="a-call-id-again",
        ),
        pytest.param(
            [user("a"), asks(call("c0"), call("c1"))],
            "messages[1]",
            "the call 'c0' without result",
            id="open-at-the-end",
        ),
    ],
)
def test_these_are_refused_by_place_and_reason(history: list[Any], where: str, what: str) -> None:
    assert where_and_what(*history) == (where, what)
    with pytest.raises(InvalidInput):
        TurnMachine(config(), history)


def test_the_first_fault_is_the_one_reported() -> None:
    assert where_and_what(user("a", "no id"), "garbage", user("a", "also none")) == (
        "messages[0].id",
        "text that is not an id",
    )


def test_a_shorter_version_is_not_blamed_for_what_came_later() -> None:
    good = Chain([user("a")])
    bad = good.append(user("b"))
    with pytest.raises(InvalidInput):
        check_history(bad)

    check_history(good)

    with pytest.raises(InvalidInput) as refused:
        check_history(bad)
    assert refused.value.field == "messages[1].id"


def test_a_version_is_judged_by_its_own_end() -> None:
    open_end = Chain([user("a"), asks(call("c1"))])
    answered = open_end.append(answers(result("c1", "1")))
    check_history(answered)

    with pytest.raises(InvalidInput) as refused:
        check_history(open_end)
    assert refused.value.field == "messages[1]"
    check_history(answered.append(assistant("done", "a2")))


def test_two_versions_that_part_are_judged_apart() -> None:
    root = Chain([user("a")])
    left = root.append(user("b", "x"))
    right = root.append(user("c", "x"))

    check_history(left)
    check_history(right)
    with pytest.raises(InvalidInput):
        check_history(left.append(user("d", "x")))
    check_history(right.append(user("d", "y")))


TRUSTED = [
    user("a", "m1"),
    asks(call("c1"), id="m2"),
    answers(result("c1", "1"), id="m3"),
    assistant("done", "m4"),
]


def trusted(*later: Message) -> Chain[Message]:
    chain: Chain[Message] = Chain(TRUSTED)
    trust_history(chain)
    return chain + later


def test_what_was_stored_is_not_looked_at_again_and_what_comes_then_is() -> None:
    check_history(trusted(user("and?", "m5")))
    # Nobody stores such a message; that it is not seen is how trusting shows.
    blank: Chain[Message] = Chain([message("m1", "user")])
    trust_history(blank)
    check_history(blank)


@pytest.mark.parametrize(
    ("later", "where", "what"),
    [
        ([user("b", "m2")], "messages[4].id", "the id 'm2' a second time"),
        ([asks(call("c1"), id="m5")], "messages[4].parts", "the call id 'c1' a second time"),
        ([asks(call("c2"), id="m5")], "messages[4]", "the call 'c2' without result"),
        (
            [answers(result("c1", "1"), id="m5")],
            "messages[4].parts[0]",
            "a result for 'c1' without its call",
        ),
    ],
)
def test_what_comes_behind_what_is_trusted_has_to_fit_it(
    later: list[Message], where: str, what: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_history(trusted(*later))
    assert (refused.value.field, refused.value.found) == (where, what)
