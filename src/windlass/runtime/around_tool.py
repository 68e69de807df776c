"""The hooks around one call: what plugins together make of it, whatever order they stand in.

Law 1. Of what plugins answer to a call the strongest holds: a denial, a result that says it failed, a question, a
    result, permission. Two of one strength: the first.
Law 2. Other arguments take effect at once, and every plugin before sees the call once more; only what restricts
    counts then. The same with another result.
Law 3. A second replacement by another plugin fails closed, and names both.
Law 4. A plugin that fails has allowed nothing and shown nothing.
Law 5. In a turn whose start record says so, each result is recorded as looked at once its hooks have run, also when they
    changed nothing. What is recorded so is not shown to them again.

Length: the laws hold for what comes before a call and after it; in two files they could not be checked by reading.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from enum import IntEnum
from functools import partial
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
from windlass.journal.redaction import cleaned
from windlass.kernel import canonical
from windlass.kernel.events import Error
from windlass.kernel.messages import Text
from windlass.kernel.outcomes import Outcome
from windlass.kernel.tool_call import CompletedToolCall, PendingToolCall, ToolOutcome
from windlass.kernel.value import EMPTY_DICT
from windlass.ports.directives import Proceed, ReplaceArgs, ShortCircuit, Stop
from windlass.ports.plugin import AskedCall, Trouble
from windlass.ports.policy import Ask, Deny
from windlass.ports.tool import Tool
from windlass.runtime.body import with_part
from windlass.runtime.hooked_turn import BoundHook, Patches, Place
from windlass.runtime.hooks import Hooks
from windlass.runtime.turn import Keyed
from windlass.runtime.turn_signals import PluginFault
from windlass.tools import as_outcome

FAILED = ("error", "timeout", "unknown")
WITHHELD = "(Its result is withheld: {why})"


class Strength(IntEnum):
    """How strong a verdict is; a stronger one holds whatever order plugins stand in."""

    PERMISSION = 0
    RESULT = 1
    QUESTION = 2
    FAILURE = 3
    DENIAL = 4


class Verdict(NamedTuple):
    """What a plugin answered to a call, and how strong that is."""

    strength: Strength
    directive: Deny | ShortCircuit | Ask | Proceed
    plugin: str


_PROCEED = Proceed()
NO_VERDICT = Verdict(Strength.PERMISSION, _PROCEED, "")


def verdict_of(said: object, plugin: str) -> Verdict:
    """Return what a plugin answered, weighed."""
    if isinstance(said, Deny):
        return Verdict(Strength.DENIAL, said, plugin)
    if isinstance(said, ShortCircuit):
        is_failed = isinstance(said.result, ToolOutcome) and said.result.status != "ok"
        return Verdict(Strength.FAILURE if is_failed else Strength.RESULT, said, plugin)
    if isinstance(said, Ask):
        return Verdict(Strength.QUESTION, said, plugin)
    return Verdict(Strength.PERMISSION, _PROCEED, plugin)


def strongest(*verdicts: Verdict) -> Verdict:
    """Return the strongest verdict; of two alike the first."""
    return max(verdicts, key=lambda one: one.strength)


def second_verdict(first: Verdict, second: Verdict) -> Verdict:
    """Return a plugin's verdict once it has seen other arguments.

    What restricts counts, then or now. A result that it gave for the old arguments is one only if it gives one again.
    """
    if first.strength == Strength.RESULT:
        return second
    return strongest(first, second) if second.strength > Strength.RESULT else first


def decision(
    verdict: Verdict, args: dict[str, Any], patches: dict[str, Any], issues: tuple[Error, ...]
) -> CallDecided:
    """Return the moment that records a verdict."""
    said, decided = verdict.directive, CallDecided(args=args, patches=patches, issues=issues)
    change = partial(msgspec.structs.replace, decided)
    if isinstance(said, Deny):
        reason = said.reason or f"The plugin {verdict.plugin} does not allow it."
        return change(verdict="deny", reason=reason)
    if isinstance(said, ShortCircuit):
        return change(verdict="short_circuit", outcome=as_outcome(said.result))
    if isinstance(said, Ask):
        about = {"risk": said.risk, "action_key": said.action_key}
        return change(verdict="ask", reason=said.title, **about)
    return decided


class CallHooks:
    """Asks the plugins about one call, before it runs and after it ended."""

    def __init__(
        self, hooks: Hooks, call: PendingToolCall, effect_id: int, ordinal: int, of: int
    ) -> None:
        self._hooks = hooks
        self._turn = hooks.turn
        self._call = call
        self._effect_id = effect_id
        self._ordinal = ordinal
        self._of = of
        # Calls that run side by side do not see each other's changes: while hooks are asked about this one, and from the
        # first change on, it has a place of its own.
        self._is_alone = of == 1
        self._aside: Place | None = None
        self._where = f"{effect_id}.{ordinal}"
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
        """Return what plugins decided, recorded; None: none of them objects, and nothing changed."""
        bound = self._having("before_tool")
        if not bound:
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
        asked, verdict = await self._ask_all(bound, tool, call)
        patches = self._take()
        self._end_aside()
        if not patches and asked.args is call.args and verdict.strength == Strength.PERMISSION:
            return None
        decided = cleaned(decision(verdict, asked.args, patches, self._take_issues()))
        self._keep(decided.patches)
        self._record("decide", decided)
        return decided

    async def _ask_all(
        self, bound: Sequence[BoundHook], tool: Tool, call: AskedCall
    ) -> tuple[AskedCall, Verdict]:
        verdicts: dict[str, Verdict] = {}
        replaced_by, at = "", 0
        while at < len(bound):
            at, said = await self._before(bound, at, call)
            if said is None:
                break
            name = bound[at].name
            at += 1
            if not isinstance(said, ReplaceArgs):
                verdicts[name] = verdict_of(said, name)
                continue
            if replaced_by:
                return call, self._conflict(replaced_by, name, "arguments")
            refusal = _not_fitting(tool, said, name)
            if refusal is not None:
                return call, Verdict(Strength.DENIAL, refusal, name)
            replaced_by = name
            call = msgspec.structs.replace(call, args=said.args)
            conflict = await self._ask_again(bound[: at - 1], call, verdicts, name)
            if conflict is not None:
                return call, conflict
        if not verdicts:
            return call, NO_VERDICT
        return call, self._strongest([verdicts[one.name] for one in bound if one.name in verdicts])

    async def _ask_again(
        self,
        earlier: Sequence[BoundHook],
        call: AskedCall,
        verdicts: dict[str, Verdict],
        by: str,
    ) -> Verdict | None:
        """Show a call with other arguments to the plugins that have seen it with the old ones."""
        for one in earlier:
            _, again = await self._before((one,), 0, call)
            if isinstance(again, ReplaceArgs):
                return self._conflict(one.name, by, "arguments")
            first = verdicts.get(one.name, NO_VERDICT)
            verdicts[one.name] = second_verdict(first, verdict_of(again, one.name))
        return None

    def _strongest(self, verdicts: list[Verdict]) -> Verdict:
        found = strongest(NO_VERDICT, *verdicts)
        results = [one.plugin for one in verdicts if one.strength == Strength.RESULT]
        if len(results) > 1 and found.strength < Strength.DENIAL:
            return self._conflict(results[0], results[1], "result")
        return found

    async def _before(
        self, bound: Sequence[BoundHook], at: int, call: AskedCall
    ) -> tuple[int, Any]:
        try:
            return await self._hooks.ask_from(bound, at, "before_tool", self._where, call)
        except PluginFault as fault:
            self._note(f"{fault}; {call.name} was denied", "plugin_failed")
            at = next(number for number, one in enumerate(bound) if one.name == fault.plugin)
            return at, Deny(reason=f"Not run: {fault}.")

    def _conflict(self, first: str, second: str, what: str) -> Verdict:
        text = f"the plugins {first} and {second} both replaced its {what}"
        self._note(f"{text}; {self._call.name} was not run", "plugin_conflict")
        return Verdict(Strength.DENIAL, Deny(reason=f"Not run: {text}."), second)

    # ------------------------------------------------------------------ after

    async def present(self, ended: CompletedToolCall) -> CompletedToolCall:
        """Return a call as the turn has it once plugins have seen its result."""
        presented = await self._presented(ended)
        self.is_presented = True
        self._end_aside()
        return presented

    async def _presented(self, ended: CompletedToolCall) -> CompletedToolCall:
        known = self._known("presented")
        if isinstance(known, CallPresented):
            self._take_up(known)
            self.ends = known.ends
            return ended if known.outcome is None else _with(ended, known.outcome)
        if self._turn.was_passed(self._effect_id):
            return ended
        if self._is_to_be_seen(ended):
            self._turn.go_live()
        outcome = await self._seen(ended)
        changed = None if outcome is ended.outcome else outcome
        patches, issues = self._take(), self._take_issues()
        is_the_same = changed is None and self.ends is None and not patches and not issues
        if is_the_same and not self._hooks.records_looks("tools"):
            return ended
        moment = cleaned(
            CallPresented(outcome=changed, patches=patches, ends=self.ends, issues=issues)
        )
        self._keep(moment.patches)
        self._record("presented", moment, () if changed is None else self._turn.take_blobs(changed))
        return ended if moment.outcome is None else _with(ended, moment.outcome)

    def _is_to_be_seen(self, ended: CompletedToolCall) -> bool:
        """Whether a plugin looks at this result before it is shown."""
        having = self._hooks.having
        if having("after_tool") or having("present_result"):
            return True
        return ended.outcome.status in FAILED and bool(having("on_error"))

    async def _seen(self, ended: CompletedToolCall) -> ToolOutcome:
        try:
            ended = await self._after(ended)
            if ended.outcome.status in FAILED:
                ended = await self._on_error(ended)
            bound = self._having("present_result")
            if bound:
                _, shown = await self._ask(bound, 0, "present_result", ended)
                if shown is not None:
                    return msgspec.structs.replace(ended.outcome, shown=shown)
        except PluginFault as fault:
            self._note(f"{fault}; a result was withheld", "plugin_failed")
            return withheld(ended.outcome, f"{fault}.")
        return ended.outcome

    async def _after(self, ended: CompletedToolCall) -> CompletedToolCall:
        bound, at, replaced_by = self._having("after_tool"), 0, ""
        while at < len(bound):
            at, said = await self._ask(bound, at, "after_tool", ended)
            if said is None:
                break
            name = bound[at].name
            at += 1
            if isinstance(said, Deny):
                return _denied(ended, said, name)
            if said == ended.outcome:
                continue
            if replaced_by:
                return self._withheld_for(replaced_by, name, ended)
            replaced_by = name
            ended = _with(ended, said)
            hidden = await self._after_again(bound[: at - 1], ended, name)
            if hidden is not None:
                return hidden
        return ended

    async def _after_again(
        self, earlier: Sequence[BoundHook], ended: CompletedToolCall, by: str
    ) -> CompletedToolCall | None:
        """Show another result to the plugins that had seen the old one; only what restricts counts."""
        for one in earlier:
            _, again = await self._ask((one,), 0, "after_tool", ended)
            if isinstance(again, Deny):
                return _denied(ended, again, one.name)
            if again is not None and again != ended.outcome:
                return self._withheld_for(one.name, by, ended)
        return None

    def _withheld_for(self, first: str, second: str, ended: CompletedToolCall) -> CompletedToolCall:
        text = f"the plugins {first} and {second} both replaced it"
        self._note(f"{text}: a result of {self._call.name}", "plugin_conflict")
        return _with(ended, withheld(ended.outcome, f"{text}."))

    async def _on_error(self, ended: CompletedToolCall) -> CompletedToolCall:
        trouble, note = Trouble(kind="tool", call=ended), partial(self._note, code="plugin_failed")
        place = self._place()
        said, plugin = await self._hooks.ask_on_error(trouble, self._where, note, place)
        if isinstance(said, Stop):
            self.ends = self._hooks.stopped(said, "tool_failure", plugin)
        elif said is not None and said.prompt:
            ended = _with(ended, with_part(ended.outcome, Text(text=said.prompt)))
        return ended

    def hidden(self, ended: CompletedToolCall) -> CompletedToolCall:
        """Return a call whose result no plugin has looked at, as it may be shown."""
        if not self._is_to_be_seen(ended):
            return ended
        why = "the turn was cancelled before it was looked at."
        return _with(ended, withheld(ended.outcome, why))

    # ------------------------------------------------------------------ inside

    def _having(self, hook: str) -> tuple[BoundHook, ...]:
        return self._hooks.having(hook, self._place())

    def _place(self) -> Place | None:
        """Return where hooks are asked about this call; None: where the turn's other hooks are."""
        if self._aside is None and not self._is_alone:
            self._aside = self._hooks.place_aside()
        return self._aside

    def _end_aside(self) -> None:
        """Give the place back, unless the hooks that follow have to see what was changed there."""
        if self._aside is not None and self._aside.states is self._hooks.states:
            self._hooks.end_aside(self._aside)
            self._aside = None

    def _ask(
        self, bound: Sequence[BoundHook], at: int, hook: str, given: object
    ) -> Awaitable[tuple[int, Any]]:
        return self._hooks.ask_from(bound, at, hook, self._where, given)

    def _take(self) -> dict[str, Any]:
        """Return all that hooks changed, for the moment that is about to be recorded."""
        if self._is_alone:
            return self._hooks.take()
        if self._aside is None:
            return EMPTY_DICT
        changed, self._aside.aside = self._aside.aside or {}, {}
        return changed

    def _keep(self, patches: Patches) -> None:
        """Note what was recorded, to be folded at the batch's end; around a call alone it holds already."""
        if patches and not self._is_alone:
            self.patches.append(patches)

    def _note(self, message: str, code: str) -> None:
        self._issues.append(self._turn.note_issue(message, code))

    def _take_issues(self) -> tuple[Error, ...]:
        issues, self._issues = self._issues, []
        return tuple(issues)

    def _take_up(self, known: CallDecided | CallPresented) -> None:
        if known.patches:
            self._hooks.see(known.patches, self._place())
            self._keep(known.patches)
        for issue in known.issues:
            self._turn.note(issue)

    def _known(self, moment: str) -> RecordedMoment | None:
        if self._turn.journal is None:
            return None
        row = self._turn.row(f"{self._keyed('?').key}/{moment}")
        return None if row is None else row.outcome

    def _keyed(self, subject: str) -> Keyed:
        call = self._call
        command = ToolHooksCommand(call_id=call.call_id, name=call.name, subject=subject)
        return self._turn.keyed(command, str(self._effect_id), ordinal=self._ordinal)

    def _record(self, moment: str, outcome: RecordedMoment, blobs: tuple[str, ...] = ()) -> None:
        asked = self._keyed(canonical.digest(self._call.args))
        entry = Recorded(
            key=f"{asked.key}/{moment}",
            outcome=outcome,
            command=asked.written,
        )
        self._turn.lane.add(entry, blobs=blobs)


def _with(ended: CompletedToolCall, outcome: ToolOutcome) -> CompletedToolCall:
    return msgspec.structs.replace(ended, outcome=outcome)


def _denied(ended: CompletedToolCall, by: Deny, plugin: str) -> CompletedToolCall:
    return _with(ended, withheld(ended.outcome, by.reason or f"by the plugin {plugin}."))


def withheld(outcome: ToolOutcome, why: str) -> ToolOutcome:
    """Return an outcome of which nothing is shown but its status."""
    return ToolOutcome(status=outcome.status, value=WITHHELD.format(why=why))


def _not_fitting(tool: Tool, said: ReplaceArgs, plugin: str) -> Deny | None:
    try:
        tool.check(said.args)
    except ArgsInvalid as error:
        return Deny(reason=f"Not run: the arguments by the plugin {plugin} do not fit: {error}")
    return None
