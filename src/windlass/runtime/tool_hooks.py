"""The hooks around one call: what plugins together make of it, whatever order they stand in.

Law 1. Of what plugins say to a call the strongest holds: a denial, a result that says it failed, a question, a
    result, leave. Two of one strength: the first.
Law 2. Other arguments take effect at once, and every plugin before sees the call once more; only what restricts
    counts then. The same with another result.
Law 3. A second replacement by another plugin fails closed, and names both.
Law 4. A plugin that fails has allowed nothing and shown nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from windlass.errors import ArgsInvalid
from windlass.journal import (
    CallDecided,
    CallPresented,
    Recorded,
    RecordedMoment,
    ToolHooksCommand,
)
from windlass.kernel import canonical
from windlass.kernel.events import Error
from windlass.kernel.messages import Text
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import CompletedToolCall, PendingToolCall, ToolOutcome
from windlass.kernel.value import EMPTY_DICT
from windlass.ports.directives import (
    ReplaceArgs,
    Retry,
    Stop,
)
from windlass.ports.plugin import AskedCall, Trouble
from windlass.ports.policy import Deny
from windlass.ports.tool import Tool
from windlass.runtime.body import with_part
from windlass.runtime.hooks import Hooks
from windlass.runtime.hosted_turn import HostedTurn
from windlass.runtime.plugin_states import Changes, Patches
from windlass.runtime.tool_verdicts import (
    NO_WORD,
    Strength,
    Word,
    decision,
    second_word,
    stronger,
    word_of,
)
from windlass.runtime.turn import Keyed
from windlass.runtime.turn_signals import PluginFault

FAILED = ("error", "timeout", "unknown")
WITHHELD = "(Its result is withheld: {why})"


class Presented(NamedTuple):
    """What the turn has of a result; `ends`: it ends with it."""

    outcome: ToolOutcome
    ends: Outcome | None = None


class CallHooks:
    """Asks the plugins about one call, before it runs and after it ended."""

    def __init__(
        self, hooks: Hooks, call: PendingToolCall, effect_id: int, ordinal: int, of: int
    ) -> None:
        self._hooks = hooks
        self._hand = hooks.hand
        self._call = call
        self._effect_id = effect_id
        self._ordinal = ordinal
        self._of = of
        self._is_alone = of == 1
        self._where = f"{effect_id}.{ordinal}"
        self._own: dict[str, HostedTurn] = {}
        self._changed: Changes = {}
        self._issues: list[Error] = []
        # All that was changed around this call, to be folded when its batch has ended.
        self.patches: list[Patches] = []
        self.ends: Outcome | None = None
        self.is_presented = False

    # ------------------------------------------------------------------ before

    def decided_before(self) -> CallDecided | None:
        """Return what was decided before a crash."""
        known = self._known("decide")
        if not isinstance(known, CallDecided):
            return None
        self._take_up(known)
        return known

    async def decide(self, tool: Tool) -> CallDecided | None:
        """Return what plugins decided, recorded; None: nobody objects, and nothing changed."""
        turns = self._having("before_tool")
        if not turns:
            return None
        call = AskedCall(
            call_id=self._call.call_id,
            name=self._call.name,
            args=self._call.args,
            effect=tool.effect,
            risk=tool.risk,
            ordinal=self._ordinal,
            of=self._of,
        )
        asked, word = await self._ask_all(turns, tool, call)
        patches = self._take()
        if not patches and asked.args is call.args and word.strength == Strength.LEAVE:
            return None
        decided = decision(word, asked.args, patches, self._take_issues())
        self._keep(decided.patches)
        self._record("decide", decided)
        return decided

    async def _ask_all(
        self, turns: Sequence[HostedTurn], tool: Tool, call: AskedCall
    ) -> tuple[AskedCall, Word]:
        words: dict[str, Word] = {}
        replaced_by, at = "", 0
        while at < len(turns):
            at, said = await self._before(turns, at, call)
            if said is None:
                break
            turn = turns[at]
            at += 1
            if not isinstance(said, ReplaceArgs):
                words[turn.name] = word_of(said, turn.name)
                continue
            if replaced_by:
                return call, self._conflict(replaced_by, turn.name, "arguments")
            refusal = _not_fitting(tool, said, turn.name)
            if refusal is not None:
                return call, Word(Strength.DENIAL, refusal, turn.name)
            replaced_by = turn.name
            call = msgspec.structs.replace(call, args=said.args)
            conflict = await self._ask_again(turns[: at - 1], call, words, turn.name)
            if conflict is not None:
                return call, conflict
        return call, self._strongest([words[turn.name] for turn in turns if turn.name in words])

    async def _ask_again(
        self, earlier: Sequence[HostedTurn], call: AskedCall, words: dict[str, Word], by: str
    ) -> Word | None:
        """Show a call with other arguments to the plugins that have seen it with the old ones."""
        for turn in earlier:
            _, again = await self._before((turn,), 0, call)
            if isinstance(again, ReplaceArgs):
                return self._conflict(turn.name, by, "arguments")
            first = words.get(turn.name, NO_WORD)
            words[turn.name] = second_word(first, word_of(again, turn.name))
        return None

    def _strongest(self, words: list[Word]) -> Word:
        strongest = reduce(stronger, words, NO_WORD)
        results = [word.plugin for word in words if word.strength == Strength.RESULT]
        if len(results) > 1 and strongest.strength < Strength.DENIAL:
            return self._conflict(results[0], results[1], "result")
        return strongest

    async def _before(
        self, turns: Sequence[HostedTurn], at: int, call: AskedCall
    ) -> tuple[int, Any]:
        try:
            return await self._hooks.ask_from(turns, at, "before_tool", self._where, call)
        except PluginFault as fault:
            self._note(f"{fault}; {call.name} was denied", "plugin_failed")
            at = next(place for place, turn in enumerate(turns) if turn.name == fault.plugin)
            return at, Deny(reason=f"Not run: {fault}.")

    def _conflict(self, first: str, second: str, what: str) -> Word:
        text = f"the plugins {first} and {second} both replaced its {what}"
        self._note(f"{text}; {self._call.name} was not run", "plugin_conflict")
        return Word(Strength.DENIAL, Deny(reason=f"Not run: {text}."), second)

    # ------------------------------------------------------------------ after

    async def present(self, ended: CompletedToolCall) -> CompletedToolCall:
        """Return a call as the turn has it once plugins have seen its result."""
        known = self._known("presented")
        if isinstance(known, CallPresented):
            self._take_up(known)
            self.ends = known.ends
            self.is_presented = True
            return msgspec.structs.replace(ended, outcome=known.outcome)
        if self._hand.was_passed(self._effect_id):
            self.is_presented = True
            return ended
        self._hand.go_live()
        presented = await self._present(ended)
        patches, issues = self._take(), self._take_issues()
        self.is_presented = True
        self.ends = presented.ends
        is_same = presented.outcome is ended.outcome and presented.ends is None
        if is_same and not patches and not issues:
            return ended
        moment = CallPresented(
            outcome=presented.outcome, patches=patches, ends=presented.ends, issues=issues
        )
        self._keep(moment.patches)
        self._record("presented", moment, self._hand.take_blobs(moment.outcome))
        return msgspec.structs.replace(ended, outcome=moment.outcome)

    async def _present(self, ended: CompletedToolCall) -> Presented:
        ends: Outcome | None = None
        try:
            ended = await self._after(ended)
            if ended.outcome.status in FAILED:
                ended, ends = await self._on_error(ended)
            turns = self._having("present_result")
            if turns:
                _, shown = await self._ask(turns, 0, "present_result", ended)
                if shown is not None:
                    ended = _with(ended, msgspec.structs.replace(ended.outcome, shown=shown))
        except PluginFault as fault:
            self._note(f"{fault}; a result was withheld", "plugin_failed")
            return Presented(withheld(ended.outcome, f"{fault}."), ends)
        return Presented(ended.outcome, ends)

    async def _after(self, ended: CompletedToolCall) -> CompletedToolCall:
        turns, at, replaced_by = self._having("after_tool"), 0, ""
        while at < len(turns):
            at, said = await self._ask(turns, at, "after_tool", ended)
            if said is None:
                break
            turn = turns[at]
            at += 1
            if isinstance(said, Deny):
                why = said.reason or f"by the plugin {turn.name}."
                return _with(ended, withheld(ended.outcome, why))
            if said == ended.outcome:
                continue
            if replaced_by:
                return self._withheld_for(replaced_by, turn.name, ended)
            replaced_by = turn.name
            ended = _with(ended, said)
            hidden = await self._after_again(turns[: at - 1], ended, turn.name)
            if hidden is not None:
                return hidden
        return ended

    async def _after_again(
        self, earlier: Sequence[HostedTurn], ended: CompletedToolCall, by: str
    ) -> CompletedToolCall | None:
        """Show another result to the plugins that had seen the old one; only what restricts counts."""
        for turn in earlier:
            _, again = await self._ask((turn,), 0, "after_tool", ended)
            if isinstance(again, Deny):
                why = again.reason or f"by the plugin {turn.name}."
                return _with(ended, withheld(ended.outcome, why))
            if again is not None and again != ended.outcome:
                return self._withheld_for(turn.name, by, ended)
        return None

    def _withheld_for(self, first: str, second: str, ended: CompletedToolCall) -> CompletedToolCall:
        text = f"the plugins {first} and {second} both replaced it"
        self._note(f"{text}: a result of {self._call.name}", "plugin_conflict")
        return _with(ended, withheld(ended.outcome, f"{text}."))

    async def _on_error(self, ended: CompletedToolCall) -> tuple[CompletedToolCall, Outcome | None]:
        retry: Retry | None = None
        trouble = Trouble(kind="tool", call=ended)
        for turn in self._having("on_error"):
            try:
                _, said = await self._ask((turn,), 0, "on_error", trouble)
            except PluginFault as fault:
                self._note(str(fault), "plugin_failed")
                continue
            if isinstance(said, Stop):
                return ended, self._hooks.stopped(said, "tool_failure", turn)
            if isinstance(said, Retry) and retry is None:
                retry = said
        if retry is not None and retry.prompt:
            ended = _with(ended, with_part(ended.outcome, Text(text=retry.prompt)))
        return ended, None

    def hidden(self, ended: CompletedToolCall) -> CompletedToolCall:
        """Return a call whose result no plugin has looked at, as it may be shown."""
        why = "the turn was cancelled before it was looked at."
        return _with(ended, withheld(ended.outcome, why))

    # ------------------------------------------------------------------ inside

    def _having(self, hook: str) -> tuple[HostedTurn, ...]:
        """Return the plugins with this hook, each with a turn of its own if calls run side by side."""
        if self._is_alone:
            return self._hooks.having(hook)
        own = self._own
        return tuple(
            [own.get(turn.name) or self._set_apart(turn) for turn in self._hooks.having(hook)]
        )

    def _set_apart(self, turn: HostedTurn) -> HostedTurn:
        own = self._own[turn.name] = self._hooks.apart(turn, self._changed)
        for patches in self.patches:
            own.see(patches.get(turn.name, EMPTY_DICT))
        return own

    async def _ask(
        self, turns: Sequence[HostedTurn], at: int, hook: str, given: object
    ) -> tuple[int, Any]:
        return await self._hooks.ask_from(turns, at, hook, self._where, given)

    def _take(self) -> dict[str, Any]:
        """Return all that hooks changed, for the moment that is about to be recorded."""
        if self._is_alone:
            return dict(self._hooks.take())  # it holds already
        changed = dict(self._changed)
        self._changed.clear()  # the call's own turns go on collecting here
        return changed

    def _keep(self, patches: Patches) -> None:
        """Let what was recorded be folded at the batch's end; alone, it holds already."""
        if not self._is_alone:
            self.patches.append(patches)

    def _note(self, message: str, code: str) -> None:
        self._issues.append(self._hand.note_issue(message, code))

    def _take_issues(self) -> tuple[Error, ...]:
        issues, self._issues = self._issues, []
        return tuple(issues)

    def _take_up(self, known: CallDecided | CallPresented) -> None:
        if self._is_alone:
            self._hooks.states.apply(known.patches)
        else:
            self.patches.append(known.patches)
        for issue in known.issues:
            self._hand.note(issue)

    def _known(self, moment: str) -> RecordedMoment | None:
        if self._hand.journal is None:
            return None
        row = self._hand.row(f"{self._keyed('?').key}/{moment}")
        return None if row is None else row.outcome

    def _keyed(self, subject: str) -> Keyed:
        command = ToolHooksCommand(
            call_id=self._call.call_id, name=self._call.name, subject=subject
        )
        return self._hand.keyed(command, str(self._effect_id), ordinal=self._ordinal)

    def _record(self, moment: str, outcome: RecordedMoment, blobs: tuple[str, ...] = ()) -> None:
        asked = self._keyed(canonical.digest(self._call.args))
        entry = Recorded(
            key=f"{asked.key}/{moment}",
            outcome=outcome,
            command=asked.written,
        )
        self._hand.lane.add(entry, blobs=blobs)


def _with(ended: CompletedToolCall, outcome: ToolOutcome) -> CompletedToolCall:
    return msgspec.structs.replace(ended, outcome=outcome)


def withheld(outcome: ToolOutcome, why: str) -> ToolOutcome:
    """Return an outcome of which nothing is shown but that it is there."""
    return ToolOutcome(status=outcome.status, value=WITHHELD.format(why=why))


def _not_fitting(tool: Tool, said: ReplaceArgs, plugin: str) -> Deny | None:
    try:
        tool.check(said.args)
    except ArgsInvalid as error:
        return Deny(reason=f"Not run: the arguments by the plugin {plugin} do not fit: {error}")
    return None
