"""Names that mean the same thing over attempts, recoveries and workers.

A replay key is a path, `session/turn/turn_index/iteration/kind/effect_id[/call_ordinal[/moment]]`:
what a scope does not have is an empty segment, which no id can be, so two keys are equal only when
everything in them is. The moment `asked` has a number, `asked/0`, because a call may ask more than one
question. Nothing in a key comes from a clock or from a random number.
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

Moment: TypeAlias = Literal["decide", "intent", "result", "presented", "asked"]
MOMENTS: tuple[Moment, ...] = get_args(Moment)

DerivedKind: TypeAlias = Literal["child", "process", "schedule", "trigger"]
"""The kinds of sessions whose ids are derived: all but those that callers talk in."""
_PREFIXES: dict[DerivedKind, str] = {
    "child": "c",
    "process": "p",
    "schedule": "s",
    "trigger": "t",
}

_SEGMENTS = 6
_OF_ONE_ROW = ("/intent", "/result")
# Every store keeps counts in 64 bits.
_MAX_POSITION = 2**63
_MAX_DIGITS = 20
_IDEMPOTENCY_HEX = 40
_SESSION_HEX = 40


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
    question: int | None = None

    def __str__(self) -> str:
        return replay_key(
            self.scope,
            self.kind,
            self.effect_id,
            call_ordinal=self.call_ordinal,
            moment=self.moment,
            question=self.question,
        )


def replay_key(
    scope: Scope,
    kind: EffectKind,
    effect_id: str,
    *,
    call_ordinal: int | None = None,
    moment: Moment | None = None,
    question: int | None = None,
) -> str:
    """Return the key under which an effect is recorded; `question` counts those of the moment `asked`.

    Raises:
        InvalidInput: the effect id is not an id, the moment has no call, or the question has another moment.
    """
    if (question is None) == (moment == "asked"):
        raise InvalidInput.at("question", question, "a number with the moment asked, else none")
    check_id(effect_id, field="effect_id")
    turn_id, turn_index, iteration = scope.turn_id, scope.turn_index, scope.iteration
    key = (
        f"{scope.session_id}/{'' if turn_id is None else turn_id}"
        f"/{'' if turn_index is None else turn_index}/{'' if iteration is None else iteration}"
        f"/{kind}/{effect_id}"
    )
    if call_ordinal is not None:
        _check_position(call_ordinal, "call_ordinal")
        _check_position(question, "question")
        key = f"{key}/{call_ordinal}"
        return "/".join(str(part) for part in (key, moment, question) if part is not None)
    if moment is not None:
        raise InvalidInput.at("call_ordinal", f"the moment {moment} without a call", "a position")
    return key


def parse_key(key: str) -> KeyParts:
    """Take a replay key apart; the inverse of `replay_key`.

    Raises:
        InvalidInput: it is not a replay key.
    """
    segments = key.split("/") if isinstance(key, str) else []
    if not _SEGMENTS <= len(segments) <= _SEGMENTS + 3:
        raise _no_key(f"{len(segments)} segments", "6 to 9")
    session_id, turn_id, turn_index, iteration, kind, effect_id, *call = segments
    if kind not in KINDS:
        raise _no_key("an unknown kind", "a kind of effect")
    moment = _moment_in(segments)
    if len(call) > 1 and moment is None:
        raise _no_key("an unknown moment", "decide, intent, result, presented or asked/n")
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
        moment=moment,
        question=_number(call[2]) if len(call) == 3 else None,
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
    if not _SEGMENTS <= count <= _SEGMENTS + 3 or segments[4] not in KINDS:
        raise _no_key(f"{count} segments", "6 to 9, with a kind of effect in the fifth")
    return segments[4], _moment_in(segments)


def _moment_in(segments: list[str]) -> Moment | None:
    count = len(segments)
    if count < _SEGMENTS + 2 or segments[7] not in MOMENTS:
        return None
    has_number = count == _SEGMENTS + 3
    return segments[7] if has_number == (segments[7] == "asked") else None


def call_key(key: str) -> str:
    """Return the key of the whole call for a key of its intent or result; else the key itself.

    An intent and its result are one row that is first claimed, then recorded.
    """
    # An effect may have the id "intent": only the eighth segment is a moment.
    if key.endswith(_OF_ONE_ROW) and key.count("/") == _SEGMENTS + 1:
        return key.rpartition("/")[0]
    return key


def without_moment(key: str) -> str:
    """Return the key of the call or the effect that a key of one of its moments belongs to."""
    return key if key.count("/") <= _SEGMENTS else "/".join(key.split("/", _SEGMENTS + 1)[:-1])


def idempotency_key(
    store_id: str, session_id: str, turn_id: str, effect_id: str, call_ordinal: int
) -> str:
    """Return what a tool sends along so that its other side can tell a repeat from a new call."""
    content = FrozenList([store_id, session_id, turn_id, effect_id, call_ordinal])
    return f"wl_{canonical.digest(content)[:_IDEMPOTENCY_HEX]}"


def wait_key(secret: bytes, key: str, args_digest: str) -> str:
    """Return the name of a wait; it takes the store's secret to make one."""
    content = f"{key}\n{args_digest}".encode()
    return f"w_{hmac(secret, content, sha256).hexdigest()}"


def derived_session_id(secret: bytes, kind: DerivedKind, *names: str | int) -> str:
    """Return the id of a session that something else than a caller begins, from the names of what begins it.

    The same names give the same id. It takes the store's secret to make one, so a caller cannot occupy it beforehand.

    Raises:
        InvalidInput: the kind is none of these, there are no names, or one is neither an id nor a count.
    """
    if kind not in _PREFIXES:
        raise InvalidInput.at("kind", "another", "child, process, schedule or trigger")
    if not names:
        raise InvalidInput.at("names", "none", "what tells the session from others of its kind")
    for name in names:
        if isinstance(name, int):
            _check_position(name, "names")
        else:
            check_id(name, field="names")
    # A list of text begins as no replay key does, so that no session is named like a wait.
    content = canonical.encode(FrozenList([kind, *names]))
    return f"{_PREFIXES[kind]}_{hmac(secret, content, sha256).hexdigest()[:_SESSION_HEX]}"


def _check_position(position: int | None, field: str) -> None:
    if position is None or (type(position) is int and 0 <= position < _MAX_POSITION):
        return
    raise InvalidInput.at(field, type(position).__name__, "a count from 0")


def _number(segment: str) -> int | None:
    if not segment:
        return None
    if not (segment.isascii() and segment.isdigit()):
        raise _no_key("a position that is not a number", "digits")
    if len(segment) >= _MAX_DIGITS:
        raise _no_key("a position beyond counting", "digits")
    return int(segment)


def _no_key(found: str, wanted: str) -> InvalidInput:
    return InvalidInput(
        f"replay key: found {found}, wanted {wanted}", field="key", found=found, wanted=wanted
    )
