"""Verdicts: what a plugin said to a call, how strong that is, and what together they come to."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import msgspec

from windlass.journal import CallDecided
from windlass.kernel.events import Error
from windlass.kernel.tool_call import ToolOutcome
from windlass.ports.directives import Proceed, ShortCircuit
from windlass.ports.policy import Ask, Deny
from windlass.tools import as_outcome


class Strength(IntEnum):
    """How strong a word is; a stronger one holds whatever order plugins stand in."""

    LEAVE = 0
    RESULT = 1
    QUESTION = 2
    FAILURE = 3
    DENIAL = 4


class Word(NamedTuple):
    """What a plugin said to a call."""

    strength: Strength
    directive: Deny | ShortCircuit | Ask | Proceed
    plugin: str


def word_of(said: object, plugin: str) -> Word:
    """Return what a plugin said, weighed."""
    if isinstance(said, Deny):
        return Word(Strength.DENIAL, said, plugin)
    if isinstance(said, ShortCircuit):
        is_failed = isinstance(said.result, ToolOutcome) and said.result.status != "ok"
        return Word(Strength.FAILURE if is_failed else Strength.RESULT, said, plugin)
    if isinstance(said, Ask):
        return Word(Strength.QUESTION, said, plugin)
    return Word(Strength.LEAVE, _PROCEED, plugin)


def second_word(first: Word, second: Word) -> Word:
    """Return what a plugin has said once it has seen other arguments.

    What restricts counts, then or now. A result that it gave for the old arguments is one only if it gives one again.
    """
    if first.strength == Strength.RESULT:
        return second
    return stronger(first, second) if second.strength > Strength.RESULT else first


def stronger(first: Word, second: Word) -> Word:
    """Return the stronger of two words; of two alike the first."""
    return second if second.strength > first.strength else first


def decision(
    word: Word, args: dict[str, Any], patches: dict[str, Any], issues: tuple[Error, ...]
) -> CallDecided:
    """Return the moment that records a word."""
    said = word.directive
    plain = CallDecided(args=args, patches=patches, issues=issues)
    if isinstance(said, Deny):
        reason = said.reason or f"The plugin {word.plugin} does not allow it."
        return msgspec.structs.replace(plain, verdict="deny", reason=reason)
    if isinstance(said, ShortCircuit):
        outcome = as_outcome(said.result)
        return msgspec.structs.replace(plain, verdict="short_circuit", outcome=outcome)
    if isinstance(said, Ask):
        return msgspec.structs.replace(
            plain, verdict="ask", reason=said.title, risk=said.risk, action_key=said.action_key
        )
    return plain


_PROCEED = Proceed()
NO_WORD = Word(Strength.LEAVE, _PROCEED, "")
