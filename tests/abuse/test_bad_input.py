"""Values from outside, at the machine's doors: refused by exact class and place, nothing changed."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
import pytest

from tests.kernel.refusals import refused
from windlass.errors import FormatUnsupported, InvalidInput, WindlassError
from windlass.kernel import (
    Chain,
    CompletedToolCall,
    InputOrigin,
    Message,
    ModelFailure,
    ModelReplied,
    ModelReply,
    StandardDriver,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    ToolsReturned,
    TurnCause,
    TurnConfig,
    TurnMachine,
    TurnSnapshot,
    canonical,
)

# Whatever the types say should not be there.
Junk: TypeAlias = Any


def config(**changes: Any) -> TurnConfig:
    settings: dict[str, Any] = {"model": "m", "session_id": "s", "turn_id": "t"}
    return TurnConfig(driver=StandardDriver(), **(settings | changes))


def user(message_id: Junk = "u", **changes: Any) -> Message:
    return Message(**({"id": message_id, "role": "user", "parts": (Text(text="x"),)} | changes))


def calling(message_id: str, *call_ids: Any) -> Message:
    parts = tuple(ToolCall(call_id=call_id, name="add") for call_id in call_ids)
    return Message(id=message_id, role="assistant", parts=parts)


def answering(message_id: str, *call_ids: Any) -> Message:
    parts = tuple(ToolResult(call_id=each, name="add", content=()) for each in call_ids)
    return Message(id=message_id, role="user", parts=parts)


BAD_IDS: list[Any] = [
    "", " ", "a b", "a/b", "/", "\\", "%2e%2e", "a\n", "\n", "\t", "a" * 129, "é", "🚢", "\u202e",
    "\ud800", "a\x00", "a'; DROP TABLE x", None, 5, 1.5, b"a", True, ["a"], ("a",), {"a": 1},
]  # fmt: skip
GOOD_IDS = ["a", "..", "CON", "NUL", "a.", "A", "a" * 128, "a.b_c:d-e@f+g=h~i|j", "-rf", "0"]


# --- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", BAD_IDS, ids=repr)
def test_a_bad_id_is_refused_at_every_door(bad: Junk) -> None:
    """Case 17."""
    assert refused(lambda: config(session_id=bad)).field == "TurnConfig.session_id"
    assert refused(lambda: config(turn_id=bad)).field == "TurnConfig.turn_id"
    origin = InputOrigin(turn_id="t")
    cause = refused(lambda: TurnCause(id=bad, event_type="e", origin=origin, text="x"))
    assert cause.field == "TurnCause.id"
    history = (user("before"), user(bad))
    assert refused(lambda: TurnMachine(config(), history)).field == "messages[1].id"


def test_a_bad_call_id_in_a_history_is_refused() -> None:
    taken = []
    for bad in BAD_IDS:
        # What is not even text is refused where the call is made.
        place = "messages[1].parts[0].call_id" if isinstance(bad, str) else "ToolCall.call_id"
        try:
            TurnMachine(config(), (user(), calling("a", bad), answering("b", bad)))
        except InvalidInput as error:
            assert error.field == place  # noqa: PT017 - in a loop
        else:
            taken.append(bad)
    assert taken == []


@pytest.mark.parametrize("good", GOOD_IDS)
def test_an_odd_but_legal_id_is_kept_as_it_is(good: str) -> None:
    """Case 18."""
    machine = TurnMachine(config(session_id=good, turn_id=good), (user(good),))
    assert machine.messages[0].id == good
    kept = canonical.decode(canonical.encode(machine.snapshot()), TurnSnapshot)
    assert (kept.session_id, kept.turn_id) == (good, good)


def test_ids_that_differ_by_case_are_two() -> None:
    assert len(TurnMachine(config(), (user("a"), user("A"))).messages) == 2


# --- histories -----------------------------------------------------------------------------------

HISTORIES: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "two messages of one id": ((user("a"), user("b"), user("a")), "messages[2].id", "'a'"),
    "a call id again": (
        (user(), calling("a", "c"), answering("b", "c"), calling("d", "c"), answering("e", "c")),
        "messages[3].parts",
        "'c'",
    ),
    "a call id twice in one reply": (
        (user(), calling("a", "c", "c"), answering("b", "c", "c")),
        "messages[1].parts",
        "'c'",
    ),
    "a result without its call": ((answering("b", "c"),), "messages[0].parts[0]", "'c'"),
    "a result after text": (
        (user(), calling("a", "c"), user("b", parts=(Text(text="x"), *answering("x", "c").parts))),
        "messages[2].parts[1]",
        "first",
    ),
    "a result from the assistant": (
        (user(), calling("a", "c"), Message(id="b", role="assistant", parts=answering("x", "c").parts)),
        "messages[2].parts[0]",
        "result",
    ),
    "a call from the user": (
        (user("a", parts=calling("x", "c").parts),),
        "messages[0].parts[0]",
        "call",
    ),
    "an orphan call at the end": ((user(), calling("a", "c")), "messages[1]", "'c'"),
    "an orphan call inside": ((user(), calling("a", "c"), user("z")), "messages[2]", "c"),
    "one result of two": (
        (user(), calling("a", "c", "d"), answering("b", "c")),
        "messages[2]",
        "c, d",
    ),
    "a result too many": (
        (user(), calling("a", "c"), answering("b", "c", "d")),
        "messages[2]",
        "c",
    ),
    "results out of order": (
        (user(), calling("a", "c", "d"), answering("b", "d", "c")),
        "messages[2]",
        "c, d",
    ),
    "no parts": ((user(), user("b", parts=())), "messages[1].parts", "parts"),
    "an unknown role": ((user("a", role="tool"),), "messages[0].role", "tool"),
    "a role in capitals": ((user("a", role="User"),), "messages[0].role", "User"),
    "a role of None": ((user("a", role=None),), "messages[0].role", "None"),
    "a role that is a list": ((user("a", role=["user"]),), "messages[0].role", "user"),
    "an unknown kind of part": ((user("a", parts=({"type": "text"},)),), "messages[0].parts[0]", "dict"),
    "text for parts": ((user("a", parts="hi"),), "messages[0].parts[0]", "str"),
    "a message for a part": ((user("a", parts=(user(),)),), "messages[0].parts[0]", "Message"),
    "a dict for a message": ((user(), {"id": "a"}), "messages[1]", "dict"),
    "text for a message": (("hi",), "messages[0]", "str"),
    "a part for a message": ((Text(text="hi"),), "messages[0]", "Text"),
    "None for a message": ((None,), "messages[0]", "NoneType"),
}  # fmt: skip


@pytest.mark.parametrize("case", HISTORIES)
def test_what_is_no_history_is_refused_by_place(case: str) -> None:
    """Cases 25, 26: refused, never repaired silently."""
    messages, field, named = HISTORIES[case]
    given = Chain(messages)
    for _ in range(2):  # the chain remembers how far it was checked
        error = refused(lambda: TurnMachine(config(), given))
        assert error.field == field
        assert named in str(error)
    assert messages == tuple(given)
    assert refused(lambda: TurnMachine(config(), list(messages))).field == field


def test_a_history_that_was_refused_is_fine_without_its_fault() -> None:
    start = Chain([user()])
    broken = start.append(calling("a", "c"))
    refused(lambda: TurnMachine(config(), broken))
    assert len(TurnMachine(config(), start).messages) == 1
    assert len(TurnMachine(config(), broken.append(answering("b", "c"))).messages) == 3


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"messages": 5}, "messages"),
        ({"messages": None}, "messages"),
        ({"records": 5}, "records"),
        ({"causes": 5}, "causes"),
        ({"causes": ["wake"]}, "causes[0]"),
        ({"iteration_offset": -1}, "iteration_offset"),
        ({"iteration_offset": "0"}, "iteration_offset"),
        ({"iteration_offset": 1.5}, "iteration_offset"),
    ],
    ids=repr,
)
def test_other_bad_arguments_of_a_machine_are_refused_by_name(
    changes: dict[str, Any], field: str
) -> None:
    arguments = {"messages": (user(),)} | changes
    assert refused(lambda: TurnMachine(config(), **arguments)).field == field


# --- restore -------------------------------------------------------------------------------------

EDITED: list[tuple[dict[str, Any], str, type[WindlassError]]] = [
    ({"format": 0}, "format", FormatUnsupported),
    ({"format": 2}, "format", FormatUnsupported),
    ({"session_id": "other"}, "session_id", InvalidInput),
    ({"turn_id": "other"}, "turn_id", InvalidInput),
    ({"iteration": -1}, "iteration", InvalidInput),
    ({"iteration_offset": 3}, "iteration", InvalidInput),
    ({"next_effect": 1}, "next_effect", InvalidInput),
    ({"next_effect": -1}, "next_effect", InvalidInput),
    ({"next_message": -1}, "next_message", InvalidInput),
    ({"next_event": -1}, "next_event", InvalidInput),
    ({"told_records": 9}, "told_records", InvalidInput),
    ({"told_records": -1}, "told_records", InvalidInput),
]


@pytest.mark.parametrize(("changes", "field", "kind"), EDITED, ids=[repr(row[0]) for row in EDITED])
def test_a_snapshot_edited_by_hand_is_refused_by_field(
    changes: dict[str, Any], field: str, kind: type[WindlassError]
) -> None:
    """Case 64."""
    machine = TurnMachine(config(), (user(),))
    while machine.poll() is not None:
        pass
    edited = msgspec.structs.replace(machine.snapshot(), **changes)
    before = canonical.encode(edited)
    error = refused(lambda: TurnMachine.restore(config(), edited), kind)
    assert error.field == f"snapshot.{field}"
    assert before == canonical.encode(edited)


@pytest.mark.parametrize("snapshot", [None, {}, b"{}", 5], ids=repr)
def test_what_is_no_snapshot_is_not_restored(snapshot: Junk) -> None:
    assert refused(lambda: TurnMachine.restore(config(), snapshot)).field == "snapshot"


# --- respond -------------------------------------------------------------------------------------


def waiting_for_tools(*call_ids: str) -> tuple[TurnMachine, int]:
    machine = TurnMachine(config(), (user(),))
    while machine.poll() is not None:
        pass
    reply = ModelReply(parts=calling("x", *call_ids).parts, terminal="tool_use")  # type: ignore[arg-type]
    machine.respond(ModelReplied(id=1, result=reply))
    while machine.poll() is not None:
        pass
    assert machine.state == "waiting_tools"
    return machine, 2


def results(*call_ids: str) -> tuple[CompletedToolCall, ...]:
    return tuple(
        CompletedToolCall(call_id=each, name="add", outcome=ToolOutcome()) for each in call_ids
    )


@pytest.mark.parametrize(
    "returned",
    [(), ("c",), ("c", "c"), ("c", "d", "d"), ("c", "d", "e"), ("c", "e"), ("C", "D")],
    ids=repr,
)
def test_results_that_are_not_one_for_each_call_change_nothing(returned: tuple[str, ...]) -> None:
    machine, effect_id = waiting_for_tools("c", "d")
    before = canonical.encode(machine.snapshot())
    response = ToolsReturned(id=effect_id, results=results(*returned))
    error = refused(lambda: machine.respond(response))
    assert (error.field, error.wanted) == ("results", ["c", "d"])
    assert before == canonical.encode(machine.snapshot())
    assert machine.poll() is None
    machine.respond(ToolsReturned(id=effect_id, results=results("d", "c")))
    assert machine.state == "waiting_checkpoint"


REPLY = ModelReply(text="hello")
JUNK: tuple[Junk, ...] = (None, "1")
IGNORED: list[Any] = [
    None,
    "hello",
    {"id": 1},
    REPLY,
    ModelReplied(id=0, result=REPLY),
    ModelReplied(id=2, result=REPLY),
    ModelReplied(id=-1, result=REPLY),
    ModelReplied(id=JUNK[0], result=REPLY),
    ModelReplied(id=JUNK[1], result=REPLY),
    ToolsReturned(id=1, results=()),
]


@pytest.mark.parametrize(
    "response",
    IGNORED,
    ids=[f"{type(each).__name__} {getattr(each, 'id', '')!r}" for each in IGNORED],
)
def test_an_answer_to_something_else_changes_nothing(response: Junk) -> None:
    machine = TurnMachine(config(), (user(),))
    while machine.poll() is not None:
        pass
    before = canonical.encode(machine.snapshot())
    machine.respond(response)
    assert before == canonical.encode(machine.snapshot())
    assert machine.poll() is None
    machine.respond(ModelReplied(id=1, result=ModelFailure(message="down")))
    assert machine.is_done


@pytest.mark.parametrize("result", [None, "hello", {"text": "hi"}, 5], ids=repr)
def test_an_answer_without_a_result_is_refused_and_changes_nothing(result: Junk) -> None:
    machine = TurnMachine.restore(config(), _waiting_for_model())
    before = canonical.encode(machine.snapshot())
    refused(lambda: machine.respond(ModelReplied(id=1, result=result)))
    assert before == canonical.encode(machine.snapshot())
    assert machine.poll() is not None  # the redelivery is still pending


def _waiting_for_model() -> TurnSnapshot:
    machine = TurnMachine(config(), (user(),))
    while machine.poll() is not None:
        pass
    return machine.snapshot()
