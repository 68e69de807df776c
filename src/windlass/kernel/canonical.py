"""The one encoder: value → bytes → digest.

Law 1. Equal values give equal bytes, under every hash seed, Python release and machine. Keys are
    sorted; a field that holds its default is left out, so a new optional field keeps old digests.
Law 2. `decode` is the strict inverse: it takes the bytes `encode` gives and no others. So the digest
    of a stored body is the digest of the value in it, and nothing can be hidden in a second
    spelling: not a doubled key, not white space, not a default written out.
Law 3. What has no faithful JSON is refused: NaN, infinities, lone surrogates, NUL, keys that are not
    text. The underlying encoder would write NaN as null without a word. (A field of a value is trusted
    to hold its declared type; `decode` and the type checker see to that.)
Law 4. A message sequence digests as a chain, cₙ = H(cₙ₋₁ ‖ digest(mₙ)), so the digest of the next
    request costs what is new in it. Any object with `canonical_items` and `chain_digest` (see
    chain.py) is such a sequence.
"""

from __future__ import annotations

import math
import re
from hashlib import sha256
from typing import Any, TypeVar, get_origin

import msgspec

from windlass.errors import FormatUnsupported, InvalidInput, LimitExceeded, WindlassError
from windlass.guards.text import is_clean
from windlass.kernel.value import FrozenDict, FrozenList, freeze

__all__ = ["decode", "digest", "encode", "escaped", "link", "prepare", "read"]

T = TypeVar("T")

_SCALARS = frozenset({str, int, float, bool, type(None)})
# Of these the bytes tell afterwards whether one is refused.
_TOLD_BY_BYTES = frozenset({str, float, bool, type(None)})
# A chain inside a value is decoded on its own, so an error in it carries two paths, inner first.
_PATH = re.compile(r" - at `(?:key in )?([^`]*)`")


