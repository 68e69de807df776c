"""A turn or a WindlassError, nothing else: histories with fields of wrong types, unclean text.

A static checker would refuse the wrong types; people without one, and JSON that was loaded by hand,
get here. Answers are the runner's own: their kinds are checked, the fields inside are trusted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pytest

from tests.abuse.waiting import WAITING, config
from tests.kernel import golden_values as built
from windlass.errors import WindlassError
from windlass.kernel import (
    CheckpointPassed,
    CodeReturned,
    EnvironmentSynced,
    Failure,
    Message,
    ModelReplied,
    Text,
    ToolCall,
    ToolResult,
    ToolsReturned,
    TurnMachine,
    Value,
    canonical,
)

# Whatever the types say should not be there.
Junk: TypeAlias = Any

N_HISTORIES = 4_000

_JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, float("nan"), "", "x", "a\x00", "\ud800", b"x", [], {}, (), set(),
    [None], {"a": 1}, ("x",), ["x"], (5,), object(), Text(text="x"), Text, lambda: None, 2**70,
)  # fmt: skip

HISTORY: tuple[Message, ...] = (
    built.asked,
    Message(id="m-2", role="assistant", parts=(built.text, built.call)),
    Message(id="m-3", role="user", parts=(ToolResult(call_id="call_1", name="add"),)),
    Message(
        id="m-4",
        role="assistant",
        parts=(built.PARTS["Reasoning"], built.PARTS["Code"], built.PARTS["CodeOutput"]),  # type: ignore[arg-type]
    ),
    Message(
        id="m-5",
        role="user",
        parts=(built.PARTS["Attachment"], built.PARTS["ErrorText"]),  # type: ignore[arg-type]
        origin=built.process,
    ),
)


class Unbuilt(Exception):
    """The value could not even be built, which is a refusal too."""


def spoiled(dice: random.Random, value: Junk) -> Junk:
    """Return a value with one field, at any depth, that holds something else."""
    fields = value.__struct_fields__
    if not fields:
        return value
    name = dice.choice(fields)
    inner = getattr(value, name)
    if isinstance(inner, Value) and dice.random() < 0.7:
        given: Any = spoiled(dice, inner)
    elif isinstance(inner, tuple) and inner and dice.random() < 0.7:
        at = dice.randrange(len(inner))
        item = inner[at]
        changed = spoiled(dice, item) if isinstance(item, Value) else dice.choice(_JUNK)
        given = (*inner[:at], changed, *inner[at + 1 :])
    else:
        given = dice.choice(_JUNK)
    try:
        return msgspec.structs.replace(value, **{name: given})
    except (WindlassError, TypeError):
        raise Unbuilt from None


class Tally(NamedTuple):
    """How many inputs there were, how many the machine took, and what went wrong."""

    n_run: int
    n_taken: int
    faults: list[str]


def tally(
    n_inputs: int, one: Callable[[random.Random], bool], dice: random.Random, most_faults: int = 8
) -> Tally:
    """Try inputs that could be built, until there were enough of them or of faults."""
    n_run = n_taken = 0
    faults: list[str] = []
    while n_run < n_inputs and len(faults) < most_faults:
        try:
            n_taken += one(dice)
        except Unbuilt:
            continue
        except (Exception, RecursionError) as error:  # noqa: BLE001 - that is the question
            fault = f"{type(error).__name__}: {str(error)[:150]}"
            if fault not in faults:
                faults.append(fault)
        n_run += 1
    return Tally(n_run, n_taken, faults)


def say_all(machine: TurnMachine) -> Iterator[bytes]:
    """Poll to None and encode everything; what cannot be encoded is a refusal."""
    for _ in range(1_000):
        effect = machine.poll()
        if effect is None:
            return
        yield canonical.encode(effect)
    raise AssertionError("the machine does not come to rest")


def try_history(dice: random.Random) -> bool:
    at = dice.randrange(len(HISTORY))
    history = (*HISTORY[:at], spoiled(dice, HISTORY[at]), *HISTORY[at + 1 :])
    try:
        machine = TurnMachine(config(), history)
    except WindlassError:
        return False
    try:
        list(say_all(machine))
        canonical.encode(machine.snapshot())
    except WindlassError:
        return False
    return True


_FAILURE = Failure(message="down", code="dns")
_RESULTS = tuple(msgspec.structs.replace(built.completed, call_id=f"call_{n}") for n in (1, 2))
ANSWERS: list[Any] = [
    *[value for value in built.RESPONSES.values() if type(value) in WAITING],
    ToolsReturned(id=0, results=_RESULTS),
    ModelReplied(id=0, result=built.failure),
    CodeReturned(id=0, result=_FAILURE),
    EnvironmentSynced(id=0, result=_FAILURE),
    CheckpointPassed(id=0, delivery=_FAILURE),
]


def seeded() -> random.Random:
    """Dice that follow the seed which the test run printed."""
    return random.Random(random.getrandbits(64))


def test_a_history_with_a_field_of_a_wrong_type_gives_a_turn_or_a_refusal() -> None:
    done = tally(N_HISTORIES, try_history, seeded())
    assert done.faults == []
    assert done.n_run == N_HISTORIES
    assert 0 < done.n_taken < N_HISTORIES


def test_a_machine_that_lets_something_else_through_is_noticed() -> None:
    def leaky(dice: random.Random) -> bool:
        if dice.random() < 0.01:
            raise KeyError("call_1")
        return try_history(random.Random(1))

    done = tally(2_000, leaky, seeded(), most_faults=1)
    assert done.faults == ["KeyError: 'call_1'"]
    assert done.n_run < 2_000


# --- well typed, but not storable ----------------------------------------------------------------

UNCLEAN = "before\x00after"


def text_fields(value: Value, path: str = "") -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield each field of text in a value, with the value that holds unclean text there."""
    for field in msgspec.structs.fields(type(value)):
        inner = getattr(value, field.name)
        place = f"{path}.{field.name}"
        if isinstance(inner, str) and field.type in (str, str | None):

            def spoil(name: str = field.name) -> Junk:
                return msgspec.structs.replace(value, **{name: UNCLEAN})

            yield place, spoil
        elif isinstance(inner, Value):
            for deeper, make in text_fields(inner, place):
                yield deeper, _inside(value, field.name, make)
        elif isinstance(inner, tuple) and inner and isinstance(inner[0], Value):
            for deeper, make in text_fields(inner[0], f"{place}[0]"):
                yield deeper, _first(value, field.name, make)


