"""The hooks around one call: what plugins together make of it, whatever order they stand in.

Law 1. Of what plugins answer to a call the strongest holds: a denial, a result that says it failed, a question, a
    result, permission. Two of one strength: the first.
Law 2. Other arguments take effect at once, and every plugin before sees the call once more; only what restricts
    counts then. The same with another result.
Law 3. A second replacement by another plugin fails closed, and names both.
Law 4. A plugin that fails has allowed nothing and shown nothing.
Law 5. In a turn whose start record says so, each result is recorded as looked at once its hooks have run, also when they
    changed nothing, and when the turn's end keeps them from running. What is recorded so is not shown to them again.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import msgspec

from windlass.errors import ArgsInvalid
from windlass.journal import CallDecided, CallPresented, Recorded, ToolHooksCommand
from windlass.journal.redaction import cleaned
from windlass.kernel import Error, Outcome, Text, canonical
from windlass.kernel.tool_call import CompletedToolCall, PendingToolCall, ToolOutcome
from windlass.ports import Ask, AskedCall, Deny, ReplaceArgs, ShortCircuit, Stop, Tool, Trouble
from windlass.runtime.body import with_part
from windlass.runtime.hooked_turn import Patches, Place
from windlass.runtime.hooks import Hooks, Round, after_error, stopped
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


_NO_OBJECTION = CallDecided()


def verdict_of(said: object, plugin: str) -> CallDecided:
    """Return what a plugin answered to a call, as it is recorded."""
    if isinstance(said, Deny):
        reason = said.reason or f"The plugin {plugin} does not allow it."
        return CallDecided(verdict="deny", reason=reason)
    if isinstance(said, ShortCircuit):
        return CallDecided(verdict="short_circuit", outcome=as_outcome(said.result))
    if isinstance(said, Ask):
        risk, action_key = said.risk, said.action_key
        return CallDecided(verdict="ask", reason=said.title, risk=risk, action_key=action_key)
    return _NO_OBJECTION


def strength_of(verdict: CallDecided) -> Strength:
    """Return how strong a verdict is."""
    if verdict.outcome is not None:
        return Strength.RESULT if verdict.outcome.status == "ok" else Strength.FAILURE
    if verdict.verdict == "deny":
        return Strength.DENIAL
    return Strength.QUESTION if verdict.verdict == "ask" else Strength.PERMISSION


def second_verdict(first: CallDecided, second: CallDecided) -> CallDecided:
    """Return a plugin's verdict once it has seen other arguments.

    What restricts counts, then or now. A result that it gave for the old arguments is one only if it gives one again.
    """
    if strength_of(first) == Strength.RESULT:
        return second
    restricts = strength_of(second) > Strength.RESULT
    return max(first, second, key=strength_of) if restricts else first


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
        self._place = hooks.place if of == 1 else None
        self._where = f"{effect_id}.{ordinal}"
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
        asked = self._start("before_tool")
        if not asked:
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
        said = await self._before(asked, call)
        effective, verdict = call, _NO_OBJECTION
        if said is not None:
            effective, verdict = await self._weighed(asked, said, tool, call)
        patches, issues = self._take()
        if verdict is _NO_OBJECTION and not patches and effective.args is call.args:
            return None
        decided = cleaned(
            msgspec.structs.replace(verdict, args=effective.args, patches=patches, issues=issues)
        )
        self._record("decide", decided)
        return decided

    async def _weighed(
        self, asked: Round, said: object, tool: Tool, call: AskedCall
    ) -> tuple[AskedCall, CallDecided]:
        """Return the call and the verdict on it, now that a plugin has `said` the first word."""
        verdicts: dict[str, CallDecided] = {}
        replaced_by = ""
        while said is not None:
            name = asked.plugin
            if not isinstance(said, ReplaceArgs):
                verdicts[name] = verdict_of(said, name)
            elif replaced_by:
                return call, self._conflict(replaced_by, name, "arguments")
            else:
                refusal = _not_fitting(tool, said, name)
                if refusal is not None:
                    return call, verdict_of(refusal, name)
                replaced_by = name
                call = msgspec.structs.replace(call, args=said.args)
                conflict = await self._ask_again(asked.earlier(), call, verdicts, name)
                if conflict is not None:
                    return call, conflict
            said = await self._before(asked, call)
        in_order = {name: verdicts[name] for name in asked.names if name in verdicts}
        return call, self._strongest(in_order)

    async def _ask_again(
        self, earlier: Round, call: AskedCall, verdicts: dict[str, CallDecided], by: str
    ) -> CallDecided | None:
        """Show a call with other arguments to the plugins that have seen it with the old ones."""
        again = dict.fromkeys(earlier.names, _NO_OBJECTION)
        while (said := await self._before(earlier, call)) is not None:
            name = earlier.plugin
            if isinstance(said, ReplaceArgs):
                return self._conflict(name, by, "arguments")
            again[name] = verdict_of(said, name)
        for name, verdict in again.items():
            verdicts[name] = second_verdict(verdicts.get(name, _NO_OBJECTION), verdict)
        return None

    def _strongest(self, verdicts: dict[str, CallDecided]) -> CallDecided:
        """Return the strongest verdict; of two alike the first."""
        found = max((_NO_OBJECTION, *verdicts.values()), key=strength_of)
        results = [name for name, one in verdicts.items() if strength_of(one) == Strength.RESULT]
        if len(results) > 1 and strength_of(found) < Strength.DENIAL:
            return self._conflict(results[0], results[1], "result")
        return found

    async def _before(self, asked: Round, call: AskedCall) -> Any:  # noqa: ANN401 - as the hook answers
        try:
            return await asked.next(call)
        except PluginFault as fault:
            self._note(f"{fault}; {call.name} was denied")
            return Deny(reason=f"Not run: {fault}.")

    def _conflict(self, first: str, second: str, what: str) -> CallDecided:
        text = f"the plugins {first} and {second} both replaced its {what}"
        self._note(f"{text}; {self._call.name} was not run", "plugin_conflict")
        return CallDecided(verdict="deny", reason=f"Not run: {text}.")

    # ------------------------------------------------------------------ after

    async def present(self, ended: CompletedToolCall) -> CompletedToolCall:
        """Return a call as the turn has it once plugins have seen its result."""
        turn, outcome = self._turn, ended.outcome
        if turn.recovery is not None:
            known = self._known("presented")
            if isinstance(known, CallPresented):
                self._take_up(known)
                self.ends = known.ends
                self._end_aside()
            was_passed = turn.was_passed(self._effect_id)
            if known is not None or (was_passed and not self._hooks.records_looks("tools")):
                self.is_presented = True
                return ended if known is None else _with(ended, known.outcome)
        if self._is_to_be_seen(ended):
            turn.go_live()
            outcome = await self._seen(ended)
        changed = None if outcome is ended.outcome else outcome
        patches, issues = self._take()
        self.is_presented = True
        is_news = changed is not None or self.ends is not None or patches or issues
        if is_news or self._hooks.records_looks("tools"):
            moment = cleaned(
                CallPresented(outcome=changed, patches=patches, ends=self.ends, issues=issues)
            )
            changed = moment.outcome
            self._record("presented", moment, () if changed is None else turn.take_blobs(changed))
        return _with(ended, changed)

    def _is_to_be_seen(self, ended: CompletedToolCall) -> bool:
        """Whether a plugin looks at this result before it is shown."""
        plugins = self._hooks.plugins
        return plugins.sees_results or (
            ended.outcome.status in FAILED and bool(plugins.having("on_error"))
        )

    async def _seen(self, ended: CompletedToolCall) -> ToolOutcome:
        try:
            ended = await self._after(ended)
            if ended.outcome.status in FAILED:
                ended = await self._on_error(ended)
            shown = await self._start("present_result").next(ended)
            if shown is not None:
                return msgspec.structs.replace(ended.outcome, shown=shown)
        except PluginFault as fault:
            self._note(f"{fault}; a result was withheld")
            return withheld(ended.outcome, f"{fault}.")
        return ended.outcome

    async def _after(self, ended: CompletedToolCall) -> CompletedToolCall:
        asked, replaced_by = self._start("after_tool"), ""
        while (said := await asked.next(ended)) is not None:
            name = asked.plugin
            if isinstance(said, Deny):
                return _denied(ended, said, name)
            if said == ended.outcome:
                continue
            if replaced_by:
                return self._withheld_for(replaced_by, name, ended)
            replaced_by = name
            ended = _with(ended, said)
            hidden = await self._after_again(asked.earlier(), ended, name)
            if hidden is not None:
                return hidden
        return ended

    async def _after_again(
        self, earlier: Round, ended: CompletedToolCall, by: str
    ) -> CompletedToolCall | None:
        """Show another result to the plugins that had seen the old one; only what restricts counts."""
        while (again := await earlier.next(ended)) is not None:
            if isinstance(again, Deny):
                return _denied(ended, again, earlier.plugin)
            if again != ended.outcome:
                return self._withheld_for(earlier.plugin, by, ended)
        return None

    def _withheld_for(self, first: str, second: str, ended: CompletedToolCall) -> CompletedToolCall:
        text = f"the plugins {first} and {second} both replaced it"
        self._note(f"{text}: a result of {self._call.name}", "plugin_conflict")
        return _with(ended, withheld(ended.outcome, f"{text}."))

    async def _on_error(self, ended: CompletedToolCall) -> CompletedToolCall:
        trouble, asked = Trouble(kind="tool", call=ended), self._start("on_error")
        asked.about = self._where
        said, plugin = await after_error(asked, trouble, self._note)
        if isinstance(said, Stop):
            self.ends = stopped(said, "tool_failure", plugin)
        elif said is not None and said.prompt:
            ended = _with(ended, with_part(ended.outcome, Text(text=said.prompt)))
        return ended

    def unseen(self, ended: CompletedToolCall, *, is_by_tool: bool) -> CompletedToolCall:
        """Return a call as it may be shown now that no plugin looks at it any more, recorded so.

        What a tool said is withheld where a plugin was to look at it that could have taken something out of it.
        `on_error` only adds to a result, so without the others a failure is kept as it was recorded.
        """
        outcome = None
        if is_by_tool and self._hooks.plugins.sees_results:
            why = "the turn was cancelled before it was looked at."
            outcome = withheld(ended.outcome, why)
        self.is_presented = True
        if outcome is not None or self._hooks.records_looks("tools"):
            self._record("presented", CallPresented(outcome=outcome))
        return _with(ended, outcome)

    # ------------------------------------------------------------------ inside

    def _start(self, hook: str) -> Round:
        return self._hooks.start(hook, self._where, self._place or self._at())

    def _at(self) -> Place:
        """Return where hooks are asked about this call."""
        if self._place is None:
            self._place = self._hooks.place_aside()
        return self._place

    def _take(self) -> tuple[dict[str, Any], tuple[Error, ...]]:
        """Return all that hooks changed and noted, for the moment that is about to be recorded."""
        place = self._at()
        taken = place.take(), place.take_issues()
        if place.main is not None:
            self._end_aside()
        return taken

    def _end_aside(self) -> None:
        """Give the place back, unless the hooks that follow have to see what was changed there."""
        place = self._place
        if place is not None and place.main is not None and place.states is self._hooks.states:
            self._hooks.end_aside(place)
            self._place = None

    def _note(self, message: str, code: str = "plugin_failed") -> None:
        self._hooks.note(message, code, self._at())

    def _take_up(self, known: CallDecided | CallPresented) -> None:
        if known.patches:
            self._at().see(known.patches)
            self._fold_later(known.patches)
        for issue in known.issues:
            self._turn.note(issue)

    def _fold_later(self, patches: Patches) -> None:
        # Around a call alone they hold already.
        if patches and self._of > 1:
            self.patches.append(patches)

    def _known(self, moment: str) -> Any:  # noqa: ANN401 - a recorded moment
        row = self._turn.row(f"{self._key}/{moment}")
        return None if row is None else row.outcome

    @property
    def _key(self) -> str:
        return self._turn.key("tool_hooks", str(self._effect_id), self._ordinal)

    def _record(
        self, moment: str, outcome: CallDecided | CallPresented, blobs: tuple[str, ...] = ()
    ) -> None:
        turn, call = self._turn, self._call
        subject = canonical.digest(call.args)
        command = ToolHooksCommand(call_id=call.call_id, name=call.name, subject=subject)
        asked = Keyed(self._key, canonical.encode(command))
        self._fold_later(outcome.patches)
        entry = Recorded(key=f"{asked.key}/{moment}", outcome=outcome, command=asked.written)
        turn.lane.add(entry, blobs=blobs)


def _with(ended: CompletedToolCall, outcome: ToolOutcome | None) -> CompletedToolCall:
    return ended if outcome is None else msgspec.structs.replace(ended, outcome=outcome)


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