def encode(value: object) -> bytes:
    """Return the canonical bytes of a value, UTF-8 JSON.

    Raises:
        InvalidInput: something in it has no faithful JSON.
        LimitExceeded: plain JSON nested too deeply.
    """
    if not isinstance(value, _SOUND):
        _check_root(value)
    try:
        data = _ENCODER.encode(value)
    except _NO_JSON as error:
        raise _not_encoded(value, error) from None
    if data.count(b"null") or data.count(b"\\u0000"):
        _check_leaves(value)
    return data


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical bytes, in hex, with message sequences as chains."""
    if not isinstance(value, _SOUND):
        _check_root(value)
    try:
        data = _DIGEST_ENCODER.encode(value)
    except _NO_JSON as error:
        raise _not_encoded(value, error) from None
    if data.count(b"null") or data.count(b"\\u0000"):
        _check_leaves(value)
    return sha256(data).hexdigest()


def link(previous: str, item_digest: str) -> str:
    """Return the next link of a digest chain: H(previous ‖ item)."""
    return sha256((previous + item_digest).encode()).hexdigest()


def decode(data: bytes, type: type[T]) -> T:  # noqa: A002 - reads as in msgspec
    """Return the value of `type` whose canonical bytes are `data`.

    A type with a `FORMAT` number is refused by format before anything else of it is looked at; `FORMATS` are
    all that it reads.

    Raises:
        InvalidInput: not the canonical bytes of such a value; `field` is the path, `$` the root.
        FormatUnsupported: written by a release with another format.
        LimitExceeded: nested too deeply.
    """
    if not isinstance(data, bytes):
        raise InvalidInput.at("$", data.__class__.__name__, "bytes")
    if hasattr(type, "FORMAT"):
        _check_format(data, type)
    value = _decode(data, type)
    if encode(value) != data:
        raise _not_canonical(data)
    return value


def parse(text: str) -> Any:
    """Return what foreign JSON says, such as the arguments that a model wrote.

    Raises:
        ValueError: it is not JSON, names a member twice, or holds NaN or an infinity.
    """
    import json  # noqa: PLC0415 - few models write arguments as text

    try:
        return json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def escaped(value: object) -> str:
    """Return JSON text of a value that cannot be encoded: there is an escape for every character.

    Raises:
        TypeError, ValueError, RecursionError: it is not JSON all the same.
    """
    import json  # noqa: PLC0415 - as in `parse`

    return json.dumps(value)


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object names one of its members twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def prepare(*types: Any) -> None:
    """Make the decoders of these types now. Two threads that make the first one of a type at once would crash."""
    for type_ in types:
        _decoder(type_)


def read(data: bytes, type: type[T]) -> T:  # noqa: A002 - reads as in msgspec
    """Return the value in bytes that `encode` wrote, as their digest has shown.

    Like `decode` without the proof that the bytes are canonical, which costs as much again: for stores that
    have compared the digest. Bytes of any other origin go through `decode`.

    Raises:
        InvalidInput, FormatUnsupported, LimitExceeded: as `decode`.
    """
    try:
        value = _decode(data, type)
    except InvalidInput:
        # A newer format may well not decode; say that rather than where it stumbled.
        if hasattr(type, "FORMAT"):
            _check_format(data, type)
        raise
    if hasattr(type, "FORMAT") and value.format != type.FORMAT:  # type: ignore[attr-defined]  # has FORMAT
        _check_format(data, type)
    return value


def _not_encoded(value: object, error: Exception) -> WindlassError:
    if isinstance(error, RecursionError):
        return _too_deep()
    unclean = isinstance(error, UnicodeEncodeError) and _bad_leaf(_as_builtins(value), "$")
    return unclean or _refusal(error)


def _check_leaves(value: object) -> None:
    """Refuse a NaN, an infinity or a NUL, in a value whose bytes hold `null` or an escaped NUL.

    Those are the only two spellings that the encoder writes and Law 3 refuses. Both are rare, so the
    walk that tells a refused leaf from an innocent one is, too. (Callers look for them with `count`:
    `in` would first try to take the needle for a number, and each time raise a TypeError inside.)
    """
    plain = _as_builtins(value)
    refused = None if _is_faithful(plain) else _bad_leaf(plain, "$")
    if refused is not None:
        raise refused


def _check_root(value: object) -> None:
    kind = value.__class__
    if isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            if type(item) not in _TOLD_BY_BYTES and not isinstance(item, _SOUND):
                freeze(item, field=f"$[{at}]", depth=1)
    elif kind in _SCALARS or isinstance(value, dict):
        freeze(value, field="$")
    elif not hasattr(value, "canonical_items"):
        raise InvalidInput.at("$", kind.__name__, "a windlass value or JSON")


def _as_builtins(value: object) -> object:
    return msgspec.to_builtins(value, enc_hook=_items)


def _is_faithful(value: object) -> bool:
    """Whether no leaf is refused. Paths, which cost the most, are built only for what is."""
    found = [value]
    for item in found:
        if isinstance(item, str):
            if not is_clean(item):
                return False
        elif isinstance(item, dict):
            found += item
            found += item.values()
        elif isinstance(item, (list, tuple)):
            found += item
        elif isinstance(item, float) and not math.isfinite(item):
            return False
    return True


def _bad_leaf(value: object, path: str) -> InvalidInput | None:
    """Return the refusal of the first leaf that has no faithful JSON."""
    if isinstance(value, dict):
        leaves = [(f"{path} (a key)", key) for key in value]
        leaves += [(f"{path}.{key}", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        leaves = [(f"{path}[{at}]", item) for at, item in enumerate(value)]
    else:
        return _bad_scalar(value, path)
    refusals = (_bad_leaf(item, place) for place, item in leaves)
    return next((refusal for refusal in refusals if refusal is not None), None)


def _bad_scalar(value: object, path: str) -> InvalidInput | None:
    if isinstance(value, float) and not math.isfinite(value):
        found, wanted = str(value), "a finite number"
    elif isinstance(value, str) and not is_clean(value):
        found, wanted = "NUL or a lone surrogate", "clean text"
    else:
        return None
    return InvalidInput.at(path, found, wanted)


def _decode(data: bytes, type_: type[T]) -> T:
    try:
        return _decoder(type_).decode(data)
    except RecursionError:
        raise _too_deep() from None
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise _refusal(error) from None


def _refusal(error: Exception) -> WindlassError:
    """Turn what the decoder raised into a refusal that names the path."""
    path = "$" + "".join(step.removeprefix("$") for step in reversed(_PATH.findall(str(error))))
    cause = error.__cause__
    while cause is not None and not isinstance(cause, WindlassError):
        cause = cause.__cause__
    if cause is not None:
        if path == "$" and (cause.field or "").startswith(
            "$."
        ):  # it names the place inside the value
            return cause
        return type(cause)(f"{path}: {cause}", field=path, found=cause.found, wanted=cause.wanted)
    # msgspec names types, tags and fields it did not expect; only the first line, and not a novel.
    reason = _PATH.sub("", str(error)).partition("\n")[0][:200]
    return InvalidInput(f"{path}: {reason}", field=path, found=reason)


class _FormatOnly(msgspec.Struct):
    format: int | None = None


def _check_format(data: bytes, type_: type[Any]) -> None:
    found = _decode(data, _FormatOnly).format
    if found is not None and found not in getattr(type_, "FORMATS", (type_.FORMAT,)):
        raise FormatUnsupported(
            f"{type_.__name__}: found format {found}, this release knows {type_.FORMAT}",
            field="$.format",
            found=found,
            wanted=type_.FORMAT,
        )


def _not_canonical(data: bytes) -> InvalidInput:
    """Say which rule the bytes break; they decode, but `encode` would not write them so."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen = dict(items)
        if len(seen) < len(items):
            names = [key for key, _ in items]
            doubled.append(next(key for key in names if names.count(key) > 1))
        return seen

    import json  # noqa: PLC0415 - only a refusal needs it

    doubled: list[str] = []
    json.loads(data, object_pairs_hook=pairs)
    found = (
        f"the key {doubled[0][:40]!r} twice" if doubled else "another spelling of the same value"
    )
    return InvalidInput.at("$", found, "canonical bytes")


def _too_deep() -> LimitExceeded:
    return LimitExceeded("$: nested too deeply to be read", field="$", wanted="shallower nesting")


def _items(value: Any) -> Any:
    if type(value) is msgspec.Raw:  # canonical bytes that a writer embeds
        return msgspec.json.decode(value)
    try:
        return value.canonical_items()
    except AttributeError:
        raise TypeError(f"found {value.__class__.__name__}, wanted a windlass value") from None


def _chain(value: Any) -> str:
    try:
        return f"chain:{value.chain_digest()}"
    except AttributeError:
        raise TypeError(f"found {value.__class__.__name__}, wanted a windlass value") from None


def _build(type_: Any, items: Any) -> Any:
    build = getattr(get_origin(type_), "from_canonical", None)
    if build is None:
        raise TypeError(f"cannot decode into {type_}")
    return build(type_, items)


_NO_JSON = (RecursionError, TypeError, ValueError, OverflowError)
_SOUND = (msgspec.Struct, FrozenDict, FrozenList)
_ENCODER = msgspec.json.Encoder(order="sorted", enc_hook=_items)
_DIGEST_ENCODER = msgspec.json.Encoder(order="sorted", enc_hook=_chain)
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(type_: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _DECODERS.get(type_)
    if decoder is None:
        decoder = _DECODERS[type_] = msgspec.json.Decoder(type_, dec_hook=_build)
    return decoder
