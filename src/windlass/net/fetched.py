"""What came back from the web: a status, headers, and bytes that a stranger wrote.

Law 1. Text is read in encodings of a closed list: a name that a stranger chose picks no codec of Python's.
Law 2. It is read piece by piece, and no further than it is wanted: a thread that reads it lets the others run.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from windlass.guards.text import clean_text

# What is no text is replaced one by one; so many bytes of that take about 10 ms.
_PIECE: Final = 64 * 1024
_MEDIA_TYPE: Final = re.compile(r"\s*([a-z0-9!#$&^_.+-]{1,64}/[a-z0-9!#$&^_.+-]{1,64})\s*(?:;|\Z)")
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.ASCII)
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# As browsers do it: these two names stand for what Windows writes.
_ALIASES: Final = {"ascii": "cp1252", "iso8859-1": "cp1252"}
_KNOWN: Final = frozenset({
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "koi8-r", "koi8-u", "mac-roman", "cp866", "cp874", "shift_jis",
    "cp932", "euc_jp", "iso2022_jp", "euc_kr", "cp949", "gb2312", "gbk", "gb18030", "big5", "big5hkscs",
    *(f"cp125{n}" for n in range(9)), *(f"iso8859-{n}" for n in range(2, 17)),
})  # fmt: skip


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """An answer from the web.

    Attributes:
        url: Where it came from, after redirects.
        status: The status of HTTP.
        headers: Its headers, with names in lower case; of several with one name, the first.
        body: Its bytes, unpacked.
        is_whole: Whether that is all of it; False if there were more than `max_bytes`.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    is_whole: bool = True

    @property
    def media_type(self) -> str:
        """What the server says that it is, such as `text/html`; empty if it does not say."""
        match = _MEDIA_TYPE.match(self.headers.get("content-type", "").lower())
        return match[1] if match else ""

    @property
    def charset(self) -> str | None:
        """The encoding that the server names, or the bytes begin with; None without one that is known."""
        mark = next((name for begin, name in _MARKS if self.body.startswith(begin)), None)
        named = _CHARSET.search(self.headers.get("content-type", ""))
        return mark or (known_charset(named[1]) if named else None)

    def text(self, charset: str | None = None, *, max_chars: int | None = None) -> str:
        """Return the body as text; what is not text in this encoding is replaced.

        A long text takes a while, depending on who wrote it: on an event loop, read it in a thread.

        Args:
            charset: How to read it, if the server does not say; UTF-8 by default.
            max_chars: How many characters are read; all of them by default.
        """
        return clean_text(decoded(self.body, self.charset or charset or "utf-8", max_chars))


def decoded(body: bytes, charset: str, max_chars: int | None = None) -> str:
    """Return bytes as text, no more than so many characters of it; what is not text in this encoding is replaced."""
    if charset == "utf-16" and not body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        charset = "utf-16-le"  # as browsers read it; a decoder that reads pieces wants a mark
    decoder = codecs.getincrementaldecoder(charset)("replace")
    found: list[str] = []
    n_chars = 0
    for at in range(0, len(body), _PIECE):
        found.append(decoder.decode(body[at : at + _PIECE]))
        n_chars += len(found[-1])
        if max_chars is not None and n_chars >= max_chars:
            return "".join(found)[:max_chars]
    found.append(decoder.decode(b"", final=True))
    return "".join(found)[:max_chars]


def known_charset(name: str) -> str | None:
    """Return the codec for a name, if it is an encoding that pages are written in."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    codec = _ALIASES.get(codec, codec)
    return codec if codec in _KNOWN else None
