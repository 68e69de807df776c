"""Small payloads beside the log: canonical bytes behind their format and digest.

WL1 <32 bytes of SHA-256> <canonical bytes>
"""

from __future__ import annotations

from hashlib import sha256
from typing import TypeVar

from windlass.errors import FormatUnsupported, InvalidInput, JournalCorrupt, LimitExceeded
from windlass.kernel import canonical

T = TypeVar("T")

_MAGIC = b"WL"
_FORMAT = b"1"
_HEAD = len(_MAGIC) + len(_FORMAT)
_BODY = _HEAD + 32


def pack(data: bytes) -> bytes:
    """Return canonical bytes as they are stored."""
    return _MAGIC + _FORMAT + sha256(data).digest() + data


def unpack(stored: bytes, type: type[T], *, place: str) -> T:  # noqa: A002 - reads as in canonical
    """Return the value that was packed.

    Raises:
        FormatUnsupported: packed by a release with another format.
        JournalCorrupt: not what was written.
    """
    if not isinstance(stored, bytes) or stored[: len(_MAGIC)] != _MAGIC or len(stored) < _BODY:
        raise JournalCorrupt(f"{place}: found something that windlass did not write", field=place)
    found = stored[len(_MAGIC) : _HEAD]
    if found != _FORMAT:
        raise FormatUnsupported(
            f"{place}: found a format that this release does not know",
            field=place,
            found=found.decode(errors="replace"),
            wanted=_FORMAT.decode(),
        )
    data = stored[_BODY:]
    if sha256(data).digest() != stored[_HEAD:_BODY]:
        raise JournalCorrupt(f"{place}: its bytes are not those of its digest", field=place)
    try:
        return canonical.read(data, type)
    except (InvalidInput, LimitExceeded) as error:
        raise JournalCorrupt(f"{place}: {error}", field=place) from None
