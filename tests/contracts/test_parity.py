"""The page of capabilities: every row has a status and an explanation, and every test that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "parity.md"
STATUSES = {"yes", "no", "planned"}
TEST = re.compile(r"`([^`]+\.py)::([^`]+)`")


class Row(NamedTuple):
    """One capability."""

    capability: str
    status: str
    words: str
    tests: tuple[tuple[str, str], ...]


def rows_of(page: str) -> list[Row]:
    rows = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and cells[0] != "capability":
            capability, status, words, shown_by = cells
            rows.append(Row(capability, status, words, tuple(TEST.findall(shown_by))))
    return rows


@cache
def defined_in(path: str) -> frozenset[str]:
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in tree.body if isinstance(node, kinds))


def faults_of(row: Row) -> list[str]:
    """Return what is wrong with a row."""
    faults = [
        f"{path}::{name} is not a test"
        for path, name in row.tests
        if not name.startswith("test_") or name not in defined_in(path)
    ]
    if row.status not in STATUSES:
        faults.append(f"{row.status} is not a status")
    if row.status == "yes" and not row.tests:
        faults.append("no test shows it")
    if not row.words:
        faults.append("nothing explains it")
    return faults


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", [pytest.param(row, id=row.capability) for row in ROWS])
def test_a_capability_is_shown_by_tests_that_exist_or_told_to_be_missing(row: Row) -> None:
    assert faults_of(row) == []


def test_every_row_of_the_page_is_read_and_none_is_there_twice() -> None:
    text = PAGE.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("|") and line.count("|") == 5]
    headings = [line for line in lines if line.startswith(("| capability", "|---"))]

    assert len(ROWS) == len(lines) - len(headings) > 80
    assert len({row.capability for row in ROWS}) == len(ROWS)


# What the compared runtimes make public in the parts that the page goes through.
COMPARED = {
    "lash": """
        TurnProtocol UnitTurnProtocol EffectId PendingToolCall CompletedToolCall TurnCause CheckpointDelivery
        render_turn_causes_prompt LogEvent Effect LlmCallError Response ExecutionSurfaceSync WaitingLlmState
        WaitingExecState CheckpointResumeAction DriverAction DriverContextView ProjectorContext ContextProjector
        ChatContextProjector ProtocolDriverHandle TurnMachineConfig MachineState TurnCheckpoint TurnMachine poll_effect
        handle_response apply_actions fail_turn finish_with_outcome restore_from_checkpoint
        RuntimeTurnPhase RuntimeTurnPhaseProbe InputItem TurnInput TurnContext ModeTurnExtension ModeSessionExtension
        AssistantOutput OutputState CodeOutputRecord ExecutionSummary TurnIssue AssembledTurn FollowedTurn RuntimeError
        TerminationPolicy EventSink NoopEventSink TurnActivityId TurnActivity TurnEvent TurnActivitySink
        NoopTurnActivitySink SessionStoreCreateRequest SessionStoreFactory LashRuntime PromptTemplate PromptContribution
        PromptSlot PromptLayer ParkedSession Residency RuntimeEnvironment EmbeddedRuntimeBuilder EmbeddedRuntimeHost
        RuntimeHandle RuntimeObservation PersistedSessionState SessionStateEnvelope SessionUsageReport TokenLedgerEntry
        UsageTotals diff_token_ledger diff_usage_reports BackgroundTaskHost
        RuntimeEffectKind RuntimeInvocation RuntimeScope RuntimeReplay RuntimeSubject RuntimeEffectEnvelope
        RuntimeEffectCommand ProcessCommand ProcessEffectOutcome ToolCallEffectOutcome ToolCallLaunch
        RuntimeEffectOutcome LlmAttachmentSpec LlmRequestSpec
    """,
    "agent-base": """
        AgentRuntime create_session restore_session subscribe_events run_turn_with_handler run_turn_stream
        resume_from_checkpoint SkillPrompter ToolErrorRecovery ToolErrorAction ContextWindowManager SessionStore
        ApprovalHandler ToolPolicy ToolRegistry CheckpointData CheckpointStep RunOutcome AgentEvent
    """,
}


@pytest.mark.parametrize("runtime", COMPARED)
def test_every_public_name_of_the_compared_parts_has_a_row(runtime: str) -> None:
    rows = {name for row in ROWS for name in re.findall(r"\w+", row.capability)}

    assert f"**[{runtime}]" in PAGE.read_text(encoding="utf-8")
    assert [name for name in COMPARED[runtime].split() if name not in rows] == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("| A | yes | does it | `tests/contracts/test_parity.py::test_gone` |", "is not a test"),
        ("| A | yes | does it | `tests/contracts/gone.py::test_a` |", "is not a test"),
        ("| A | yes | does it | `tests/contracts/test_parity.py::rows_of` |", "is not a test"),
        ("| A | yes | does it | - |", "no test shows it"),
        ("| A | perhaps | does it | - |", "perhaps is not a status"),
        ("| A | no |  | - |", "nothing explains it"),
    ],
)
def test_a_row_that_promises_too_much_is_seen(line: str, fault: str) -> None:
    (row,) = rows_of(line)

    assert any(fault in one for one in faults_of(row))
