"""An effect on its way to the world: who asks, under which key, for what.

An envelope is refused where it is built unless its subject is an effect, that effect has an id, its kind
is the command's, and there is a key to record it under. So nothing can reach the world that could not be
found again in the journal.
"""

from __future__ import annotations

from typing import TypeAlias, assert_never

import msgspec

from windlass.errors import InvalidInput
from windlass.guards.ids import is_id
from windlass.journal.commands import Command, kind_of
from windlass.journal.keys import EffectKind, Moment, Scope, call_key, replay_key
from windlass.kernel import canonical
from windlass.kernel.value import Value, check_instance


class EffectSubject(Value, kw_only=True):
    """An effect of a turn or a process."""

    effect_id: str
    kind: EffectKind


class ProcessSubject(Value, kw_only=True):
    """A background process."""

    process_id: str


class ProcessEventSubject(Value, kw_only=True):
    """One event in the life of a process."""

    process_id: str
    sequence: int
    event_type: str


class TriggerSubject(Value, kw_only=True):
    """One occurrence of an outside event."""

    occurrence_id: str


class NodeSubject(Value, kw_only=True):
    """A node of a session."""

    node_id: str


Subject: TypeAlias = (
    EffectSubject | ProcessSubject | ProcessEventSubject | TriggerSubject | NodeSubject
)


class EffectRef(Value, kw_only=True):
    """Points at the effect that caused something."""

    session_id: str
    turn_id: str | None = None
    effect_id: str


class ProcessRef(Value, kw_only=True):
    """Points at the process that caused something."""

    process_id: str


class ProcessEventRef(Value, kw_only=True):
    """Points at the process event that caused something."""

    process_id: str
    sequence: int


class TriggerRef(Value, kw_only=True):
    """Points at the trigger's occurrence that caused something."""

    occurrence_id: str


class NodeRef(Value, kw_only=True):
    """Points at the node that caused something."""

    session_id: str
    node_id: str


CausalRef: TypeAlias = EffectRef | ProcessRef | ProcessEventRef | TriggerRef | NodeRef


class Invocation(Value, kw_only=True):
    """Who does what, why, and under which key it is recorded."""

    scope: Scope
    subject: Subject
    caused_by: CausalRef | None = None
    replay_key: str = ""

    @classmethod
    def effect(
        cls,
        scope: Scope,
        kind: EffectKind,
        effect_id: str,
        *,
        call_ordinal: int | None = None,
        moment: Moment | None = None,
        caused_by: CausalRef | None = None,
    ) -> Invocation:
        """Return the invocation of an effect under the key that its place gives it."""
        key = replay_key(scope, kind, effect_id, call_ordinal=call_ordinal, moment=moment)
        subject = EffectSubject(effect_id=effect_id, kind=kind)
        return cls(scope=scope, subject=subject, caused_by=caused_by, replay_key=key)

    def causal_ref(self) -> CausalRef:
        """Return the reference by which a consequence names this invocation as its cause."""
        subject = self.subject
        match subject:
            case EffectSubject():
                return EffectRef(
                    session_id=self.scope.session_id,
                    turn_id=self.scope.turn_id,
                    effect_id=subject.effect_id,
                )
            case ProcessSubject():
                return ProcessRef(process_id=subject.process_id)
            case ProcessEventSubject():
                return ProcessEventRef(process_id=subject.process_id, sequence=subject.sequence)
            case TriggerSubject():
                return TriggerRef(occurrence_id=subject.occurrence_id)
            case NodeSubject():
                return NodeRef(session_id=self.scope.session_id, node_id=subject.node_id)
            case _:
                assert_never(subject)


class Envelope(Value, kw_only=True):
    """An invocation and its command, fit to cross the journal."""

    invocation: Invocation
    command: Command

    def __post_init__(self) -> None:
        """Refuse what could not be recorded and found again."""
        check_instance(self.invocation, Invocation, field="Envelope.invocation")
        subject = self.invocation.subject
        if not isinstance(subject, EffectSubject):
            raise _refused("invocation.subject", f"a {_tag(subject)}", "an effect")
        if not is_id(subject.effect_id):
            raise _refused("invocation.subject.effect_id", "no id", "the effect's id")
        if not isinstance(self.command, Command):
            raise _refused("command", f"a {type(self.command).__name__}", "a command")
        kind = kind_of(self.command)
        if subject.kind != kind:
            raise _refused("invocation.subject.kind", str(subject.kind), f"{kind}, the command's")
        if not self.invocation.replay_key:
            raise _refused("invocation.replay_key", "an empty key", "a replay key")

    @property
    def kind(self) -> EffectKind:
        """What kind of effect this is."""
        return kind_of(self.command)

    @property
    def key(self) -> str:
        """The key it is recorded under."""
        return self.invocation.replay_key

    def digest(self) -> str:
        """Return the digest that a replay compares; an intent and its result have the same."""
        invocation = self.invocation
        whole = call_key(invocation.replay_key)
        if whole == invocation.replay_key:
            return canonical.digest(self)
        asked = msgspec.structs.replace(invocation, replay_key=whole)
        return canonical.digest(msgspec.structs.replace(self, invocation=asked))


def _tag(subject: object) -> str:
    return type(subject).__name__


def _refused(field: str, found: str, wanted: str) -> InvalidInput:
    return InvalidInput(
        f"Envelope.{field}: found {found}, wanted {wanted}",
        field=f"Envelope.{field}",
        found=found,
        wanted=wanted,
    )
