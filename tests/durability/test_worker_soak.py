"""A worker is killed again and again in the middle of its work: every turn holds, and nothing that acted acts twice.

The worker runs 20 sessions at once, 10 tool calls each, of every effect contract, alone and together. After the last
kill of a round the store is compared with what happened outside: `tests.durability.soak.turn_audit` has the rules.

A kill of a worker that drives 20 turns can cost each of them the reply that was on its way: what is asserted for each
turn is that it never costs more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import msgspec
import pytest

from tests.durability.soak import crew
from tests.durability.soak.audit import audit
from tests.durability.soak.ledger import Line
from tests.durability.soak.lives import Nursery, Round, play, rounds
from tests.durability.soak.turn_audit import TurnAudit
from tests.durability.soak.worker import file_of, ledger_of
from tests.limits import times
from windlass.kernel import ConversationRecord, ToolResult, Usage
from windlass.ports import SessionView, TurnView
from windlass.stores.sqlite import SqliteStore

KILLS = times(100)
N_LANES = 2


@pytest.mark.slow
@pytest.mark.timeout(times(600))
def test_a_worker_of_twenty_turns_may_be_killed_at_any_moment_however_often(
    tmp_path: Path,
) -> None:
    def soak(seed: int) -> list[Round]:
        return list(rounds(tmp_path / f"lane{seed}", seed, KILLS // N_LANES))

    with ThreadPoolExecutor(N_LANES) as pool:
        played = [each for lane in pool.map(soak, range(N_LANES)) for each in lane]
    found = {each.folder.name: each.report.findings for each in played if each.report.findings}
    assert found == {}
    kills = sum(each.kills for each in played)
    assert kills == KILLS // N_LANES * N_LANES
    # For each turn the audit knows that a kill costs no more than the reply on its way. How many of the twenty have one on
    # its way depends on the machine: about one, and nearer two where others work beside it. It is never a share of all.
    assert sum(each.report.bought_again for each in played) <= kills * crew.N_SESSIONS // 4
    # They were killed at work: calls were cut short, and those that may run again did.
    assert sum(each.report.unknown for each in played) > kills
    assert sum(each.report.executions for each in played) > 200 * len(played)
    # Four lives in which it got nowhere, and a turn is taken for poison: then it waits for a person.
    waits = [kind for each in played for line in each.parked for kind in line.said["kinds"]]
    assert set(waits) <= {"poison"}
    assert len(waits) < kills


# ------------------------------------------------------------------------- the audit can fail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "rule", "also"),
    [
        ("run_once_again", "runs", set()),
        # Without the barrier a slow disk is two replies behind, and a kill takes both.
        ("act_before_the_claim", "runs", {"bought"}),
        ("show_at_once", "shown", set()),
    ],
)
def test_the_soak_notices_a_worker_that_does_not_keep_its_promise(
    tmp_path: Path, mutant: str, rule: str, also: set[str]
) -> None:
    found: set[str] = set()
    for each in rounds(tmp_path / "lane", 7, 60, mutant):
        found |= {finding.rule for finding in each.report.findings}
        if rule in found:
            break
    assert rule in found
    assert found <= {rule} | also


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> tuple[SessionView, TurnView, list[Line]]:
    """A turn of a round without a kill, as store and ledger have it."""
    folder = tmp_path_factory.mktemp("quiet")
    with Nursery(folder / "stderr") as nursery:
        assert play(nursery, folder, Random(0), 0) == 0
    report = asyncio.run(audit(file_of(folder), ledger_of(folder)))
    assert report.findings == []
    assert (report.bought_again, report.sent_again, report.unknown) == (0, 0, 0)
    assert report.executions == crew.N_SESSIONS * crew.N_CALLS

    async def read() -> tuple[SessionView, TurnView]:
        store = SqliteStore(file_of(folder))
        await store.open()
        try:
            turn = await store.load_turn("s00", crew.TURN)
            assert turn is not None
            session = await store.load_session("s00")
        finally:
            await store.close()
        # The audit has asked once more in every session; what it looked at is what was there before.
        return msgspec.structs.replace(
            session, head=1, pages=session.pages[:1], usage=turn.page.usage if turn.page else ()
        ), turn

    lines = [line for line in ledger_of(folder).lines() if line.session == "s00"]
    return *asyncio.run(read()), lines


Forgery: TypeAlias = Callable[[SessionView, TurnView, list[Line]], tuple[SessionView, TurnView]]


def _last(lines: list[Line], kind: str, name: str = "") -> Line:
    return [line for line in lines if line.kind == kind and line.call.startswith(name)][-1]


def _shown(lines: list[Line], event: str) -> dict[str, Any]:
    """Return the last such event, in a line of its own that may be changed."""
    line = [e for e in lines if e.kind == "shown" and e.said["event"]["type"] == event][-1]
    said: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(line.said))
    lines.append(line._replace(said=said))
    return said


def _not_ended(session: SessionView, turn: TurnView, _: list[Line]) -> tuple[SessionView, TurnView]:
    return session, msgspec.structs.replace(turn, state="running")


def _ended_twice(
    session: SessionView, turn: TurnView, _: list[Line]
) -> tuple[SessionView, TurnView]:
    return msgspec.structs.replace(session, head=2, pages=session.pages * 2), turn


def _without_a_result(
    session: SessionView, turn: TurnView, _: list[Line]
) -> tuple[SessionView, TurnView]:
    page = session.pages[0]
    nodes = [
        node
        for node in page.nodes
        if not (
            isinstance(node, ConversationRecord)
            and any(isinstance(part, ToolResult) for part in node.message.parts)
        )
    ]
    page = msgspec.structs.replace(page, nodes=tuple(nodes))
    return msgspec.structs.replace(session, pages=(page,)), msgspec.structs.replace(turn, page=page)


def _acted_twice(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    lines.insert(0, _last(lines, "tool", "pay"))
    return session, turn


def _acted_after_its_result(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    line = _last(lines, "tool", "put")
    lines.append(line._replace(said={**line.said, "word": "later.1"}))
    return session, turn


def _acted_under_another_key(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    line = _last(lines, "tool", "post")
    lines.insert(0, line._replace(said={**line.said, "key": "wl_other"}))
    return session, turn


def _acted_unasked(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    lines.append(_last(lines, "tool", "post")._replace(call="post_7_7"))
    return session, turn


def _counted_twice(
    session: SessionView, turn: TurnView, _: list[Line]
) -> tuple[SessionView, TurnView]:
    return msgspec.structs.replace(session, usage=session.usage * 2), turn


def _counted_short(
    session: SessionView, turn: TurnView, _: list[Line]
) -> tuple[SessionView, TurnView]:
    line = msgspec.structs.replace(session.usage[0], usage=Usage(output_tokens=1))
    return msgspec.structs.replace(session, usage=(line,)), turn


def _bought_a_recorded_reply(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    line = _last(lines, "model")
    lines.append(line._replace(said={**line.said, "word": "later.1"}))
    return session, turn


def _lost_two_replies(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    for call in ("2", "3"):
        line = _last(lines, "model", call)
        word = {"word": f"early.{call}"}
        lines[:0] = [
            line._replace(life="early", kind=kind, said=word) for kind in ("model", "reply")
        ]
    return session, turn


def _shown_another_result(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    _shown(lines, "tool_finished")["event"]["outcome"]["value"] = "later.1"
    return session, turn


def _shown_another_reply(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    _shown(lines, "model_finished")["event"]["text"] = "later.1"
    return session, turn


def _shown_another_sum(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    _shown(lines, "usage_reported")["event"]["cumulative"]["output_tokens"] += 1
    return session, turn


def _shown_before_its_commit(
    session: SessionView, turn: TurnView, lines: list[Line]
) -> tuple[SessionView, TurnView]:
    _shown(lines, "turn_ended")["shown_ms"] -= 60_000
    return session, turn


@pytest.mark.parametrize(
    ("forge", "rule"),
    [
        (_not_ended, "end"),
        (_ended_twice, "end"),
        (_without_a_result, "results"),
        (_acted_twice, "runs"),
        (_acted_after_its_result, "runs"),
        (_acted_under_another_key, "runs"),
        (_acted_unasked, "runs"),
        (_counted_twice, "usage"),
        (_counted_short, "usage"),
        (_bought_a_recorded_reply, "bought"),
        (_lost_two_replies, "bought"),
        (_shown_another_result, "shown"),
        (_shown_another_reply, "shown"),
        (_shown_another_sum, "shown"),
        (_shown_before_its_commit, "shown"),
    ],
)
def test_the_audit_notices_what_it_is_there_for(
    quiet: tuple[SessionView, TurnView, list[Line]], forge: Forgery, rule: str
) -> None:
    session, turn, lines = quiet
    assert list(TurnAudit(session, turn, lines).check()) == []
    forged = list(lines)
    session, turn = forge(session, turn, forged)
    found = {finding.rule for finding in TurnAudit(session, turn, forged).check()}
    # A turn that ended twice has its calls and its usage twice, too.
    assert rule in found
    assert found <= {rule, "results", "usage"}
