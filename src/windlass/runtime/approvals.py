"""Approvals: may this call run? Policy first, then a person if policy or tool say so.

Law 1. A denial is stronger than a question, and a question stronger than permission, no matter who gives it.
Law 2. An approval is bound to the tool, its effective arguments and the policy's version. Any other of these is another
    wait, and the old one is void.
Law 3. No answer in time is a denial.
Law 4. What a tool shows of a call is asked for once, when the question opens, and decides nothing: without it the question
    is the same.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from windlass.errors import ArgsInvalid, ToolDenied, WindlassError
from windlass.guards.secret import REGISTERED
from windlass.guards.text import check_text, clean_text, words_of
from windlass.journal import CallDecided, EventAwaited
from windlass.journal.commands import AwaitEventCommand
from windlass.kernel import Json, PendingToolCall, canonical
from windlass.ports import Tool, ToolContext, WaitAnswer, WaitView
from windlass.ports.policy import Allow, Ask, Deny, PolicyCall, PolicySession, Ruling, ToolPolicy
from windlass.runtime.body import RUNS_IN
from windlass.runtime.session_memory import call_digest
from windlass.runtime.turn import Turn
from windlass.runtime.turn_start import policy_version
from windlass.tools.arguments import effective_args

_ALLOW = Allow()
_RISKS = ("low", "medium", "high")
NOBODY = "Nobody answered in time, so it was not allowed."
# Enough for a diff that a person would still read, and for a function that reads files.
_PREVIEW_CHARS = 64 * 1024
_PREVIEW_S = 10.0
VOID = "The question was withdrawn, so it was not allowed."


class AskAgain(Ask, frozen=True):
    """A question about a call that may have acted already: no earlier answer covers it."""


class Permit(NamedTuple):
    """A person's permission to run a call with these arguments; `wait` is the approval that its claim uses up."""

    args: dict[str, Any]
    wait: WaitView
    answer: EventAwaited

    @property
    def note(self) -> str:
        """What the model is told if the person changed the arguments."""
        if not _edit(self.answer):
            return ""
        by = f" ({self.answer.by})" if self.answer.by else ""
        return (
            f"(The approver{by} changed the arguments before it ran; it ran with the changed ones.)"
        )


def need_no_ruling(turn: Turn, tool: Tool) -> bool:
    """Whether nothing could object to a call of this tool: no policy, no question, no call that may have acted."""
    return (
        turn.program.policy is None
        and tool.approval == "never"
        and not (turn.waits or turn.unknown_calls or turn.memory.unknown_calls)
    )


