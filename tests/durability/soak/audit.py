"""The audit of a round: all turns of a file, the file itself, and whether the sessions can go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from tests.durability.soak import crew
from tests.durability.soak.ledger import Ledger, Line
from tests.durability.soak.turn_audit import Finding, TurnAudit
from windlass import Agent, Runtime
from windlass.errors import UnknownSession
from windlass.ports import Store
from windlass.stores.sqlite import SqliteStore
from windlass.testing import FunctionModel, broken_rules


class Report(NamedTuple):
    """What an audit came to.

    `bought_again` are replies that had come, `sent_again` with those that were under way; `unknown` calls whose
    outcome is unknown.
    """

    findings: list[Finding]
    bought_again: int
    sent_again: int
    unknown: int
    executions: int


async def audit(file: Path, ledger: Ledger) -> Report:
    """Compare a round's file with its ledger, when no worker is left."""
    lines = ledger.lines()
    store = SqliteStore(file)
    await store.open()
    try:
        turns = [turn async for turn in _turns(store, lines)]
    finally:
        await store.close()
    findings = [finding for turn in turns for finding in turn.check()]
    findings += _accepted(turns, lines)
    findings += [Finding("file", found) for found in _integrity(file) if found != "ok"]
    if not findings:
        findings += await _next_requests(file)
    return Report(
        findings=findings,
        bought_again=sum(len(turn.lost()) for turn in turns),
        sent_again=sum(len(turn.lost(sent=True)) for turn in turns),
        unknown=sum(turn.unknown() for turn in turns),
        executions=sum(len(runs) for turn in turns for runs in turn.runs.values()),
    )


async def _turns(store: Store, lines: list[Line]) -> AsyncIterator[TurnAudit]:
    by_session: dict[str, list[Line]] = {}
    for line in lines:
        by_session.setdefault(line.session, []).append(line)
    for session_id in crew.sessions():
        try:
            session = await store.load_session(session_id)
        except UnknownSession:
            continue
        turn = await store.load_turn(session_id, crew.TURN)
        if turn is not None:
            yield TurnAudit(session, turn, by_session.get(session_id, []))


def _accepted(turns: list[TurnAudit], lines: list[Line]) -> Iterator[Finding]:
    """Every turn with a receipt is there."""
    accepted = {line.session for line in lines if line.kind == "accepted"}
    for session in sorted(accepted - {turn.id for turn in turns}):
        yield Finding("end", f"{session}: was accepted and is not there")
    keys = Counter(
        key
        for turn in turns
        for runs in turn.runs.values()
        for key in {r.said["key"] for r in runs}
    )
    for key, count in keys.items():
        if count > 1:
            yield Finding("runs", f"{count} calls have the key {key}")


def _integrity(file: Path) -> list[str]:
    db = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return [str(row[0]) for row in db.execute("PRAGMA integrity_check")]
    finally:
        db.close()


async def _next_requests(file: Path) -> list[Finding]:
    """Ask once more in every session: no provider may refuse what the history has become."""
    model = FunctionModel(lambda _request: "Well.", name="seller")
    agent: Agent[None, str] = Agent(crew.NAME, model=model)
    broken: list[Finding] = []
    async with Runtime(agent, store=f"sqlite:///{file}", durability="process") as runtime:
        for session in crew.sessions():
            await runtime.session(session).run("And now?", turn_id="t1")
            broken += (
                Finding("next request", f"{session}: {each.provider}: {each.rule} {each.where}")
                for each in broken_rules(model.requests[-1])
            )
    if len(model.requests) != crew.N_SESSIONS:
        broken.append(Finding("next request", f"{len(model.requests)} requests were made"))
    return broken
