"""The truth table of `decide_claim`, written out: every state of a row by all that can be asked."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.journal.builders import COMMANDS, OPERATIONS, RECORDS
from windlass.journal import (
    Answer,
    Busy,
    Claimed,
    Command,
    Contract,
    Decision,
    EffectKind,
    How,
    JournalRow,
    Mismatch,
    Moment,
    ProcessCommand,
    ProcessOperation,
    Run,
    Slept,
    Stale,
    TakeOver,
    ToolCallCommand,
    decide_claim,
    how_to_resume,
)

GENERATION = 5
# By whom a row was written, as seen from generation 5.
GENERATIONS = {"same": 5, "older": 4, "newer": 6}
DIGESTS = {"equal": "d", "other": "another"}

# A line is what is asked for: a kind, a kind/moment, a tool_call/moment/contract or a process/operation.
# A column is what the journal holds. Where a claim is taken over, the cell says how.
TABLE = """
                              absent   recorded, equal digest  recorded, other digest      claimed, equal digest                claimed, other digest
                                       same   older  newer     same     older    newer     same  older           newer          same     older    newer
model_call                    run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
model_hooks                   run      answer answer answer    mismatch mismatch mismatch  busy  recompute       stale          mismatch mismatch mismatch
direct_call                   run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
tool_call/decide              run      answer answer answer    mismatch mismatch mismatch  busy  recompute       stale          mismatch mismatch mismatch
tool_call/intent/pure         run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
tool_call/intent/idempotent   run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
tool_call/intent/keyed        run      answer answer answer    mismatch mismatch mismatch  busy  same_key        stale          mismatch mismatch mismatch
tool_call/intent/once         run      answer answer answer    mismatch mismatch mismatch  busy  unknown         stale          mismatch mismatch mismatch
tool_call/intent/reconcile    run      answer answer answer    mismatch mismatch mismatch  busy  reconcile       stale          mismatch mismatch mismatch
tool_call/result/pure         run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
tool_call/result/idempotent   run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
tool_call/result/keyed        run      answer answer answer    mismatch mismatch mismatch  busy  same_key        stale          mismatch mismatch mismatch
tool_call/result/once         run      answer answer answer    mismatch mismatch mismatch  busy  unknown         stale          mismatch mismatch mismatch
tool_call/result/reconcile    run      answer answer answer    mismatch mismatch mismatch  busy  reconcile       stale          mismatch mismatch mismatch
tool_call/presented           run      answer answer answer    mismatch mismatch mismatch  busy  recompute       stale          mismatch mismatch mismatch
tool_call/asked               run      answer answer answer    mismatch mismatch mismatch  busy  recompute       stale          mismatch mismatch mismatch
tool_hooks/decide             run      answer answer answer    mismatch mismatch mismatch  busy  recompute       stale          mismatch mismatch mismatch
tool_hooks/presented          run      answer answer answer    mismatch mismatch mismatch  busy  recompute       stale          mismatch mismatch mismatch
process/start                 run      answer answer answer    mismatch mismatch mismatch  busy  same_id         stale          mismatch mismatch mismatch
process/list                  run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
process/transfer              run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
process/delete_session        run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
process/await                 run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
process/cancel                run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
process/signal                run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
process/wake                  run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
process/version               run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
process/trigger               run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
process/read                  run      answer answer answer    mismatch mismatch mismatch  busy  again           stale          mismatch mismatch mismatch
run_code                      run      answer answer answer    mismatch mismatch mismatch  busy  on_its_records  stale          mismatch mismatch mismatch
checkpoint                    run      answer answer answer    mismatch mismatch mismatch  busy  recompute       stale          mismatch mismatch mismatch
sync_environment              run      answer answer answer    mismatch mismatch mismatch  busy  recompute       stale          mismatch mismatch mismatch
finalize                      run      answer answer answer    mismatch mismatch mismatch  busy  recompute       stale          mismatch mismatch mismatch
sleep                         run      answer answer answer    mismatch mismatch mismatch  busy  first_due       stale          mismatch mismatch mismatch
await_event                   run      answer answer answer    mismatch mismatch mismatch  busy  same_wait       stale          mismatch mismatch mismatch
"""

# The columns of the table, from left to right: row, digest, generation.
COLUMNS = [
    ("absent", "", ""),
    ("recorded", "equal", "same"), ("recorded", "equal", "older"), ("recorded", "equal", "newer"),
    ("recorded", "other", "same"), ("recorded", "other", "older"), ("recorded", "other", "newer"),
    ("claimed", "equal", "same"), ("claimed", "equal", "older"), ("claimed", "equal", "newer"),
    ("claimed", "other", "same"), ("claimed", "other", "older"), ("claimed", "other", "newer"),
]  # fmt: skip
LINES = [line.split() for line in TABLE.splitlines()[3:]]
CASES = [
    pytest.param(place, *column, expected, id=" ".join([place, *column]).strip())
    for place, *cells in LINES
    for column, expected in zip(COLUMNS, cells, strict=True)
]
# What is outcome enough for any row: only that there is one decides.
OUTCOME = RECORDS[Slept]


def asked(place: str) -> tuple[Command, str, Contract | None]:
    """Return the command, the key and the contract that a line of the table speaks of."""
    kind, *rest = place.split("/")
    if kind == "process":
        return OPERATIONS[rest[0]], "s/t/0/1/process/e", None
    if not rest:
        return COMMANDS[kind], f"s/t/0/1/{kind}/e", None
    contracts: dict[str, Contract] = {
        "pure": "pure",
        "idempotent": "idempotent",
        "keyed": "keyed",
        "once": "once",
        "reconcile": "reconcile",
    }
    contract = contracts[rest[1]] if len(rest) == 2 else None
    moment = "asked/0" if rest[0] == "asked" else rest[0]
    return COMMANDS[kind], f"s/t/0/1/{kind}/e/0/{moment}", contract


def decided(place: str, state: str, digest: str, generation: str) -> Decision:
    command, key, contract = asked(place)
    request = Claimed(key=key, digest="d", command=command, contract=contract)
    if state == "absent":
        return decide_claim(None, request, generation=GENERATION)
    row = JournalRow(
        key=key,
        digest=DIGESTS[digest],
        generation=GENERATIONS[generation],
        command=command,
        contract=contract,
        outcome=OUTCOME if state == "recorded" else None,
    )
    return decide_claim(row, request, generation=GENERATION)


def named(decision: Decision) -> str:
    match decision:
        case Run():
            return "run"
        case Answer(outcome=outcome):
            assert outcome == OUTCOME
            return "answer"
        case Mismatch():
            assert (decision.recorded, decision.found) == ("another", "d")
            return "mismatch"
        case Busy():
            return "busy"
        case Stale(generation=newer):
            assert newer == 6
            return "stale"
        case TakeOver(how=how):
            return how


@pytest.mark.parametrize(("place", "state", "digest", "generation", "expected"), CASES)
def test_every_claim_is_decided_as_the_table_says(
    place: str, state: str, digest: str, generation: str, expected: str
) -> None:
    assert named(decided(place, state, digest, generation)) == expected


# --- nothing is missing from the table ----------------------------------------------------------

# Kinds that are recorded moment by moment, and which moments have a contract.
MOMENTS_OF: dict[str, list[str]] = {
    "tool_call": ["decide", "intent", "result", "presented", "asked"],
    "tool_hooks": ["decide", "presented"],
}
WITH_CONTRACT = {"intent", "result"}


def every_place() -> set[str]:
    """Return all that can be asked, from the types: a new kind, operation or contract shows up."""
    places = set()
    for kind in get_args(EffectKind):
        if kind == "process":
            places |= {f"process/{operation}" for operation in get_args(ProcessOperation)}
            continue
        for moment in MOMENTS_OF.get(kind, [""]):
            at = f"{kind}/{moment}" if moment else kind
            governed = kind == "tool_call" and moment in WITH_CONTRACT
            places |= {f"{at}/{each}" for each in get_args(Contract)} if governed else {at}
    return places


def test_the_table_has_a_line_for_everything_that_can_be_asked_and_no_other() -> None:
    places = [place for place, *_ in LINES]
    assert len(places) == len(set(places)) == 35
    assert set(places) == every_place()


def test_the_table_has_a_column_for_every_state_of_a_row() -> None:
    states = {
        (state, digest, generation)
        for state in ("recorded", "claimed")
        for digest in ("equal", "other")
        for generation in ("same", "older", "newer")
    }
    assert len(COLUMNS) == len(set(COLUMNS)) == 13
    assert set(COLUMNS) == states | {("absent", "", "")}
    assert len(CASES) == 35 * 13


def test_every_way_to_go_on_stands_in_the_table() -> None:
    cells = {cell for _, *line in LINES for cell in line}
    assert cells == {*get_args(How), "run", "answer", "mismatch", "busy", "stale"}


def test_every_moment_of_a_call_stands_in_the_table() -> None:
    assert MOMENTS_OF["tool_call"] == list(get_args(Moment))


def test_what_is_built_for_a_line_is_of_its_kind() -> None:
    for place, *_ in LINES:
        command, key, _ = asked(place)
        kind, *rest = place.split("/")
        assert key.split("/")[4] == kind
        if isinstance(command, ProcessCommand):
            assert command.operation == rest[0]
        else:
            assert command == COMMANDS[kind]


@pytest.mark.parametrize(
    ("place", "how"), [(place, line[8]) for place, *line in LINES], ids=[line[0] for line in LINES]
)
def test_what_is_left_without_an_outcome_is_resumed_as_the_table_says(place: str, how: How) -> None:
    command, key, contract = asked(place)
    row = JournalRow(key=key, digest="d", generation=4, command=command, contract=contract)
    assert how_to_resume(row, key) == how


# --- what the table cannot say -------------------------------------------------------------------

INTENT = "s/t/0/1/tool_call/e/0/intent"


def takeover(recorded: Contract | None, now: Contract | None) -> Decision:
    command = COMMANDS["tool_call"]
    row = JournalRow(key=INTENT, digest="d", generation=4, command=command, contract=recorded)
    request = Claimed(key=INTENT, digest="d", command=command, contract=now)
    return decide_claim(row, request, generation=5)


@pytest.mark.parametrize(
    ("recorded", "now", "how"),
    [
        ("once", "pure", "unknown"),
        ("once", "reconcile", "unknown"),
        ("pure", "once", "again"),
        ("keyed", "idempotent", "same_key"),
        ("reconcile", "pure", "reconcile"),
        ("idempotent", None, "again"),
    ],
)
def test_the_recorded_contract_governs_whatever_the_code_says_now(
    recorded: Contract, now: Contract | None, how: How
) -> None:
    assert takeover(recorded, now) == TakeOver(how=how)


@pytest.mark.parametrize("now", [None, "pure", "keyed"])
def test_an_intent_without_a_recorded_contract_is_taken_for_once(now: Contract | None) -> None:
    assert takeover(None, now) == TakeOver(how="unknown")


def test_the_first_due_time_is_kept() -> None:
    key, command = "s/t/0/1/sleep/e", COMMANDS["sleep"]
    row = JournalRow(key=key, digest="d", generation=4, command=command, due_ms=1_000)
    request = Claimed(key=key, digest="d", command=command, due_ms=9_000)
    taken = decide_claim(row, request, generation=5)
    assert taken == TakeOver(how="first_due", due_ms=1_000)


def test_a_mismatch_says_where_the_requests_part() -> None:
    recorded = ToolCallCommand(call_id="c", name="add", args={"a": 1})
    now = ToolCallCommand(call_id="c", name="subtract", args={"a": 1})
    row = JournalRow(key=INTENT, digest="another", generation=5, command=recorded)
    decision = decide_claim(row, Claimed(key=INTENT, digest="d", command=now), generation=5)
    assert isinstance(decision, Mismatch)
    assert list(map(str, decision.diff)) == ["$.name: recorded add, now subtract"]


def test_a_mismatch_of_deeply_nested_arguments_is_a_mismatch_too() -> None:
    """The deepest arguments that a command takes: 64 levels."""
    args: dict[str, object] = {}
    for _ in range(63):
        args = {"a": args}
    recorded = ToolCallCommand(call_id="c", name="add", args=args)
    now = ToolCallCommand(call_id="c", name="subtract", args=args)
    row = JournalRow(key=INTENT, digest="another", generation=5, command=recorded)
    decision = decide_claim(row, Claimed(key=INTENT, digest="d", command=now), generation=5)
    assert isinstance(decision, Mismatch)
    assert [place.path for place in decision.diff] == ["$.name"]


def test_the_same_command_asked_by_somebody_else_is_a_mismatch_that_says_so() -> None:
    command = COMMANDS["model_call"]
    row = JournalRow(key="k", digest="d", generation=1, command=command)
    decision = decide_claim(row, Claimed(key="k", digest="e", command=command), generation=1)

    assert isinstance(decision, Mismatch)
    assert list(map(str, decision.diff)) == ["$.invocation: changed"]
