"""What a tool returned, as the outcome of its call.

Law 1. A tool that returned has succeeded. A value that cannot be encoded does not make it a failure, for
    then the model would call again and act twice: the result says that it cannot be shown, and why.
Law 2. The text shown to the model is bounded; a text that was cut is returned in full, to be kept as a blob.
Law 3. Escape sequences are shown, never interpreted: control characters are written out.
Law 4. A registered secret is taken out before anything is cut: half a secret is still a secret.
Law 5. A value is taken apart only if its type says how: dataclasses, named tuples, enums, msgspec Structs, pydantic
    models, dates, UUIDs, Decimals. `str()` is never a guess for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from windlass.errors import WindlassError
from windlass.guards import INPUT_LIMITS, clean_text, is_clean
from windlass.guards.secret import REGISTERED
from windlass.guards.text import LARGE, pieces, utf8
from windlass.journal.redaction import clean_json, cleaned
from windlass.kernel.messages import Attachment, ResultPart, Text
from windlass.kernel.tool_call import EndTurn, FailTurn, HandOff, ToolOutcome, as_text
from windlass.kernel.value import Json, freeze
from windlass.tools.schema import is_model

# All but tab, line feed and carriage return, which text files are made of.
_CONTROL: Final = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


# Tuples: isinstance with a union would build it anew on each call.
_CONTROLS: Final = (EndTurn, FailTurn, HandOff)
_PARTS: Final = (Text, Attachment)
_NUMBERS: Final = frozenset({int, float, bool, type(None)})
# Numbers between these are finite and not huge, so that nothing can refuse them.
_SAFE: Final = 1e15
_ENCODER: Final = msgspec.json.Encoder()


class Clipped(NamedTuple):
    """An outcome within the limits, and the full text in UTF-8 when it is not all shown."""

    outcome: ToolOutcome
    full: bytes | None = None


def as_outcome(value: object, *, limit: int | None = None) -> ToolOutcome:
    """Return the outcome of a call whose body returned `value`; see `clipped` for what was cut."""
    return clipped(value, limit=limit).outcome


def clipped(value: object, *, limit: int | None = None, keep: int | None = None) -> Clipped:
    """Return the outcome of a call, with no more than `limit` bytes of text shown and `keep` bytes of it kept.

    Text and attachments, alone or in a list, are content; an `EndTurn`, `FailTurn` or `HandOff` is
    control; anything else is a value. A ready `ToolOutcome` stays as it is.
    """
    most = INPUT_LIMITS.tool_result_bytes
    room = most if limit is None else min(limit, most)
    if type(value) is str:
        if REGISTERED.secrets:
            value = REGISTERED.clean(value)
        # No character takes more than four bytes, so most texts are told without encoding them.
        if len(value) * 4 <= room and is_clean(value) and _CONTROL.search(value) is None:
            return Clipped(ToolOutcome(value=value))
    elif type(value) in _NUMBERS and (value is None or -_SAFE < value < _SAFE):  # type: ignore[operator]  # a number
        return Clipped(ToolOutcome(value=value))
    if isinstance(value, ToolOutcome):
        return Clipped(value)
    if isinstance(value, _CONTROLS):
        return Clipped(ToolOutcome(control=value))
    try:
        return _made(value, _Room(room, keep or INPUT_LIMITS.attachment_bytes))
    except NotPlain as error:
        reason = str(error)
    except (RecursionError, WindlassError) as error:
        reason = type(error).__name__
    return Clipped(ToolOutcome(shown=(Text(text=_not_shown(value, reason)),)))


class _Room(NamedTuple):
    """How many bytes of a result are shown at most, and how many are kept."""

    shown: int
    kept: int


def _made(value: object, room: _Room) -> Clipped:
    if isinstance(value, str) and not is_clean(value):
        return _repaired(value, room)
    if type(value) is str:
        return _of_value(value, room)
    if _is_content(value):
        return _of_content(_parts(value), room)
    plain = as_json(value)
    return _of_value(freeze(clean_json(plain)) if REGISTERED.secrets else plain, room)


def _of_value(value: Json, room: _Room) -> Clipped:
    if type(value) is not str:
        data = _ENCODER.encode(value)
        # Of ASCII, JSON leaves one control character as it is.
        if len(data) <= room.shown and data.isascii() and b"\x7f" not in data:
            return Clipped(ToolOutcome(value=value))
    text = as_text(value)
    # Only what can be shown is looked at: the rest may be large.
    shown = visible(text[: room.shown])
    if len(text) > room.shown or len(shown) * 4 > room.shown:
        full, head = utf8(text), shown.encode()
        if len(text) > room.shown or len(head) > room.shown:
            kept = value if len(full) <= INPUT_LIMITS.tool_result_bytes else None
            note = _note(len(full) if len(text) > room.shown else len(head), len(full), room)
            cut = Text(text=_head(head, room.shown) + note)
            return Clipped(ToolOutcome(value=kept, shown=(cut,)), _bounded(full, room))
    if shown is text or shown == text:
        return Clipped(ToolOutcome(value=value))
    return Clipped(ToolOutcome(value=value, shown=(Text(text=shown),)))


def _of_content(parts: Sequence[ResultPart], room: _Room) -> Clipped:
    texts = [part.text for part in parts if isinstance(part, Text)]
    full = utf8("\n".join(texts))
    size = len(full) - max(0, len(texts) - 1)
    seen, left, is_cut = list[ResultPart](), room.shown, False
    for part in parts:
        if not isinstance(part, Text):
            seen.append(part)
            continue
        # Only what can be shown is looked at: the rest may be large.
        said = visible(part.text[: left + 1])
        data = said.encode()
        if len(data) > left:
            is_cut = True
            said = _head(data, left)
        if left > 0 or not part.text:
            seen.append(part if said == part.text else Text(text=said))
        left = max(0, left - len(data))
    if not is_cut:
        shown = None if seen == list(parts) else tuple(seen)
        return Clipped(ToolOutcome(content=tuple(parts), shown=shown))
    seen.append(Text(text=_note(size, len(full), room)))
    if size <= INPUT_LIMITS.tool_result_bytes:
        outcome = ToolOutcome(content=tuple(parts), shown=tuple(seen))
    else:
        outcome = ToolOutcome(content=tuple(seen))
    return Clipped(outcome, _bounded(full, room))


def _repaired(text: str, room: _Room) -> Clipped:
    """Show text with NUL or lone surrogates, repaired; the value itself cannot be stored."""
    note = "(the tool succeeded; what cannot be shown of its text is replaced by \ufffd)\n"
    made = _of_value(note + clean_text(text), room)
    outcome = made.outcome
    shown = outcome.shown or (Text(text=as_text(outcome.value)),)
    return Clipped(ToolOutcome(shown=shown), made.full)


def _is_content(value: object) -> bool:
    if isinstance(value, _PARTS):
        return True
    return isinstance(value, (list, tuple)) and any(isinstance(x, _PARTS) for x in value)


def _parts(value: object) -> list[ResultPart]:
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    return [
        cleaned(item if isinstance(item, _PARTS) else Text(text=as_text(as_json(item))))
        for item in items
    ]


def _not_shown(value: object, reason: str) -> str:
    kind = clean_text(type(value).__name__)
    return (
        f"(the tool succeeded, but its result of type {kind} could not be shown: {reason}. "
        f"Do not call it again only to see the result.)"
    )


def visible(text: str) -> str:
    """Return a text whose control characters are written out."""
    if len(text) <= LARGE:
        return _CONTROL.sub(_written_out, text)
    return "".join([_CONTROL.sub(_written_out, piece) for piece in pieces(text)])


def _written_out(found: re.Match[str]) -> str:
    return f"\\x{ord(found[0]):02x}"


def _head(data: bytes, room: int) -> str:
    # What is left of a character at the end is dropped: a cut never splits one.
    return data[:room].decode(errors="ignore")


def _note(size: int, n_whole: int, room: _Room) -> str:
    """Return what stands behind a cut: how much is not shown, and how much is not even kept."""
    lost = f", and {n_whole - room.kept:,} are not kept" if n_whole > room.kept else ""
    return f"\n(cut here: {size - room.shown:,} of {size:,} bytes are not shown{lost})"


def _bounded(full: bytes, room: _Room) -> bytes:
    # What is left of a character at the end is dropped.
    return full if len(full) <= room.kept else _head(full, room.kept).encode()


# ------------------------------------------------------------------------------ as plain JSON

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_TEXT: Final = frozenset({str})
# As many in each of three levels are not too many in all.
_FEW: Final = 100
_WRITTEN_BY_MSGSPEC: Final = (datetime, date, time, timedelta, UUID, Decimal)
# Parts that are shared are written out wherever they stand; that can grow without bound.
_MAX_NODES: Final = 1_000_000


class NotPlain(Exception):
    """Says why a value has no JSON form, in words for a model."""


def as_json(value: object) -> Json:
    """Return the value as frozen JSON.

    Raises:
        NotPlain: it has no JSON form, or none within the limits.
    """
    try:
        if not _is_plain(value):
            value = _Walk().plain(value, INPUT_LIMITS.json_depth)
        return freeze(value, field="result")
    except WindlassError as error:
        raise NotPlain(str(error)) from None


def _is_plain(value: object, depth: int = 2) -> bool:
    """Whether a value needs only to be frozen: plain values, and small dicts and lists of them."""
    items: Iterable[object]
    if type(value) is dict:
        if len(value) > _FEW or not _TEXT.issuperset(map(type, value)):
            return False
        items = value.values()
    elif type(value) is list:
        if len(value) > _FEW:
            return False
        items = value
    else:
        return type(value) in _PLAIN
    if _PLAIN.issuperset(map(type, items)):
        return True
    return depth > 0 and all(_is_plain(item, depth - 1) for item in items)


class _Walk:
    """Counts the parts it has seen, so that a value without end is refused."""

    def __init__(self) -> None:
        self.room = _MAX_NODES

    def plain(self, value: object, depth: int) -> Json:
        self.room -= 1
        if self.room < 0 or depth < 0:
            limit = f"{INPUT_LIMITS.json_depth} levels and {_MAX_NODES:,} parts"
            raise NotPlain(f"it is larger than {limit}, or contains itself")
        if type(value) in _PLAIN:
            return value
        if isinstance(value, Enum):
            return self.plain(value.value, depth - 1)
        if isinstance(value, Mapping):
            return {_key(key): self.plain(item, depth - 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.plain(item, depth - 1) for item in value]
        if _is_dataclass(value):
            import dataclasses  # noqa: PLC0415 - already loaded by the code that made the value

            fields = dataclasses.fields(value)  # type: ignore[arg-type]  # it is one
            return {each.name: self.plain(getattr(value, each.name), depth - 1) for each in fields}
        return self.plain(_by_its_own_rules(value), depth)


def _is_dataclass(value: object) -> bool:
    return hasattr(type(value), "__dataclass_fields__")


def _key(key: object) -> str:
    if isinstance(key, Enum):
        key = key.value
    if not isinstance(key, str):
        raise NotPlain(f"it has a key of type {type(key).__name__}, and keys must be text")
    return str.__str__(key)


def _base_of(value: str | float) -> str | float:
    """Return what a subclass of a plain type, such as a number of numpy's, holds."""
    if isinstance(value, str):
        return str.__str__(value)
    return int.__int__(value) if isinstance(value, int) else float.__float__(value)


def _by_its_own_rules(value: Any) -> object:  # noqa: ANN401 - any value may be a result
    """Return what a type that writes itself makes of the value; it may hold more of them."""
    kind = type(value)
    if isinstance(value, (str, int, float)):
        return _base_of(value)
    try:
        if isinstance(value, msgspec.Struct):
            return msgspec.to_builtins(value, enc_hook=_foreign)
        if is_model(kind):
            return value.model_dump(mode="json")
        if isinstance(value, _WRITTEN_BY_MSGSPEC):
            return msgspec.to_builtins(value)
    except NotPlain:
        raise
    except Exception as error:  # noqa: BLE001 - the user's own type failed to write itself
        raise NotPlain(f"{kind.__name__} could not be written: {type(error).__name__}") from None
    raise NotPlain(f"JSON has no form for {kind.__name__}")


def _foreign(value: object) -> object:
    if _is_dataclass(value) or is_model(type(value)):
        return as_json(value)
    raise NotPlain(f"JSON has no form for {type(value).__name__}")
