"""Names that mean the same thing over attempts, recoveries and workers.

A replay key is a path, `session/turn/turn_index/iteration/kind/effect_id[/call_ordinal[/moment]]`:
what a scope does not have is an empty segment, which no id can be, so two keys are equal only when
everything in them is. Nothing in a key comes from a clock or from chance.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import new as hmac
from typing import Literal, TypeAlias, get_args

from windlass.errors import InvalidInput
from windlass.guards.ids import check_id
from windlass.kernel import canonical
from windlass.kernel.value import FrozenList, Value

EffectKind: TypeAlias = Literal[
    "model_call",
    "model_hooks",
    "direct_call",
    "tool_call",
    "tool_hooks",
    "process",
    "run_code",
    "checkpoint",
    "sync_environment",
    "finalize",
    "sleep",
    "await_event",
]
KINDS: tuple[EffectKind, ...] = get_args(EffectKind)

Moment: TypeAlias = Literal["decide", "intent", "result", "presented"]
MOMENTS: tuple[Moment, ...] = get_args(Moment)

_SEGMENTS = 6
_OF_ONE_ROW = ("/intent", "/result")
# Every store keeps counts in 64 bits.
_MAX_POSITION = 2**63
_MAX_DIGITS = 20
_IDEMPOTENCY_HEX = 40


class Scope(Value, kw_only=True):
    """Where something happens: a session, and as far as it applies a turn and its iteration."""

    session_id: str
    turn_id: str | None = None
    turn_index: int | None = None
    iteration: int | None = None

    def __post_init__(self) -> None:
        """Refuse ids that could not be one segment of a key."""
        check_id(self.session_id, field="Scope.session_id")
        if self.turn_id is not None:
            check_id(self.turn_id, field="Scope.turn_id")
        _check_position(self.turn_index, "Scope.turn_index")
        _check_position(self.iteration, "Scope.iteration")


class KeyParts(Value, kw_only=True):
    """A replay key taken apart."""

    scope: Scope
    kind: EffectKind
    effect_id: str
    call_ordinal: int | None = None
    moment: Moment | None = None

    def __str__(self) -> str:
        return replay_key(
            self.scope,
            self.kind,
            self.effect_id,
            call_ordinal=self.call_ordinal,
            moment=self.moment,
        )


def replay_key(
    scope: Scope,
    kind: EffectKind,
    effect_id: str,
    *,
    call_ordinal: int | None = None,
    moment: Moment | None = None,
) -> str:
    """Return the key under which an effect is recorded.

    Raises:
        InvalidInput: an effect id that is no id, or a moment of no call.
    """
    check_id(effect_id, field="effect_id")
    turn_id, turn_index, iteration = scope.turn_id, scope.turn_index, scope.iteration
    key = (
        f"{scope.session_id}/{'' if turn_id is None else turn_id}"
        f"/{'' if turn_index is None else turn_index}/{'' if iteration is None else iteration}"
        f"/{kind}/{effect_id}"
    )
    if call_ordinal is not None:
        _check_position(call_ordinal, "call_ordinal")
        key = f"{key}/{call_ordinal}"
        return key if moment is None else f"{key}/{moment}"
    if moment is not None:
        raise InvalidInput(
            f"moment: found {moment} without a call, wanted a call_ordinal with it",
            field="call_ordinal",
            wanted="a call's position",
        )
    return key


def parse_key(key: str) -> KeyParts:
    """Take a replay key apart; the inverse of `replay_key`.

    Raises:
        InvalidInput: it is not a replay key.
    """
    segments = key.split("/") if isinstance(key, str) else []
    if not _SEGMENTS <= len(segments) <= _SEGMENTS + 2:
        raise _no_key(f"{len(segments)} segments", "6 to 8")
    session_id, turn_id, turn_index, iteration, kind, effect_id, *call = segments
    if kind not in KINDS:
        raise _no_key("an unknown kind", "a kind of effect")
    if len(call) == 2 and call[1] not in MOMENTS:
        raise _no_key("an unknown moment", "decide, intent, result or presented")
    parts = KeyParts(
        scope=Scope(
            session_id=session_id,
            turn_id=turn_id or None,
            turn_index=_number(turn_index),
            iteration=_number(iteration),
        ),
        kind=kind,
        effect_id=check_id(effect_id, field="effect_id"),
        call_ordinal=_number(call[0]) if call else None,
        moment=call[1] if len(call) == 2 else None,  # type: ignore[arg-type]  # in MOMENTS
    )
    if str(parts) != key:
        raise _no_key("another spelling of it", "the key as replay_key writes it")
    return parts


def key_place(key: str) -> tuple[EffectKind, Moment | None]:
    """Return the kind and the moment that a replay key names, without taking it all apart.

    Raises:
        InvalidInput: it is not a replay key.
    """
    segments = key.split("/")
    count = len(segments)
    if not _SEGMENTS <= count <= _SEGMENTS + 2 or segments[4] not in KINDS:
        raise _no_key(f"{count} segments", "6 to 8, with a kind of effect in the fifth")
    return segments[4], _moment_in(segments)


def key_moment(key: str) -> Moment | None:
    """Return the moment that a replay key ends with, if it does."""
    return _moment_in(key.split("/"))


def _moment_in(segments: list[str]) -> Moment | None:
    return segments[7] if len(segments) == _SEGMENTS + 2 and segments[7] in MOMENTS else None


def call_key(key: str) -> str:
    """Return the key of the whole call for a key of its intent or result; else the key itself.

    An intent and its result are one row that is first claimed, then recorded.
    """
    # An effect may have the id "intent": only the eighth segment is a moment.
    if key.endswith(_OF_ONE_ROW) and key.count("/") == _SEGMENTS + 1:
        return key.rpartition("/")[0]
    return key


def effect_digest(key: str, body: bytes) -> str:
    """Return what a replay compares: the digest of a command's canonical bytes under the key of its call."""
    return sha256(b"%b\0%b" % (key.encode(), body)).hexdigest()


def idempotency_key(
    store_id: str, session_id: str, turn_id: str, effect_id: str, call_ordinal: int
) -> str:
    """Return what a tool hands to the world so that the world can tell a repeat from a new call."""
    content = FrozenList([store_id, session_id, turn_id, effect_id, call_ordinal])
    return f"wl_{canonical.digest(content)[:_IDEMPOTENCY_HEX]}"


def wait_key(secret: bytes, key: str, args_digest: str) -> str:
    """Return the name of a wait: only who holds the store's secret can make one."""
    content = f"{key}\n{args_digest}".encode()
    return f"w_{hmac(secret, content, sha256).hexdigest()}"


def _check_position(position: int | None, field: str) -> None:
    if position is None or (type(position) is int and 0 <= position < _MAX_POSITION):
        return
    raise InvalidInput(f"{field}: wanted a count from 0", field=field, wanted="a count from 0")


def _number(segment: str) -> int | None:
    if not segment:
        return None
    if not (segment.isascii() and segment.isdigit()):
        raise _no_key("a position that is no number", "digits")
    if len(segment) >= _MAX_DIGITS:
        raise _no_key("a position beyond counting", "digits")
    return int(segment)


def _no_key(found: str, wanted: str) -> InvalidInput:
    return InvalidInput(
        f"replay key: found {found}, wanted {wanted}", field="key", found=found, wanted=wanted
    )
