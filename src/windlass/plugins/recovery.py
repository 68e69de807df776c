"""Error recovery: what happens when a tool fails, once or repeatedly.

Law 1. Failures are counted by tool, as they stand in the reply; a success of the tool counts them anew.
Law 2. The n-th failure in a row gives the model one round of grace, with the errors so far. A failure in a later reply
    ends the turn. Calls of one reply are judged alike, by what was before the reply: never by which ended first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from windlass.errors import ConfigError
from windlass.journal.patch import add, append
from windlass.kernel import CompletedToolCall, Json, ToolCall
from windlass.plugins import options
from windlass.plugins.wording import clipped, filled, words_of
from windlass.ports import Plugin, PluginTurn, Trouble
from windlass.ports.directives import Continue, ErrorDirective, Retry, Stop

OnError: TypeAlias = Literal["retry", "stop", "continue"]
Scope: TypeAlias = Literal["turn", "session"]

PROMPT = (
    "{tool} failed. Read the error, then call it again with what was wrong put right, "
    "or reach the goal in another way."
)
GRACE = (
    "{tool} has now failed {count} times in a row; if it fails once more, the turn ends. Its last errors:\n{errors}\n"
    "Do not repeat a call that failed. Change what is wrong, or go on without {tool}."
)
_ERROR_CHARS = 400
_MAX_ERRORS = 10


class ToolRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for one tool; a field that is left out is as in `Recovery`.

    Attributes:
        on_error: What follows an error of the tool, as for `Recovery`.
        prompt: What the model is told beside the error.
        breaker: How many failures of the tool in a row lead to the round of grace; None: none do.
    """

    on_error: OnError | msgspec.UnsetType = msgspec.UNSET
    prompt: str | msgspec.UnsetType = msgspec.UNSET
    breaker: int | msgspec.UnsetType | None = msgspec.UNSET


class _Rule(NamedTuple):
    on_error: OnError
    prompt: str
    breaker: int | None


class Recovery(Plugin):
    """Says how a turn goes on after a tool's error.

    Args:
        on_error: `"retry"` adds the prompt to what the model is told, `"continue"` adds nothing, `"stop"` ends the turn.
        prompt: The words of `"retry"`; `{tool}` and `{error}` are filled in.
        breaker: How many failures of one tool in a row lead to the round of grace; None never stops.
        per_tool: Other rules for some tools.
        grace: The words of the round of grace; `{tool}`, `{count}`, `{error}` and `{errors}` are filled in.
        scope: Whether a row of failures ends with the turn, or lasts as long as the session.
    """

    name = "recovery"
    version = "1"

    def __init__(
        self,
        *,
        on_error: OnError = "retry",
        prompt: str = PROMPT,
        breaker: int | None = 3,
        per_tool: Mapping[str, ToolRecovery] | None = None,
        grace: str = GRACE,
        scope: Scope = "turn",
    ) -> None:
        self._rule = _checked(_Rule(on_error, prompt, breaker), "Recovery")
        self._grace = options.words(grace, field="Recovery.grace")
        scopes = ("turn", "session")
        self._is_lasting = options.choice(scope, scopes, field="Recovery.scope") == "session"
        self._rules = {
            tool: self._rule_for(given, f"Recovery.per_tool[{tool}]")
            for tool, given in options.by_tool(per_tool, field="Recovery.per_tool").items()
        }

    def _rule_for(self, given: object, field: str) -> _Rule:
        if not isinstance(given, ToolRecovery):
            raise ConfigError.at(field, type(given).__name__, "ToolRecovery")
        said = {name: getattr(given, name) for name in _Rule._fields}
        changed = {name: value for name, value in said.items() if value is not msgspec.UNSET}
        return _checked(self._rule._replace(**changed), field)

    # ------------------------------------------------------------------ hooks

    async def on_error(self, turn: PluginTurn, trouble: Trouble) -> ErrorDirective | None:
        """Stop, or go on with a word to the model."""
        call = trouble.call
        if trouble.kind != "tool" or call is None:
            return None
        rule = self._rules.get(call.name, self._rule)
        error = clipped(words_of(call.as_result(call.name).content), _ERROR_CHARS)
        if rule.on_error == "stop":
            return Stop(f"{call.name} failed: {error}")
        if rule.breaker is not None:
            broken = self._count(turn, call.name, rule.breaker, error)
            if broken is not None:
                return broken
        # A call that may have acted must not be repeated.
        if rule.on_error == "continue" or call.outcome.status == "unknown":
            return Continue()
        return Retry(filled(rule.prompt, tool=call.name, error=error))

    async def after_tool(self, turn: PluginTurn, call: CompletedToolCall) -> None:
        """Count anew after a success."""
        if call.outcome.status != "ok":
            return
        # This hook cannot see a failure beside it in the same reply, so then it resets in any case.
        if call.name in self._rows(turn) or _has_twins(turn, call):
            self._change(turn, {call.name: None})

    # ------------------------------------------------------------------ the breaker

    def _count(
        self, turn: PluginTurn, tool: str, breaker: int, error: str
    ) -> ErrorDirective | None:
        """Count a failure; say what the breaker makes of it, if anything."""
        row = self._rows(turn).get(tool, {})
        before, errors = row.get("failures", 0), row.get("errors", [])
        is_broken = before >= breaker and row.get("warned", False)
        is_grace = not is_broken and before + 1 >= breaker
        keep = min(breaker, _MAX_ERRORS)
        # Once it broke the row stays, the warning does not: the session's next turn gets its own.
        kept = append(error, keep=keep)
        counted = {"failures": add(1), "errors": kept, "warned": is_grace or None}
        self._change(turn, {tool: counted})
        if is_broken:
            return Stop(f"{tool} failed {before + 1} times in a row; the last error: {error}")
        if is_grace:
            shown = "\n".join(f"- {one}" for one in [*errors, error][-keep:])
            told = {"tool": tool, "count": before + 1, "error": error, "errors": shown}
            return Retry(filled(self._grace, **told))
        return None

    def _rows(self, turn: PluginTurn) -> Mapping[str, Any]:
        kept = turn.memory if self._is_lasting else turn.state
        rows: Mapping[str, Any] = kept.get("tools", {})
        return rows

    def _change(self, turn: PluginTurn, rows: Json) -> None:
        if self._is_lasting:
            turn.remember(tools=rows)
        else:
            turn.patch(tools=rows)


def _checked(rule: _Rule, field: str) -> _Rule:
    options.choice(rule.on_error, ("retry", "stop", "continue"), field=f"{field}.on_error")
    options.words(rule.prompt, field=f"{field}.prompt")
    if rule.breaker is not None:
        options.whole(rule.breaker, field=f"{field}.breaker", low=1)
    return rule


def _has_twins(turn: PluginTurn, call: CompletedToolCall) -> bool:
    """Whether the reply that asked for a call may have asked for the tool more than once."""
    said = turn.turn_messages[-1].parts if turn.turn_messages else ()
    asked = [part for part in said if isinstance(part, ToolCall)]
    if all(part.call_id != call.call_id for part in asked):
        return True  # the reply is not in the history, so its other calls are unknown
    return sum(part.name == call.name for part in asked) > 1
