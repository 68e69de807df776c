"""Semantic 9, malformed calls: they are answered, never run; their well-formed siblings are."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    PREFIX,
    answers,
    asks,
    call,
    calls_in,
    completed,
    config,
    machine,
    raw_call,
    reply,
    reply_to,
    restored,
    result,
    results_in,
    run_tools,
    user,
)
from windlass.kernel import (
    CallTools,
    DriverRecord,
    ModelReply,
    PendingToolCall,
    Stopped,
    Text,
    ToolCall,
    ToolResult,
    TurnMachine,
    check_history,
)
from windlass.testing import Answers, drive, say

MALFORMED = (
    "Not run: the call was cut off or is not well formed. "
    "Issue it again with a tool's name and a complete JSON object as arguments."
)
BAD = raw_call("bad", '{"a": ')


def calls_run(turn: TurnMachine, answer: ModelReply) -> list[PendingToolCall]:
    """The calls that a reply makes the machine ask for."""
    said = reply_to(turn, answer)
    return [call for effect in said if isinstance(effect, CallTools) for call in effect.calls]


# --- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": ',
        '{"a": 1',
        "{",
        "not json",
        "[1, 2]",
        '"text"',
        "7",
        "null",
        "true",
        '{"a": 1} {"b": 2}',
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": ' + "9" * 5_000 + "}",
        '{"a": "\\u0000"}',
        '{"a": "\\ud800"}',
        "[" * 70 + "]" * 70,
        '{"a": ' + "[" * 70 + "]" * 70 + "}",
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
    ids=lambda raw: raw[:12],
)
def test_arguments_that_are_no_whole_json_object_are_answered_and_not_run(raw: str) -> None:
    turn = machine()
    good = call("good", a=1)

    run = calls_run(turn, reply(good, raw_call("bad", raw)))
    assert run == [PendingToolCall(call_id="good", name="add", args={"a": 1})]
    turn.respond(run_tools(CallTools(id=2, calls=tuple(run)), good=1))

    assert tuple(turn.messages[1:]) == (
        asks(good, raw_call("bad", raw), id=f"m_{PREFIX}.0.reply"),
        answers(
            result("good", "1"),
            result("bad", MALFORMED, status="error"),
            id=f"m_{PREFIX}.0.results",
        ),
    )
    check_history(turn.messages)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (raw_call("c1", '{"a": 1}'), {"a": 1}),
        (raw_call("c1", "{}"), {}),
        (raw_call("c1", " \n"), {}),
        (raw_call("c1", ""), {}),
        (ToolCall(call_id="c1", name="add", args={"a": 1}), {"a": 1}),
        # Given as a value they count as whole, whatever the provider's text looks like.
        (ToolCall(call_id="c1", name="add", args={"a": 1}, raw='{"a": '), {"a": 1}),
        (ToolCall(call_id="c1", name="add", args={"a": 1}, raw='{"a": 2}'), {"a": 1}),
    ],
)
def test_whole_arguments_are_run_whichever_way_they_came(
    given: ToolCall, expected: dict[str, int]
) -> None:
    turn = machine()

    run = calls_run(turn, reply(given))

    assert run == [PendingToolCall(call_id="c1", name="add", args=expected)]
    kept_call = turn.messages[-1].parts[0]
    assert kept_call == ToolCall(call_id="c1", name="add", args=expected, raw=given.raw)


@pytest.mark.parametrize(
    ("last", "runs"),
    [
        (raw_call("c2", '{"a": 2}'), True),
        (raw_call("c2", '{"a": '), False),
        (raw_call("c2", ""), False),
        (raw_call("c2", " "), False),
        (ToolCall(call_id="c2", name="add", args={"a": 2}), False),
        (ToolCall(call_id="c2", name="add", args={"a": 2}, raw='{"a": 2}'), True),
        (ToolCall(call_id="c2", name="add", args={"a": 2}, raw='{"a": 2'), False),
        (ToolCall(call_id="c2", name="add", args={"a": 2}, raw="[2]"), False),
    ],
)
def test_in_a_truncated_reply_the_last_call_runs_only_if_its_text_is_whole(
    last: ToolCall, runs: bool
) -> None:
    turn = machine()

    run = calls_run(turn, reply(call("c1"), last, terminal="output_limit"))

    assert [each.call_id for each in run] == (["c1", "c2"] if runs else ["c1"])
    if runs:
        assert run[1].args == {"a": 2}


def test_in_a_truncated_reply_that_goes_on_after_its_calls_the_calls_are_whole() -> None:
    turn = machine()

    run = calls_run(turn, reply(call("c1"), Text(text="and so I"), terminal="output_limit"))

    assert [each.call_id for each in run] == ["c1"]
    assert not turn.messages[-1].incomplete


# --- names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        pytest.param("", "_", id="no-name"),
        pytest.param("9lives", "_9lives", id="a-digit-first"),
        pytest.param("-x", "_-x", id="a-hyphen-first"),
        pytest.param("a b", "_a_b", id="space"),
        pytest.param("files.read", "_files_read", id="dot"),
        pytest.param("f(x)", "_f_x_", id="brackets"),
        pytest.param("naïve", "_na_ve", id="letter"),
        pytest.param("add\n", "_add_", id="newline"),
        pytest.param("😀", "__", id="emoji"),
        pytest.param("x" * 65, "_" + "x" * 63, id="65-characters"),
        pytest.param("y" * 10_000, "_" + "y" * 63, id="10000-characters"),
    ],
)
def test_a_name_that_no_provider_takes_is_made_legal_and_not_run(name: str, legal: str) -> None:
    turn = machine()

    run = calls_run(turn, reply(call("good"), call("bad", name, a=1)))
    turn.respond(run_tools(CallTools(id=2, calls=tuple(run)), good=1))

    assert [each.call_id for each in run] == ["good"]
    assert turn.messages[1].parts[1] == ToolCall(call_id="bad", name=legal, args={"a": 1})
    assert turn.messages[2].parts[1] == ToolResult(
        call_id="bad", name=legal, content=(Text(text=MALFORMED),), status="error"
    )


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64, "unknown_to_everyone"])
def test_a_legal_name_is_run_as_it_is(name: str) -> None:
    assert [each.name for each in calls_run(machine(), reply(call("c1", name)))] == [name]


# --- ids -------------------------------------------------------------------------------------


def test_calls_without_a_usable_id_get_one_and_are_run() -> None:
    turn = machine()

    run = calls_run(
        turn,
        reply(call(""), call("c1"), call("c1"), call("a.b"), call("x" * 41), call("x" * 40)),
    )

    minted = [f"call_{PREFIX}_0_{n}" for n in range(6)]
    expected = [minted[0], "c1", minted[2], minted[3], minted[4], "x" * 40]
    assert [each.call_id for each in run] == expected
    assert [part.call_id for part in calls_in(turn.messages[-1])] == expected


def test_a_call_that_had_to_be_corrected_keeps_its_text_and_its_providers_blob() -> None:
    turn = machine()
    given = ToolCall(call_id="", name="add", raw='{"a": 1}', replay={"sig": "y"})

    (run,) = calls_run(turn, reply(given))

    minted = f"call_{PREFIX}_0_0"
    assert run == PendingToolCall(call_id=minted, name="add", args={"a": 1}, replay={"sig": "y"})
    assert calls_in(turn.messages[-1]) == [
        ToolCall(call_id=minted, name="add", args={"a": 1}, raw='{"a": 1}', replay={"sig": "y"})
    ]


def test_an_id_that_the_history_has_already_is_not_used_again() -> None:
    history = [user("hi"), asks(call("c1")), answers(result("c1", "1"))]
    turn = TurnMachine(config(), history)

    run = calls_run(turn, reply(call("c1"), call("c2")))

    assert [each.call_id for each in run] == [f"call_{PREFIX}_0_0", "c2"]


def test_an_id_that_this_turn_has_already_is_not_used_again() -> None:
    def model(request: object) -> ModelReply:
        return replies.pop(0)

    replies = [reply(call("c1")), reply(call("c1")), say("done")]
    driven = drive(machine(), Answers(model=model, tools={"add": lambda: 1}))

    assert [[call.call_id for call in asked.calls] for asked in driven.all(CallTools)] == [
        ["c1"],
        [f"call_{PREFIX}_1_0"],
    ]
    check_history(driven.machine.messages)


@pytest.mark.parametrize(
    "parts",
    [
        (call(f"call_{PREFIX}_0_1"), call("")),
        (raw_call(f"call_{PREFIX}_0_1", "{"), call("")),
        (call(""), call(f"call_{PREFIX}_0_0")),
        (call(f"call_{PREFIX}_0_2"), call("c1"), call("c1")),
    ],
    ids=["both-run", "one-runs", "minted-first", "doubled"],
)
def test_a_provider_that_guesses_the_ids_minted_here_cannot_spoil_the_history(
    parts: tuple[ToolCall, ...],
) -> None:
    turn = machine()

    run = calls_run(turn, reply(*parts))
    turn.finish(Stopped(reason="cancelled"), [completed(each.call_id, 1) for each in run])

    assert turn.outcome == Stopped(reason="cancelled")
    ids = [part.call_id for part in calls_in(turn.messages[1])]
    assert len(parts) == len(set(ids))
    check_history(turn.messages)


# --- how many --------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_calls", "n_dropped"), [(1, 0), (128, 0), (129, 1), (1_280, 1_152)])
def test_calls_over_the_limit_are_dropped_and_the_model_is_told(
    n_calls: int, n_dropped: int
) -> None:
    turn = machine()
    n_run = n_calls - n_dropped

    run = calls_run(turn, reply(*[call(f"c{n}") for n in range(n_calls)]))
    turn.respond(run_tools(CallTools(id=2, calls=tuple(run)), **{c.call_id: 1 for c in run}))

    assert [each.call_id for each in run] == [f"c{n}" for n in range(n_run)]
    assert [part.call_id for part in calls_in(turn.messages[1])] == [f"c{n}" for n in range(n_run)]
    told = Text(
        text="[note from the system]\nOf that reply only 128 calls were taken; "
        f"{n_dropped} more were dropped and not run. Issue them again in a later reply."
    )
    assert turn.messages[2].parts == (
        *[result(f"c{n}", "1") for n in range(n_run)],
        *([told] if n_dropped else []),
    )
    noted = (DriverRecord(data={"dropped_calls": n_dropped}),) if n_dropped else ()
    assert tuple(turn.records[1:-1]) == noted
    check_history(turn.messages)


@pytest.mark.parametrize("how", ["finish", "refuse", "restore"])
def test_the_model_is_told_of_dropped_calls_however_the_reply_is_answered(how: str) -> None:
    turn = machine()
    many = [raw_call(f"c{n}", "{") if how == "refuse" else call(f"c{n}") for n in range(130)]

    run = calls_run(turn, reply(*many))
    if how == "finish":
        turn.finish(Stopped(reason="cancelled"))
    if how == "restore":
        turn = restored(turn, config())
        turn.respond(run_tools(CallTools(id=2, calls=tuple(run)), **{c.call_id: 1 for c in run}))

    last = turn.messages[2].parts[-1]
    assert isinstance(last, Text)
    assert "; 2 more were dropped and not run." in last.text
    assert len(results_in(turn.messages[2])) == 128
    check_history(turn.messages)


@pytest.mark.parametrize("n_calls", [1, 127, 128, 129, 256, 257, 500])
def test_however_many_calls_a_reply_holds_the_next_turn_can_begin(n_calls: int) -> None:
    turn = machine()

    run = calls_run(turn, reply(*[call(f"c{n}") for n in range(n_calls)]))
    turn.respond(run_tools(CallTools(id=2, calls=tuple(run)), **{c.call_id: 1 for c in run}))

    TurnMachine(config(turn_id="t2"), turn.messages)


def test_malformed_calls_count_towards_the_limit() -> None:
    turn = machine()

    run = calls_run(turn, reply(BAD, *[call(f"c{n}") for n in range(128)]))

    assert len(run) == 127


def test_a_call_with_text_that_cannot_be_stored_is_answered_and_its_sibling_runs() -> None:
    turn = machine()
    unclean = ToolCall(call_id="bad", name="add", args={"a": "x\x00\udcff"})

    asked = reply_to(turn, reply(unclean, call("good", a=1)))[-1]

    assert isinstance(asked, CallTools)
    assert [one.call_id for one in asked.calls] == ["good"]
    turn.respond(run_tools(asked, good=2))
    assert results_in(turn.messages[-1]) == [
        result("bad", MALFORMED, status="error"),
        result("good", "2"),
    ]