class Approvals:
    """Decides on the calls of one turn."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    async def rule(
        self, tool: Tool, call: PendingToolCall, args: Mapping[str, Any], wanted: Ask | None = None
    ) -> Ruling:
        """Return what policy and tool say to a call with these arguments; plugins may want a person asked."""
        turn = self._turn
        asked = await self._policy(tool, call, args)
        if isinstance(asked, Deny):
            return asked
        if asked is _ALLOW and tool.approval != "never":
            try:
                needs = await tool.needs_approval(self._context(call), args)
            except BaseException as error:
                if _ends_the_turn(error):
                    raise
                # A question that fails is still a question.
                name = type(error).__name__
                turn.note_issue(f"the approval of {call.name} raised {name}", "policy_failed")
                needs = True
            if needs:
                asked = Ask(risk=tool.risk)
        if self._may_have_acted(tool, call):
            # What was allowed for the session was not allowed for a second time.
            return AskAgain(title=f"{call.name} may have acted already; run it again?", risk="high")
        asks = [one for one in (asked, wanted) if isinstance(one, Ask)]
        unanswered = [one for one in asks if not self._is_remembered(one, call.name)]
        if not unanswered:
            return _ALLOW
        risk = max((one.risk for one in unanswered), key=_RISKS.index)
        return msgspec.structs.replace(unanswered[0], risk=risk)

    async def _policy(self, tool: Tool, call: PendingToolCall, args: Mapping[str, Any]) -> Ruling:
        policy = self._turn.program.policy
        if policy is None:
            return _ALLOW
        try:
            return await self._decided(policy, tool, call, args)
        except BaseException as error:
            if _ends_the_turn(error):
                raise
            # A policy that fails, in whatever way, has allowed nothing.
            name = type(error).__name__
            self._turn.note_issue(
                f"the policy raised {name}; {call.name} was denied", "policy_failed"
            )
            return Deny(reason=f"The policy failed with {name}, which allows nothing.")

    async def _decided(
        self, policy: ToolPolicy, tool: Tool, call: PendingToolCall, args: Mapping[str, Any]
    ) -> Ruling:
        turn = self._turn
        found = policy.decide(
            PolicyCall(
                call_id=call.call_id,
                name=call.name,
                args=dict(args),
                effect=tool.effect,
                risk=tool.risk,
            ),
            PolicySession(
                session_id=turn.session_id,
                turn_id=turn.turn_id,
                agent=turn.program.name,
                context=turn.request.context,
            ),
        )
        ruling = await found if inspect.isawaitable(found) else found
        if isinstance(ruling, Allow):
            return _ALLOW
        if isinstance(ruling, Deny):
            check_text(ruling.reason, field="Deny.reason")
            return ruling
        if isinstance(ruling, Ask) and ruling.risk in _RISKS:
            check_text(ruling.title, field="Ask.title")
            check_text(ruling.action_key or "", field="Ask.action_key")
            return ruling
        # A policy that says something else says nothing that would allow it.
        return Deny(reason=f"The policy answered {type(ruling).__name__}, which allows nothing.")

    def _is_remembered(self, asked: Ask, name: str) -> bool:
        action = action_key(asked, name)
        return action in self._turn.memory.remembered or action in self._turn.remembered

    def _may_have_acted(self, tool: Tool, call: PendingToolCall) -> bool:
        """Whether an equal call has an unknown outcome: one that would do the same, however either was spelled."""
        turn = self._turn
        if not (turn.memory.unknown_calls or turn.unknown_calls):
            return False
        # Histories from before effective arguments were kept know calls only as the model spelled them.
        digests = {
            call_digest(call.name, args) for args in (call.args, effective_args(tool, call.args))
        }
        return not digests.isdisjoint(turn.memory.unknown_calls | turn.unknown_calls)

    async def question(self, asked: Ask, tool: Tool, call: PendingToolCall, about: str) -> WaitView:
        """Open the wait for a person's answer, or return it as it stands."""
        turn = self._turn
        version = policy_version(turn.program)
        digest = canonical.digest([call.name, call.args, version])
        known = turn.waits.get(turn.wait_key(about, digest))
        if known is not None:
            return known
        risk = max(asked.risk, tool.risk, key=_RISKS.index)
        detail: dict[str, Json] = {
            "tool": call.name,
            "args": call.args,
            "risk": risk,
            "effect": tool.effect,
            "action_key": action_key(asked, call.name),
            "policy_version": version,
            # A store keeps the names sorted; a person reads them as the tool has them.
            "order": list(tool.spec.parameters.get("properties", ())),
        }
        # What the model left out runs, too.
        effective = effective_args(tool, call.args)
        defaults = {
            name: value
            for name, value in effective.items()
            if name not in call.args and value is not None
        }
        if defaults:
            detail["defaults"] = defaults
        if isinstance(asked, AskAgain):
            detail["may_have_acted"] = True
        preview = await self._preview(tool, call, effective)
        if preview:
            detail["preview"] = preview
        seconds, now_ms = turn.limits.approval_timeout, turn.services.clock.now_ms()
        return turn.open_wait(
            "approval",
            about=about,
            digest=digest,
            title=asked.title or f"Run {call.name}?",
            detail=detail,
            call_id=call.call_id,
            expires_ms=None if seconds is None else now_ms + int(seconds * 1000),
        )

    async def _preview(self, tool: Tool, call: PendingToolCall, args: dict[str, Any]) -> str:
        """Return what the tool says the call would do; empty if it does not say. The question is the same without it."""
        preview = getattr(tool, "preview", None)
        if preview is None:
            return ""
        asked = asyncio.get_running_loop().create_task(_apart(preview, self._context(call), args))
        try:
            await asyncio.wait((asked,), timeout=_PREVIEW_S)
            if not asked.done():
                return f"(no preview: it was not there within {_PREVIEW_S:g} s)"
            return _within_limit(asked.result() or "")
        except BaseException as error:
            if _ends_the_turn(error):
                raise
            # windlass writes its errors for readers; the text of another one may hold anything.
            words = words_of(error) if isinstance(error, WindlassError) else type(error).__name__
            return _within_limit(f"(no preview: {words})")
        finally:
            # The question does not wait for it any longer, and what it still returns is dropped.
            asked.cancel()
            asked.add_done_callback(lambda task: task.cancelled() or task.exception())

    def _context(self, call: PendingToolCall) -> ToolContext[Any]:
        turn = self._turn
        return ToolContext(
            deps=turn.deps,
            session_id=turn.session_id,
            turn_id=turn.turn_id,
            call_id=call.call_id,
        )

    async def void_others(self, call_id: str, keep: str) -> None:
        """Withdraw questions about this call that another policy or other arguments had asked."""
        turn = self._turn
        for key, view in tuple(turn.waits.items()):
            wait = view.wait
            if wait.kind != "approval" or wait.call_id != call_id or key == keep:
                continue
            if view.state == "open":
                answer = WaitAnswer(status="superseded", now_ms=turn.services.clock.now_ms())
                await turn.services.store.resolve_wait(key, answer)

    async def permit(
        self, answer: EventAwaited, tool: Tool, call: PendingToolCall, view: WaitView
    ) -> Permit:
        """Return what a person allowed.

        Raises:
            ToolDenied: they did not, no answer came, or the arguments that they wrote may not run.
        """
        if answer.status != "answered":
            raise ToolDenied(_why_not(answer))
        self.remember(answer, view)
        edit = _edit(answer)
        if not edit:
            return Permit(call.args, view, answer)
        args = {**edit}
        try:
            tool.check(args)
        except ArgsInvalid as error:
            raise ToolDenied(f"The arguments that the approver wrote do not fit: {error}") from None
        ruling = await self._policy(tool, call, args)
        if isinstance(ruling, Deny):
            raise ToolDenied(f"The arguments that the approver wrote are denied: {ruling.reason}")
        return Permit(args, view, answer)

    def given_before(self, decided: CallDecided, place: str) -> Permit | None:
        """Return the permission that a person gave before the crash, if one was asked; what it remembers is kept again."""
        turn = self._turn
        row = turn.row(turn.key("await_event", f"{place}.approval"))
        if row is None or not isinstance(row.command, AwaitEventCommand):
            return None
        view = turn.waits.get(row.command.wait_key)
        if view is None or not isinstance(row.outcome, EventAwaited):
            return None
        self.remember(row.outcome, view)
        return Permit(decided.args, view, row.outcome)

    def remember(self, answer: EventAwaited, view: WaitView) -> None:
        """Keep a decision for the rest of the session, if that is what the person said."""
        if answer.status == "answered" and _value(answer).get("remember") == "session":
            self._turn.remembered[view.wait.detail["action_key"]] = answer.by


