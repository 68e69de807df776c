"""Where two requests part: places by name, payloads by size."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from tests.journal.builders import SPEC
from windlass.journal import (
    AwaitEventCommand,
    Command,
    Difference,
    DirectCallCommand,
    FinalizeCommand,
    ModelCallCommand,
    ProcessCommand,
    RequestSpec,
    RunCodeCommand,
    SleepCommand,
    ToolCallCommand,
    ToolHooksCommand,
    as_written,
    diff,
)
from windlass.kernel import (
    Finished,
    FinishedValue,
    Generation,
    HandedOff,
    Json,
    Stopped,
    canonical,
)


def add(**args: Json) -> ToolCallCommand:
    return ToolCallCommand(call_id="c", name="add", args=args)


def short(value: Json) -> str:
    """Return what is shown in place of a payload."""
    return sha256(json.dumps(value).encode()).hexdigest()[:8]


# --- places --------------------------------------------------------------------------------------


def test_equal_requests_differ_nowhere() -> None:
    assert diff(add(a=1, b=[{"c": None}]), add(b=[{"c": None}], a=1)) == ()


def test_what_changed_is_named_by_its_path() -> None:
    found = diff(add(a={"b": [1, 2]}), add(a={"b": [1, 3]}))
    assert found == (
        Difference(
            path="$.args.a.b[1]",
            change="changed",
            recorded=f"a number ({short(2)})",
            found=f"a number ({short(3)})",
        ),
    )


def test_what_was_added_and_removed_is_named_by_its_path() -> None:
    found = diff(add(a=1, gone=True), add(a=1, new=None))
    assert found == (
        Difference(path="$.args.gone", change="removed", recorded="true"),
        Difference(path="$.args.new", change="added", found="null"),
    )


def test_the_first_argument_adds_the_arguments() -> None:
    """Empty arguments are left out of the bytes, so the first one brings their object."""
    found = diff(add(), add(a=1))
    assert found == (Difference(path="$.args", change="added", found="an object of 1"),)


def test_the_ends_of_lists_are_added_and_removed() -> None:
    longer = diff(add(a=[1]), add(a=[1, [], {}]))
    assert longer == (
        Difference(path="$.args.a[1]", change="added", found="a list of 0"),
        Difference(path="$.args.a[2]", change="added", found="an object of 0"),
    )
    shorter = diff(add(a=[1, False]), add(a=[1]))
    assert shorter == (Difference(path="$.args.a[1]", change="removed", recorded="false"),)


def test_places_stand_in_reading_order() -> None:
    found = diff(add(b=1, a=[1, 1], c=1), add(b=2, a=[2, 2], c=2))
    assert [place.path for place in found] == [
        "$.args.a[0]",
        "$.args.a[1]",
        "$.args.b",
        "$.args.c",
    ]


def test_another_kind_of_value_is_a_change() -> None:
    kinds: list[Json] = [None, True, 1, 1.0, "1", [], {}]
    for left in kinds:
        for right in kinds:
            same = left is right
            assert [place.path for place in diff(add(a=left), add(a=right))] == (
                [] if same else ["$.args.a"]
            )


def test_numbers_that_are_stored_differently_differ() -> None:
    """0.0 and -0.0 are equal to Python and have two digests."""
    assert [place.path for place in diff(add(a=0.0), add(a=-0.0))] == ["$.args.a"]


def test_a_request_is_compared_with_none() -> None:
    found = diff(None, SleepCommand(duration_ms=1))
    assert found == (
        Difference(path="$", change="changed", recorded="null", found="an object of 2"),
    )


def test_another_kind_of_command_is_named() -> None:
    found = diff(SleepCommand(duration_ms=1), AwaitEventCommand(wait_key="w_1"))
    assert list(map(str, found)) == [
        "$.duration_ms: removed (1)",
        "$.type: recorded sleep, now await_event",
        "$.wait_key: added (w_1)",
    ]


def test_names_are_shown() -> None:
    recorded = ModelCallCommand(request=SPEC)
    now = ModelCallCommand(request=RequestSpec(model="n", messages="cd" * 32, message_count=2))
    assert list(map(str, diff(recorded, now))) == [
        "$.request.message_count: recorded 1, now 2",
        f"$.request.messages: recorded {'ab' * 32}, now {'cd' * 32}",
        "$.request.model: recorded m, now n",
    ]


def test_a_name_that_is_too_long_to_show_is_measured() -> None:
    recorded = ToolCallCommand(call_id="c", name="x" * 80)
    now = ToolCallCommand(call_id="c", name="x" * 81)
    assert diff(recorded, now) == (
        Difference(
            path="$.name",
            change="changed",
            recorded="x" * 80,
            found=f"text of 81 ({short('x' * 81)})",
        ),
    )


# --- bounds --------------------------------------------------------------------------------------


def test_no_more_places_are_listed_than_a_person_reads() -> None:
    assert len(diff(add(a=[0] * 32), add(a=[1] * 32))) == 32
    found = diff(add(a=[0] * 10_000), add(a=[1] * 10_000))
    assert [place.path for place in found] == [f"$.args.a[{at}]" for at in range(32)]


def test_a_long_key_is_cut() -> None:
    found = diff(add(a=1), add(**{"a": 1, "k" * 10_000: 1}))
    assert [place.path for place in found] == [f"$.args.{'k' * 40}"]


def test_a_huge_text_is_one_short_line() -> None:
    (found,) = diff(add(a="x"), add(a="y" * 1_000_000))
    assert str(found) == (
        f"$.args.a: recorded text of 1 ({short('x')}), "
        f"now text of 1,000,000 ({short('y' * 1_000_000)})"
    )


# --- payloads ------------------------------------------------------------------------------------

CANARY = "canary"
PAYLOADS: dict[str, tuple[Command, Command]] = {
    "args": (add(city="canary one"), add(city="canary two")),
    "args in a list": (add(a=["canary one"]), add(a=["canary two"])),
    "args added": (add(), add(city="canary")),
    "args removed": (add(city="canary"), add()),
    "a nested object": (add(a={"b": "canary one"}), add(a={"b": "canary two"})),
    "code": (
        RunCodeCommand(language="python", code="canary = 1"),
        RunCodeCommand(language="python", code="canary = 2"),
    ),
    "an answer": (
        FinalizeCommand(outcome=Finished(text="canary one")),
        FinalizeCommand(outcome=Finished(text="canary two")),
    ),
    "a value": (
        FinalizeCommand(outcome=FinishedValue(value="canary one")),
        FinalizeCommand(outcome=FinishedValue(value={"a": "canary two"})),
    ),
    "a task": (
        FinalizeCommand(outcome=HandedOff(target="other", task="canary one")),
        FinalizeCommand(outcome=HandedOff(target="other", task="canary two")),
    ),
    "a detail": (
        FinalizeCommand(outcome=Stopped(reason="limit", detail="canary one")),
        FinalizeCommand(outcome=Stopped(reason="limit", detail="canary two")),
    ),
    "a process's args": (
        ProcessCommand(operation="start", process_id="p", name="n", args="canary one"),
        ProcessCommand(operation="start", process_id="p", name="n", args=["canary two"]),
    ),
    "a signal": (
        ProcessCommand(operation="signal", process_id="p", name="n", args="canary"),
        ProcessCommand(operation="signal", process_id="p", name="n"),
    ),
    "a reason": (
        ProcessCommand(operation="cancel", process_id="p", args="canary one"),
        ProcessCommand(operation="cancel", process_id="p", args="canary two"),
    ),
    "stop words": (
        DirectCallCommand(request=SPEC, usage_source="x"),
        DirectCallCommand(
            request=RequestSpec(
                model="m",
                messages="ab" * 32,
                message_count=1,
                generation=Generation(stop=("canary",)),
            ),
            usage_source="x",
        ),
    ),
}


@pytest.mark.parametrize("case", PAYLOADS)
def test_no_payload_is_shown(case: str) -> None:
    recorded, now = PAYLOADS[case]
    found = diff(recorded, now)
    assert found
    assert CANARY not in repr(found)
    assert CANARY not in "".join(map(str, found))


# Names of fields that are shown where they belong to a command, as names of somebody's arguments.
ARGUMENTS = [
    "name", "subject", "status", "type", "mode", "model", "messages", "reply", "tools", "language",
    "session_id", "call_id", "kind", "variant", "iteration", "a.name", "x.y.subject",
]  # fmt: skip


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_no_argument_is_shown_whatever_it_is_called(argument: str) -> None:
    for recorded, now in (
        (add(**{argument: "canary one"}), add(**{argument: "canary two"})),
        (add(), add(**{argument: "canary"})),
        (add(deep={argument: "canary"}), add(deep={})),
        (add(deep=[{argument: "canary"}]), add(deep=[{argument: 5}])),
    ):
        found = diff(recorded, now)
        assert found
        assert CANARY not in repr(found)


def test_no_part_of_an_answer_or_of_a_schema_is_shown_whatever_it_is_called() -> None:
    pairs: list[tuple[Command, Command]] = [
        (
            FinalizeCommand(outcome=FinishedValue(value={"name": "canary one"})),
            FinalizeCommand(outcome=FinishedValue(value={"name": "canary two"})),
        ),
        (
            ProcessCommand(
                operation="signal", process_id="p", name="n", args={"subject": "canary"}
            ),
            ProcessCommand(operation="signal", process_id="p", name="n", args={}),
        ),
    ]
    for recorded, now in pairs:
        assert CANARY not in repr(diff(recorded, now))


def test_a_command_that_is_about_to_be_written_is_compared_by_its_bytes() -> None:
    written = as_written(canonical.encode(add(a=1)))
    assert diff(written, add(a=1)) == ()
    assert [place.path for place in diff(written, add(a=2))] == ["$.args.a"]


def test_what_a_hook_is_shown_is_known_by_its_digest() -> None:
    recorded = ToolHooksCommand(call_id="c", name="add", subject="ab" * 32)
    now = ToolHooksCommand(call_id="c", name="add", subject="cd" * 32)
    assert list(map(str, diff(recorded, now))) == [
        f"$.subject: recorded {'ab' * 32}, now {'cd' * 32}"
    ]
