"""Events: which are previews, what their ids mean, and that all of them can be stored."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, get_args

import pytest

from tests.kernel.builders import (
    PREFIX,
    Chooses,
    drain,
    events_of,
    machine,
    machine_in,
    only,
    reply_to,
    user,
)
from windlass.kernel import (
    Action,
    ChildEvent,
    ChildUsage,
    CodeFinished,
    CodeResult,
    CodeReturned,
    CodeStarted,
    Emit,
    EmitEvent,
    Error,
    Event,
    Failure,
    Finish,
    Finished,
    InputAccepted,
    ModelFinished,
    ModelReply,
    ModelStarted,
    NextIteration,
    PluginEvent,
    ProcessEvent,
    ReasoningDelta,
    Recovered,
    Retracted,
    Retrying,
    StartModel,
    TextDelta,
    ToolFinished,
    ToolInputDelta,
    ToolOutcome,
    ToolProgress,
    ToolSpec,
    ToolStarted,
    TurnEnded,
    TurnIds,
    Usage,
    UsageReported,
    WaitOpened,
    WaitResolved,
    canonical,
)

PREVIEWS: list[Event] = [
    ModelStarted(iteration=0, message_count=1, tools=("add",)),
    TextDelta(text="a"),
    ToolInputDelta(call_id="c", name="look", text="{"),
    ReasoningDelta(text="a"),
    ToolStarted(call_id="c", name="n", args={"a": 1}),
    ToolProgress(call_id="c", name="n", data={"done": 0.5}),
    CodeStarted(language="python", code="1"),
    Retrying(attempt=1, reason="529", wait_ms=10),
    Retracted(correlation_ids=("c1",)),
    PluginEvent(plugin="p", name="n", data=[1]),
    Recovered(view=(user("hi"),)),
    ChildEvent(session_id="s", turn_id="t", event=TextDelta(text="a"), path=("b",), call_id="c"),
]
FACTS: list[Event] = [
    ModelFinished(iteration=0, text="a"),
    UsageReported(iteration=0, usage=Usage(input_tokens=1), cumulative=Usage(input_tokens=2)),
    ToolFinished(call_id="c", name="n", args={"a": 1}, outcome=ToolOutcome(value=1), duration_ms=3),
    CodeFinished(language="python", output="1", error="x", duration_ms=3),
    Error(message="a", code="b", terminal="c"),
    TurnEnded(outcome=Finished(text="a")),
    WaitOpened(key="k", kind="approval", title="t", call_id="c", expires_ms=1),
    WaitResolved(key="k", kind="approval", status="granted", by="ada"),
    InputAccepted(input_id="i", message_ids=("m",)),
    ChildUsage(
        session_id="s",
        source="t",
        model="m",
        usage=Usage(input_tokens=1),
        cumulative=Usage(input_tokens=1),
    ),
    ProcessEvent(name="paid", value={"a": [1]}),
]


def named(event: Event) -> str:
    return type(event).__name__


@pytest.mark.parametrize("event", PREVIEWS, ids=named)
def test_a_preview_may_be_taken_back(event: Event) -> None:
    assert event.preview


@pytest.mark.parametrize("event", FACTS, ids=named)
def test_a_fact_may_not(event: Event) -> None:
    assert not event.preview


def test_every_event_is_one_or_the_other() -> None:
    assert {type(event) for event in [*PREVIEWS, *FACTS]} == set(get_args(Event))


@pytest.mark.parametrize("event", [*PREVIEWS, *FACTS], ids=named)
def test_every_event_can_be_stored_and_read_back(event: Event) -> None:
    kept = canonical.encode(event)

    assert canonical.decode(canonical.encode(Emit(event=event)), Emit) == Emit(event=event)
    assert canonical.decode(kept, type(event)) == event


# --- ids that the machine fills in -------------------------------------------------------------


def said_by(*events: Event) -> list[Event]:
    batch: list[Action] = [
        *[EmitEvent(event=event) for event in events],
        Finish(outcome=Finished()),
    ]
    return events_of(drain(machine(Chooses(prepare=batch))))


def test_ids_that_a_driver_leaves_open_are_filled_in() -> None:
    first, second, ended = said_by(TextDelta(text="a"), TextDelta(text="b"))

    assert first == TextDelta(id=f"e_{PREFIX}.0", correlation_id=f"c_{PREFIX}.0", text="a")
    assert second == TextDelta(id=f"e_{PREFIX}.1", correlation_id=f"c_{PREFIX}.0", text="b")
    assert ended.id == f"e_{PREFIX}.2"


def test_ids_that_a_driver_gives_are_kept() -> None:
    given = [
        TextDelta(id="mine", correlation_id="ours", text="a"),
        TextDelta(id="mine2", text="b"),
        TextDelta(correlation_id="ours", text="c"),
    ]

    said = said_by(*given)

    assert [event.correlation_id for event in said] == [
        "ours",
        f"c_{PREFIX}.0",
        "ours",
        f"c_{PREFIX}.0",
    ]
    assert [event.id for event in said[:2]] == ["mine", "mine2"]
    assert len({event.id for event in said}) == 4
    assert all(event.id.startswith(f"e_{PREFIX}.") for event in said[2:])


def test_the_event_that_a_driver_handed_over_is_not_changed() -> None:
    event = TextDelta(text="a")

    said_by(event)

    assert event == TextDelta(id="", correlation_id="", text="a")


def test_an_event_of_a_driver_belongs_to_the_effect_that_was_answered() -> None:
    turn = machine(
        Chooses(on_model=[EmitEvent(event=TextDelta(text="a")), Finish(outcome=Finished())])
    )

    delta = events_of(reply_to(turn, ModelReply(text="x")))[1]

    assert delta == TextDelta(id=f"e_{PREFIX}.2", correlation_id=f"c_{PREFIX}.1", text="a")


def test_an_event_said_after_a_model_call_was_started_belongs_to_that_call() -> None:
    driver = Chooses(
        prepare=lambda view: [
            EmitEvent(event=TextDelta(text="before")),
            StartModel(request=view.request()),
            EmitEvent(event=TextDelta(text="after")),
        ]
    )

    assert [event.correlation_id for event in events_of(drain(machine(driver)))] == [
        f"c_{PREFIX}.0",
        f"c_{PREFIX}.1",
        f"c_{PREFIX}.1",
    ]


def test_an_event_said_while_preparing_belongs_to_the_turn_in_every_iteration() -> None:
    show = EmitEvent(event=TextDelta(text="a"))
    driver = Chooses(
        prepare=lambda view: [show, StartModel(request=view.request())],
        on_model=[NextIteration()],
    )

    said = reply_to(machine(driver), ModelReply(text="x"))

    assert [event.correlation_id for event in only(TextDelta, said)] == [f"c_{PREFIX}.0"]


def test_the_tools_announced_are_those_of_the_request() -> None:
    tools = (ToolSpec(name="a"), ToolSpec(name="b"))
    without = Chooses(prepare=lambda view: [StartModel(request=view.request(use_tools=False))])

    started = [
        only(ModelStarted, drain(machine(driver, tools=tools)))[0].tools
        for driver in (Chooses(), without)
    ]

    assert started == [("a", "b"), ()]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (
            CodeResult(output="2", error="E", duration_ms=7, value=1),
            {"output": "2", "error": "E", "duration_ms": 7},
        ),
        (CodeResult(), {"output": "", "error": None, "duration_ms": 0}),
        (Failure(message="no sandbox"), {"output": "", "error": "no sandbox", "duration_ms": 0}),
    ],
)
def test_the_end_of_a_cell_is_told_before_the_driver_reads_it(
    result: CodeResult | Failure, expected: dict[str, Any]
) -> None:
    turn = machine_in("waiting_code")

    turn.respond(CodeReturned(id=1, result=result))

    assert events_of(drain(turn))[0] == CodeFinished(
        id=f"e_{PREFIX}.0", correlation_id=f"c_{PREFIX}.1", language="python", **expected
    )


def test_an_issue_has_an_id_of_what_it_says_and_names_what_it_is_about() -> None:
    said = sha256(b'["slow","Took long."]').hexdigest()[:16]
    issue = Error(message="Took long.", code="slow")

    about_a_call = issue.with_ids(TurnIds("s1", "t1"), "3.1")

    assert about_a_call.id == f"e_{PREFIX}.issue.{said}"
    assert about_a_call.correlation_id == f"c_{PREFIX}.3.1"
    assert (about_a_call.message, about_a_call.code) == ("Took long.", "slow")
    assert about_a_call.with_ids(TurnIds("s1", "t1"), "4") is about_a_call
    assert issue.with_ids(TurnIds("s1", "t1")).correlation_id == f"c_{PREFIX}.0"
