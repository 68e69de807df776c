"""The judge of requests: what has to hold of each one that reaches a model, whatever went before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tests.plugins.long_sessions.ledger import Ledger
from tests.plugins.long_sessions.tokenizer import Tokenizer
from tests.scenarios.readings import words
from windlass.api.nodes import Node
from windlass.journal import FrameOpened, PluginRemembered
from windlass.kernel import (
    Attachment,
    ConversationRecord,
    ModelMessage,
    ModelRequest,
    Text,
    ToolCall,
    ToolResult,
)
from windlass.kernel.summary import SEED
from windlass.kernel.tokens import MEDIA_TOKENS
from windlass.plugins import ContextWindow
from windlass.testing import broken_rules

_SUMMARY = re.compile(r"Summary (\d+) of (\S+)\.")
# What a picture counts at most.
_FILE_TOKENS = round(MEDIA_TOKENS * 1.3)
_MARKS = {
    "cleared": "cleared to save space",
    "cut": " lines are cut here; ",
    "shortened JSON": "[shortened from ",
    "shortened at last": " characters left out",
}


class Judge:
    """Looks at every request, and notes in the ledger what is wrong with it."""

    def __init__(self, ledger: Ledger, tokenizer: Tokenizer, window: int) -> None:
        self._ledger = ledger
        self._tokenizer = tokenizer
        self._window = window
        # Turns whose inputs lost their files, because there was no room.
        self._crowded: set[str] = set()

    def look(self, request: ModelRequest, turn_id: str) -> int:
        """Judge a request of a turn; return how many tokens it has."""
        ledger, counts = self._ledger, self._ledger.counts
        counts["requests"] += 1
        tokens = self._tokenizer.count(request)
        counts["most tokens"] = max(counts["most tokens"], tokens)
        ledger.expect(tokens <= self._window, turn_id, f"{tokens} tokens in {self._window}")
        for broken in broken_rules(request):
            ledger.fault(turn_id, f"{broken.provider}: {broken.rule}, {broken.where}")
        for mark, text in _MARKS.items():
            counts[f"requests with {mark}"] += any(text in said for said in _results(request))
        return tokens

    def look_at_turn(self, request: ModelRequest, turn_id: str) -> int:
        """Judge a request that goes on with a conversation: it has its summary, its input and what came since."""
        ledger = self._ledger
        said = _said(request)
        wanted = ledger.summaries[request.session_id or ""]
        found = summary_in(said[0]) if said[0].startswith(SEED) else 0
        ledger.expect(found == wanted, turn_id, f"summary {found} is shown, there are {wanted}")
        plan = ledger.plans[turn_id]
        at = place_of(request, plan.text)
        ledger.expect(at >= 0, turn_id, "its input is not whole")
        steer = ledger.steered.get(turn_id)
        ledger.expect(steer is None or steer in said, turn_id, "what it was told is not shown")
        tokens = self.look(request, turn_id)
        if at >= 0:
            self._look_at_files(request, at, turn_id, tokens)
        return tokens

    def _look_at_files(self, request: ModelRequest, at: int, turn_id: str, tokens: int) -> None:
        """Judge the files of an input: they are there, unless there is no room for them, or was none before.

        They go with the outputs of their own turn, too, when these are cleared.
        """
        shown = {part.name for part in request.messages[at].parts if isinstance(part, Attachment)}
        files = self._ledger.plans[turn_id].files
        missing = [file for file in files if file.name not in shown]
        if not missing or turn_id in self._crowded:
            return
        self._ledger.counts["inputs that lost their files"] += 1
        self._crowded.add(turn_id)
        wanted = tokens + len(missing) * _FILE_TOKENS
        has_room = wanted <= self._window - self._window // 4
        has_cleared = any(_MARKS["cleared"] in text for text in _results(request, at))
        is_right = has_cleared or not has_room
        self._ledger.expect(is_right, turn_id, "files of its input are not shown")

    def look_at_wish(self, request: ModelRequest, turn_id: str) -> tuple[int, int]:
        """Judge a request for a summary; return how many tokens it has, and which summary it is for."""
        session_id = request.session_id or ""
        first = _said(request)[0]
        before = summary_in(first) if first.startswith(SEED) else 0
        # One whose reply was lost with its worker is asked for again.
        is_next = before in (
            self._ledger.summaries[session_id],
            self._ledger.summaries[session_id] - 1,
        )
        self._ledger.expect(is_next, turn_id, f"a wish with summary {before}")
        tokens = self.look(request, turn_id)
        self._ledger.counts["wishes"] += 1
        return tokens, before + 1

    def look_at_history(self, nodes: Sequence[Node]) -> None:
        """Judge what a session keeps: every call has its one result, and all that was said is there, once."""
        expect, counts = self._ledger.expect, self._ledger.counts
        history = [n.body.message for n in nodes if isinstance(n.body, ConversationRecord)]
        asked: tuple[str, ...] = ()
        for message in history:
            results = tuple(p.call_id for p in message.parts if isinstance(p, ToolResult))
            expect(results == asked, message.id, f"the calls {asked} have the results {results}")
            asked = tuple(p.call_id for p in message.parts if isinstance(p, ToolCall))
            counts["calls"] += len(asked)
        expect(not asked, "the last", "calls without results")
        said = Counter(
            part.text
            for message in history
            if message.role == "user"
            for part in message.parts[:1]
            if isinstance(part, Text)
        )
        for text in self._said_in_session():
            expect(said[text] == 1, text[:12], f"is in the history {said[text]} times")
        seeds = [summary_in(text) for text in said if text.startswith(SEED)]
        n_frames = sum(isinstance(node.body, FrameOpened) for node in nodes)
        expect(seeds == [*range(1, n_frames + 1)], "frames", f"begin with the summaries {seeds}")
        expect(n_frames == self._ledger.summaries["s"], "frames", f"there are {n_frames}")
        counts["compactions"] = n_frames
        self._count_edges(nodes)

    def _said_in_session(self) -> list[str]:
        plans = self._ledger.plans
        inputs = {made.text for turn_id, made in plans.items() if turn_id.startswith("t")}
        return [*inputs, *self._ledger.steered.values()]

    def _count_edges(self, nodes: Sequence[Node]) -> None:
        now: dict[str, object] = {}
        for node in nodes:
            if isinstance(node.body, PluginRemembered) and node.body.plugin == ContextWindow.name:
                for edge in ("clear", "drop"):
                    found = node.body.memory.get(edge)
                    has_moved = found is not None and found != now.get(edge)
                    self._ledger.counts[f"{edge} edge moved"] += has_moved
                    now[edge] = found


def summary_in(text: str) -> int:
    """Return the number of the summary that a text begins with."""
    found = _SUMMARY.search(text[: len(SEED) + 40])
    return int(found[1]) if found else 0


def place_of(request: ModelRequest, text: str) -> int:
    """Return the last message that says exactly this, or -1."""
    for at in range(len(request.messages) - 1, -1, -1):
        message = request.messages[at]
        first = message.parts[0]
        if message.role == "user" and type(first) is Text and first.text == text:
            return at
    return -1


def _said(request: ModelRequest) -> list[str]:
    return [words(m.parts) for m in request.messages if m.role == "user" and _is_said(m)]


def _is_said(message: ModelMessage) -> bool:
    return not isinstance(message.parts[0], ToolResult)


def _results(request: ModelRequest, since: int = 0) -> list[str]:
    return [
        each.text
        for message in request.messages[since:]
        for part in message.parts
        if isinstance(part, ToolResult)
        for each in part.content
        if isinstance(each, Text)
    ]