def _inside(value: Value, name: str, make: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: msgspec.structs.replace(value, **{name: make()})


def _first(value: Value, name: str, make: Callable[[], Any]) -> Callable[[], Any]:
    rest = getattr(value, name)[1:]
    return lambda: msgspec.structs.replace(value, **{name: (make(), *rest)})


def spoiled_answers() -> dict[str, tuple[type, Callable[[], Any]]]:
    answers: dict[str, tuple[type, Callable[[], Any]]] = {}
    for answer in ANSWERS:
        for place, make in text_fields(answer):
            told = getattr(answer, "result", getattr(answer, "delivery", answer))
            name = f"{type(answer).__name__}({type(told).__name__}){place}"
            answers[name] = (type(answer), make)
    return answers


SPOILED = spoiled_answers()
SPOILED_MESSAGES = {
    f"messages[{at}]{place}": (at, make)
    for at, message in enumerate(HISTORY)
    for place, make in text_fields(message)
}


def check_storable(machine: TurnMachine) -> None:
    """Everything it says and is can be written down, or the session could never go on."""
    list(say_all(machine))
    canonical.encode(machine.snapshot())


@pytest.mark.parametrize("place", SPOILED)
def test_unclean_text_in_an_answer_is_refused_or_repaired(place: str) -> None:
    """Case 9. What a model, a tool or a cell says is repaired; what it names is refused."""
    kind, make = SPOILED[place]
    new_machine, effect_id = WAITING[kind]
    machine = new_machine()
    before = canonical.encode(machine.snapshot())
    try:
        response = msgspec.structs.replace(make(), id=effect_id)
        machine.respond(response)
    except WindlassError:
        assert before == canonical.encode(machine.snapshot())
    else:
        check_storable(machine)


@pytest.mark.parametrize("place", SPOILED_MESSAGES)
def test_unclean_text_in_a_history_is_refused(place: str) -> None:
    """Cases 8, 9."""
    at, make = SPOILED_MESSAGES[place]
    try:
        machine = TurnMachine(config(), (*HISTORY[:at], make(), *HISTORY[at + 1 :]))
    except WindlassError:
        return
    check_storable(machine)


def test_the_history_itself_is_fine() -> None:
    check_storable(TurnMachine(config(), HISTORY))
    assert any(isinstance(part, ToolCall) for message in HISTORY for part in message.parts)
