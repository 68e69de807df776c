"""The audit of a turn: what the store holds against what happened outside, by the rules of the promise.

Nothing here believes a worker. What a turn came to is read from the store, what was bought, done and shown from
the ledger, and what ought to be from the script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tests.durability.soak import crew
from tests.durability.soak.ledger import Line
from windlass.journal import CallReturned, ModelAnswered, ToolCallCommand
from windlass.kernel import ConversationRecord, ModelReply, ToolCall, ToolResult, Usage
from windlass.kernel.outcomes import Finished
from windlass.ports import SessionView, TurnView


class Finding(NamedTuple):
    """A rule that does not hold, and where."""

    rule: str
    where: str


class TurnAudit:
    """One turn, as the store has it and as the ledger has it."""

    def __init__(self, session: SessionView, turn: TurnView, lines: list[Line]) -> None:
        self.id = session.session_id
        self.session = session
        self.turn = turn
        self.lines = lines
        rows = turn.journal().rows()
        self.replies: list[ModelReply] = [
            row.outcome.result
            for row in rows
            if isinstance(row.outcome, ModelAnswered) and isinstance(row.outcome.result, ModelReply)
        ]
        self.returned = {
            row.command.call_id: row.outcome
            for row in rows
            if isinstance(row.command, ToolCallCommand) and isinstance(row.outcome, CallReturned)
        }
        self.bought: dict[str, list[Line]] = {}
        self.runs: dict[str, list[Line]] = {}
        for line in lines:
            if line.kind in ("model", "tool"):
                found = self.bought if line.kind == "model" else self.runs
                found.setdefault(line.call, []).append(line)

    def check(self) -> Iterator[Finding]:
        """Yield what does not hold."""
        for rule in (self._end, self._results, self._runs, self._usage, self._bought, self._shown):
            for place in rule():
                yield Finding(rule.__name__[1:], f"{self.id}: {place}")

    # ------------------------------------------------------------------ the rules

    def _end(self) -> Iterator[str]:
        """The turn ended once, as the script says."""
        turn, pages = self.turn, self.session.pages
        if turn.state != "done" or self.session.head != 1 or len(pages) != 1:
            yield f"{turn.state}, head {self.session.head}, {len(pages)} commits"
            return
        if turn.page != pages[0] or turn.receipt is None or turn.receipt.head != 1:
            yield "the turn and the history do not agree"
        last = self.replies[-1].text if self.replies else ""
        if turn.outcome != Finished(text=last):
            yield f"came to {turn.outcome}, wanted the last reply"

    def _results(self) -> Iterator[str]:
        """Every call of the script is in the history, in order, with one result each."""
        parts = [
            part
            for page in self.session.pages
            for node in page.nodes
            if isinstance(node, ConversationRecord)
            for part in node.message.parts
        ]
        calls = [part.call_id for part in parts if isinstance(part, ToolCall)]
        wanted = [
            f"{name}_{reply}_{at}"
            for reply in range(len(crew.ROUND))
            for at, name in enumerate(crew.wishes(self.id, reply))
        ]
        results = [part for part in parts if isinstance(part, ToolResult)]
        if calls != wanted or [part.call_id for part in results] != wanted:
            yield f"calls {calls}, results {[part.call_id for part in results]}"
        for part in results:
            returned = self.returned.get(part.call_id)
            if returned is None or returned.outcome.status != part.status:
                yield f"{part.call_id}: the history says {part.status}, the journal {returned}"

    def _runs(self) -> Iterator[str]:
        """Each call ran as its contract says, and never after its result was recorded."""
        for call_id, returned in self.returned.items():
            runs = self.runs.get(call_id, [])
            status, value = returned.outcome.status, returned.outcome.value
            if crew.CONTRACTS[call_id.partition("_")[0]] == "once":
                if len(runs) > 1:
                    yield f"{call_id}: ran {len(runs)} times"
                if status not in ("ok", "unknown"):
                    yield f"{call_id}: {status}"
            elif status != "ok":
                yield f"{call_id}: {status}, but it may run again"
            # What is recorded is what the last run said: none came after it.
            if status == "ok" and (not runs or runs[-1].said["word"] != value):
                yield f"{call_id}: {value} is recorded, {[run.said['word'] for run in runs]} ran"
            if len({run.said["key"] for run in runs}) > 1:
                yield f"{call_id}: ran under several keys"
        if strangers := self.runs.keys() - self.returned.keys():
            yield f"{sorted(strangers)} ran and are not in the journal"
        noted = any(issue.code == "unknown_outcome" for issue in self._issues())
        if noted != (self.unknown() > 0):
            yield "an unknown outcome and its issue do not agree"

    def _usage(self) -> Iterator[str]:
        """What the session used is the sum of the replies that are recorded."""
        wanted = sum((reply.usage for reply in self.replies), Usage())
        found = sum((line.usage for line in self.session.usage), Usage())
        calls = sum(line.calls for line in self.session.usage)
        if found != wanted or calls != len(self.replies):
            yield f"{found} in {calls} calls, wanted {wanted} in {len(self.replies)}"
        if len(self.replies) != len(crew.ROUND) + 1:
            yield f"{len(self.replies)} replies are recorded"

    def _bought(self) -> Iterator[str]:
        """No recorded reply was bought again; a kill costs a turn one reply, and the call in flight."""
        for reply, bought in self.bought.items():
            recorded = self.replies[int(reply)] if int(reply) < len(self.replies) else None
            if recorded is None or recorded.text != bought[-1].said["word"]:
                yield f"reply {reply}: what was bought last is not what is recorded"
        came = Counter(line.life for line in self.lost())
        sent = Counter(line.life for line in self.lost(sent=True))
        for life in sent:
            if came[life] > 1 or sent[life] > 2:
                yield f"life {life} lost {came[life]} replies, of {sent[life]} calls"

    def _shown(self) -> Iterator[str]:
        """What was shown as a fact is what the store has."""
        for line in self.lines:
            if line.kind == "shown" and not self._has(line.said["event"], line.said["shown_ms"]):
                yield f"life {line.life} was shown {line.said['event']}"

    # ------------------------------------------------------------------ what is there

    def lost(self, *, sent: bool = False) -> list[Line]:
        """Return the replies that came and had to be bought again; `sent`: those that were under way, too."""
        came = {line.said["word"] for line in self.lines if line.kind == "reply"}
        lost = [line for bought in self.bought.values() for line in bought[:-1]]
        return [line for line in lost if sent or line.said["word"] in came]

    def unknown(self) -> int:
        """Return how many calls have an unknown outcome."""
        return sum(each.outcome.status == "unknown" for each in self.returned.values())

    def _issues(self) -> list[Any]:
        return [] if self.turn.page is None else list(self.turn.page.events)

    def _has(self, event: dict[str, Any], shown_ms: int) -> bool:
        match event["type"]:
            case "tool_finished":
                returned = self.returned.get(event["call_id"])
                return returned is not None and _plain(returned.outcome) == event["outcome"]
            case "model_finished":
                return bool(self.replies[event["iteration"]].text == event["text"])
            case "usage_reported":
                return self._has_spent(event)
            case "turn_ended":
                return self._has_ended(event, shown_ms)
            case "error":
                return event["message"] in [issue.message for issue in self._issues()]
            case _:
                # What else is a fact is about waits: one is opened when a turn is taken for poison.
                return event.get("key") in [view.wait.key for view in self.turn.waits]

    def _has_spent(self, event: dict[str, Any]) -> bool:
        so_far = self.replies[: event["iteration"] + 1]
        total = sum((reply.usage for reply in so_far), Usage())
        spent = (_plain(so_far[-1].usage), _plain(total))
        return spent == (event["usage"], event["cumulative"])

    def _has_ended(self, event: dict[str, Any], shown_ms: int) -> bool:
        """Whether the turn came to this. A later commit than what was shown would be another one."""
        page = self.turn.page
        if page is None or page.committed_ms > shown_ms:
            return False
        return bool(_plain(page.outcome) == event["outcome"])


def _plain(value: object) -> object:
    return msgspec.to_builtins(value)
