"""Unpacking an answer: gzip and deflate, piece by piece, and never more than there is room for.

Law 1. No more bytes are in memory than the limit, whatever they would unpack to.
Law 2. What is packed in another way, or not packed as it says, is refused with an error of its own.
"""

from __future__ import annotations

import zlib
from typing import Final, Protocol

from windlass.errors import NetworkError

ACCEPTED: Final = "gzip, deflate"
_GZIP: Final = 31  # with a header of gzip
_ZLIB: Final = 15
_RAW: Final = -15


class Unpacker(Protocol):
    """Takes the bytes of an answer as they come."""

    def feed(self, chunk: bytes, room: int) -> bytes:
        """Return what a chunk unpacks to; a byte more than `room` says that there is more."""
        ...

    def finish(self) -> None:
        """Refuse an end in the middle.

        Raises:
            NetworkError: the answer goes on behind its end.
        """
        ...


def unpacker_of(encoding: str, host: str) -> Unpacker:
    """Return what unpacks an answer with this `Content-Encoding`.

    Raises:
        NetworkError: windlass does not know it.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return _Plain()
    if name in ("gzip", "x-gzip", "deflate"):
        return _Packed(is_gzip=name != "deflate", host=host)
    raise NetworkError(
        f"{host}: the answer is packed in a way that was not asked for; wanted gzip or deflate"
    )


class _Plain:
    def feed(self, chunk: bytes, room: int) -> bytes:
        return chunk[: room + 1]

    def finish(self) -> None:
        pass


class _Packed:
    """One or several parts of gzip, or one of deflate, which some servers send without its header."""

    def __init__(self, *, is_gzip: bool, host: str) -> None:
        self._is_gzip = is_gzip
        self._host = host
        self._window = _GZIP if is_gzip else 0
        self._inflater = zlib.decompressobj(_GZIP)
        self._is_begun = False

    def feed(self, chunk: bytes, room: int) -> bytes:
        if not self._is_gzip and not self._window and chunk:
            self._window = _ZLIB if _begins_as_zlib(chunk) else _RAW
            self._inflater = zlib.decompressobj(self._window)
        made, left = bytearray(), chunk
        while left and len(made) <= room:
            if self._inflater.eof:
                if not self._is_gzip or not left.startswith(b"\x1f"):
                    break  # padding behind the end, which readers of gzip pass over
                self._inflater = zlib.decompressobj(_GZIP)
            try:
                made += self._inflater.decompress(left, room + 1 - len(made))
            except zlib.error:
                raise NetworkError(f"{self._host}: the answer is packed wrongly") from None
            self._is_begun = True
            left = self._inflater.unused_data if self._inflater.eof else b""
        return bytes(made)

    def finish(self) -> None:
        if self._is_begun and not self._inflater.eof:
            raise NetworkError(f"{self._host}: the answer ended before it was complete")


def _begins_as_zlib(chunk: bytes) -> bool:
    return chunk[0] & 0x0F == 8 and (len(chunk) < 2 or (chunk[0] * 256 + chunk[1]) % 31 == 0)