async def _apart(
    preview: Callable[..., Awaitable[str | None]], ctx: ToolContext[Any], args: dict[str, Any]
) -> str | None:
    # A turn of the same session would wait for this one.
    RUNS_IN.set(ctx.session_id)
    return await preview(ctx, args)


def _within_limit(text: str) -> str:
    """Return a preview as it can be kept; where it is cut, no beginning of a secret is left."""
    more = len(text) - _PREVIEW_CHARS
    if more <= 0:
        return clean_text(REGISTERED.clean(text))
    kept = text[:_PREVIEW_CHARS]
    kept = REGISTERED.clean(kept[: REGISTERED.clean_length(kept)])
    return f"{clean_text(kept)}\n… {more:,} more characters"


def asked_by_plugins(decided: CallDecided) -> Ask | None:
    """Return the question that plugins want put to a person, if there is one.

    Raises:
        ToolDenied: they deny the call.
    """
    if decided.verdict == "deny":
        raise ToolDenied(decided.reason)
    if decided.verdict != "ask":
        return None
    return Ask(title=decided.reason, risk=decided.risk, action_key=decided.action_key)  # type: ignore[arg-type]  # a risk


def _ends_the_turn(error: BaseException) -> bool:
    """Whether what came out of user code is the end of the task it ran in, and not the code's own failure."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit)


def action_key(asked: Ask, name: str) -> str:
    """Return what a remembered decision covers."""
    return asked.action_key or name


def decided(permit: Permit, version: str) -> CallDecided:
    """Return the moment that records permission."""
    return CallDecided(verdict="allow", args=permit.args, policy_version=version)


def denied(reason: str, version: str) -> CallDecided:
    """Return the moment that records a denial."""
    return CallDecided(verdict="deny", reason=reason, policy_version=version)


def _value(answer: EventAwaited) -> dict[str, Any]:
    return answer.value if isinstance(answer.value, dict) else {}


def _edit(answer: EventAwaited) -> dict[str, Any]:
    edit = _value(answer).get("edit")
    return edit if isinstance(edit, dict) else {}


def _why_not(answer: EventAwaited) -> str:
    if answer.status == "expired":
        return NOBODY
    if answer.status == "superseded":
        return VOID
    reason = _value(answer).get("reason") or answer.value
    by = f" by {answer.by}" if answer.by else ""
    return f"Denied{by}: {reason}" if isinstance(reason, str) and reason else f"Denied{by}."


def asked_of(ruling: Ruling) -> Ask:
    """Return what is to be asked, of a ruling that is not to allow the call.

    Raises:
        ToolDenied: it denies it.
    """
    if isinstance(ruling, Deny):
        raise ToolDenied(ruling.reason or "It is not allowed.")
    assert isinstance(ruling, Ask)  # noqa: S101 - the caller has seen that it is not allowed
    return ruling
