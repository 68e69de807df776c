"""Who decides whether a call may run: the policy, asked before every call that is not answered yet, and `approve=`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import msgspec

from windlass.kernel.value import EMPTY_DICT, JsonValue
from windlass.ports.waits import Wait

Risk: TypeAlias = Literal["low", "medium", "high"]


class Allow(msgspec.Struct, frozen=True):
    """The call may run."""


class Deny(msgspec.Struct, frozen=True):
    """The call may not run; the model is told why.

    Attributes:
        reason: Why not, in words that the model reads.
    """

    reason: str = ""


class Ask(msgspec.Struct, frozen=True):
    """A person decides. `action_key` names what a remembered decision covers; None: this tool.

    Attributes:
        title: What the person is asked; empty asks with the tool's name.
        risk: How bad a wrong yes would be: `low`, `medium` (the default) or `high`.
        action_key: What a remembered decision covers; None: this tool, with any arguments.
    """

    title: str = ""
    risk: Risk = "medium"
    action_key: str | None = None


Ruling: TypeAlias = Allow | Deny | Ask


class PolicyCall(JsonValue, kw_only=True):
    """The call that a policy is asked about: its effective arguments, and how the tool is declared."""

    json_fields: ClassVar[tuple[str, ...]] = ("args",)

    call_id: str
    name: str
    args: dict[str, Any] = EMPTY_DICT
    effect: str = "once"
    risk: Risk = "low"


class PolicySession(JsonValue, kw_only=True):
    """Where the call is asked for."""

    json_fields: ClassVar[tuple[str, ...]] = ("context",)

    session_id: str
    turn_id: str
    agent: str
    context: dict[str, Any] = EMPTY_DICT


class ToolPolicy(Protocol):
    """Decides on calls. Another `version` voids the approvals that are still open.

    Attributes:
        version: Which edition of the rules decides; change it with the rules.
    """

    @property
    def version(self) -> str: ...

    def decide(self, call: PolicyCall, session: PolicySession) -> Ruling | Awaitable[Ruling]:
        """Decide on one call: `Allow()`, `Deny(reason)` or `Ask(title)`; sync or async.

        Args:
            call: The call as it would run: the tool, its arguments and how it is declared.
            session: The session and the turn that it is asked for in.
        """
        ...


class Approve(msgspec.Struct, frozen=True, kw_only=True):
    """What an `approve=` function returns to allow a call and to say more than True does.

    Args:
        edit: Other arguments to run the call with, all of them.
        remember: `session`: do not ask about this action again in this session. `runtime`: allow it in every session
            of this agent for as long as this `Runtime` is open.
        by: Who allows it; recorded with the decision.
    """

    edit: Mapping[str, Any] | None = None
    remember: Literal["once", "session", "runtime"] = "once"
    by: str = "approver"


Verdict: TypeAlias = bool | Approve | Deny
Approver: TypeAlias = Callable[[Wait], Verdict | Awaitable[Verdict]]
"""Answers approvals in the process that drives the turn. True or `Approve` allows; anything else denies."""
