"""Takes out of a recorded exchange what must not leave the machine, and leaves every other byte as it was.

Law 1. JSON stays the same JSON: only the inside of a string, or a long number, is written anew. So a recording is
    read as the real answer was.
Law 2. A secret is found also where a stream has cut it: the pieces of one text are looked at together.
Law 3. The same value has the same stand-in everywhere in a recording, so that what refers to it still does. A stand-in
    tells nothing of what it stands for but its kind and about how long it was.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha512
from typing import Any, Final, NamedTuple, Protocol

from windlass.guards.secret import Redactor
from windlass.guards.text import is_clean
from windlass.kernel import canonical
from windlass.models.recording.json_leaves import Leaf, leaves_of

# So much of a secret is as good as a secret.
_PART_CHARS: Final = 12
_MIN_STAND_IN: Final = 16
_MAX_STAND_IN: Final = 1024
# A shorter number does not identify a person, so the scrubber leaves it.
_LONG_NUMBER: Final = 13

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{64,}={0,2}")
_DATA_URL: Final = re.compile(r"(data:[\w.+-]+/[\w.+-]+;base64,)(.+)", re.DOTALL)
_HALF_BLOB: Final = re.compile(
    r'(?<="signature":)\s*"([^"]+)|(?<=[sS]ignature":)\s*"([^"]+)|"(?:encrypted_\w+|data)":\s*"([^"]+)'
)
_ID: Final = re.compile(
    r"(msg|resp|rs|fc|ws|ci|fs|mcp|cmp|toolu|srvtoolu|call|chatcmpl|gen|req|item|file|conv|container)"
    r"([-_])[A-Za-z0-9_-]{12,}"
)
_ACCOUNT: Final = re.compile(
    r"\b(?:(org|proj|user|acct)[-_](?=[A-Za-z_]*[0-9])[A-Za-z0-9_]{8,}|(req)_[A-Za-z0-9]{8,}"
    r"|(projects?)(?:/|_number:)[0-9]{5,})\b"
)

# Ends of the names of fields that hold what only the provider can read.
_BLOBS: Final = ("signature", "encryptedcontent", "encryptedindex", "encryptedstdout")
# Words of people and models are never taken for a blob or an id.
_WORDS: Final = frozenset(
    {"text", "content", "thinking", "arguments", "partialjson", "delta", "description", "title"}
)
# Fields that say who asked, near the top of what is sent: deeper down such fields are the user's own.
_WHO: Final = frozenset(
    {
        "organization", "organizationid", "orgid", "project", "projectid", "promptcachekey", "requestid",
        "responseid", "safetyidentifier", "sessionid", "user", "userid",
    }
)  # fmt: skip
_NEAR_TOP: Final = 2
# Where the bytes of files stand.
_FILES: Final = frozenset({"source", "inlineData", "inline_data"})


class Finder(Protocol):
    """Finds what looks like a secret, or like personal data."""

    def hits(self, text: str) -> Sequence[tuple[int, int, str]]:
        """Return the places in a text, from the left: from, to, and what it is."""
        ...

    def kind_of_key(self, key: str) -> str | None:
        """Return what stands under a name, if the name says so."""
        ...


class Edit(NamedTuple):
    """A place of a text, and what is to stand there."""

    start: int
    end: int
    text: str


class Scrubber:
    """Scrubs texts of one exchange. `swaps` are texts that are replaced by others wherever they stand."""

    def __init__(
        self,
        redactor: Redactor,
        finder: Finder,
        *,
        swaps: Mapping[str, str],
        keep_signatures: bool = False,
    ) -> None:
        self._redactor = redactor
        self._finder = finder
        self._swaps = {re.compile(re.escape(old)): new for old, new in swaps.items()}
        self._keep_signatures = keep_signatures
        self._numbers: dict[str, int] = {}

    def edits(self, text: str) -> list[Edit]:
        """Return what has to change in a text: JSON, a stream of events with JSON in them, or words."""
        leaves = leaves_of(text)
        new = [leaf.value for leaf in leaves]
        groups: dict[tuple[object, ...], list[int]] = {}
        for at, leaf in enumerate(leaves):
            stand_in = self._stand_in(leaf) if leaf.kind == "string" and leaf.value else None
            if stand_in is not None:
                new[at] = stand_in
            elif leaf.kind != "number" or len(leaf.value) >= _LONG_NUMBER:
                groups.setdefault(leaf.place, []).append(at)
        for members in groups.values():
            is_json = leaves[members[0]].kind != "other"
            scrubbed = self._joined([leaves[at].value for at in members], is_json=is_json)
            for at, value in zip(members, scrubbed, strict=True):
                new[at] = value
        return [
            Edit(leaf.start, leaf.end, _written(value, leaf))
            for leaf, value in zip(leaves, new, strict=True)
            if value != leaf.value
        ]

    def text(self, text: str) -> str:
        """Return a text, scrubbed."""
        return applied(text, self.edits(text))

    def json(self, value: object) -> Any:  # noqa: ANN401 - JSON
        """Return a value as plain JSON, scrubbed."""
        return canonical.parse(self.text(canonical.encode(value).decode()))

    def _stand_in(self, leaf: Leaf) -> str | None:
        """Return what stands for a value that says nothing by itself, or that its name makes a secret; None for words."""
        name, value = leaf.name.replace("_", "").lower(), leaf.value
        if name in _WHO and leaf.depth <= _NEAR_TOP:
            return f"id-{self._number(value)}"
        kind = self._finder.kind_of_key(leaf.name)
        if kind is not None:
            return f"[{kind}]"
        found = None if name in _WORDS else _ID.fullmatch(value)
        if found is not None:
            return self._other_id(found)
        url = _DATA_URL.fullmatch(value)
        if url is not None:
            return url[1] + self._blob(url[2])
        is_kept = self._keep_signatures and not _FILES.intersection(leaf.place)
        return self._blob(value) if not is_kept and _is_blob(name, value) else None

    def _number(self, value: str) -> int:
        return self._numbers.setdefault(value, len(self._numbers) + 1)

    def _other_id(self, found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{self._number(found[0]):012}"

    def _blob(self, value: str) -> str:
        """Return base64, about as long as the blob up to a limit."""
        size = _MIN_STAND_IN
        while size * 2 <= min(len(value), _MAX_STAND_IN):
            size *= 2
        made = sha512(b"stand-in %d" % self._number(value)).digest() * (size // 64 + 1)
        return base64.b64encode(made)[:size].decode()

    def _joined(self, pieces: list[str], *, is_json: bool) -> list[str]:
        """Return the pieces of one text, scrubbed: what is cut over several of them is replaced where it begins."""
        found = self._found("".join(pieces), is_end=True)
        if not is_json:
            found += self._in_half("".join(pieces))
        if len(pieces) > 1:  # what begins a piece may be a secret, whatever stands before it
            at = 0
            for piece in pieces:
                for edit in self._found(piece):
                    found.append(Edit(at + edit.start, at + edit.end, edit.text))
                at += len(piece)
        return _without(pieces, _merged(found)) if found else pieces

    def _found(self, text: str, *, is_end: bool = False) -> list[Edit]:
        found = [Edit(*place) for place in self._redactor.places(text)]
        if is_end:  # the answer may have been cut off in the middle of a secret
            begun = self._redactor.clean_length(text)
            if len(text) - begun >= _PART_CHARS:
                found.append(Edit(begun, len(text), "[...]"))
        for old, new in self._swaps.items():
            found += [Edit(*hit.span(), new) for hit in old.finditer(text)]
        for start, end, kind in self._finder.hits(text):
            # A number stays a number: it may stand without quotes in arguments.
            hit = text[start:end]
            is_card = kind == "card"
            found.append(Edit(start, end, re.sub(r"\d", "1", hit) if is_card else f"[{kind}]"))
        for who in _ACCOUNT.finditer(text):
            found.append(Edit(*who.span(), f"[{who[1] or who[2] or who[3]}]"))
        return found

    def _in_half(self, text: str) -> list[Edit]:
        """Return what is found in words that are not JSON, such as an event that was cut off: also parts of secrets."""
        found = [
            Edit(at, at + len(part), "[...]")
            for secret in self._redactor.secrets
            for part in parts_of(secret.reveal())
            if (at := text.find(part)) >= 0
        ]
        found += [Edit(*hit.span(), self._other_id(hit)) for hit in _ID.finditer(text)]
        blobs = [] if self._keep_signatures else [_HALF_BLOB]
        for pattern in (*blobs, _BASE64):
            for hit in pattern.finditer(text):
                group = hit.lastindex or 0
                found.append(Edit(*hit.span(group), self._blob(hit[group])))
        return found


def parts_of(secret: str) -> Iterator[str]:
    """Yield the parts of a secret that must not be found anywhere; of a short one only the whole."""
    size = _PART_CHARS if len(secret) >= 2 * _PART_CHARS else len(secret)
    for at in range(len(secret) - size + 1):
        yield secret[at : at + size]


def applied(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with what was found in it replaced."""
    made, at = [], 0
    for edit in edits:
        made += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*made, text[at:]])


def moved(places: Iterable[int], text: str, edits: Sequence[Edit]) -> list[int]:
    """Return where places among a text's bytes are once the edits are made; one inside of an edit is at its end."""
    spans, old_at, new_at, chars = [], 0, 0, 0
    for edit in edits:
        kept = len(text[chars : edit.start].encode())
        start, old_at = old_at + kept, old_at + kept + len(text[edit.start : edit.end].encode())
        new_at += kept + len(edit.text.encode())
        chars = edit.end
        spans.append((start, old_at, new_at))
    made, passed = [], 0
    old_at = new_at = 0
    for place in places:
        while passed < len(spans) and spans[passed][0] < place:
            _, old_at, new_at = spans[passed]
            passed += 1
        made.append(new_at + max(0, place - old_at))
    return made


def _is_blob(name: str, value: str) -> bool:
    if name.endswith(_BLOBS):
        return True
    if name == "data" and len(value) >= _MIN_STAND_IN and " " not in value:
        return True
    return name not in _WORDS and _BASE64.fullmatch(value) is not None


def _written(value: str, leaf: Leaf) -> str:
    """Return a new value as it stands in the text of its leaf."""
    if leaf.kind in ("number", "other"):
        return value
    # Half of a character has no JSON but an escape.
    return (canonical.encode(value).decode() if is_clean(value) else canonical.escaped(value))[1:-1]


def _merged(found: list[Edit]) -> list[Edit]:
    """Return edits that do not overlap: of those that do one, in the words of the first."""
    merged: list[Edit] = []
    for edit in sorted(found, key=lambda each: (each.start, -each.end)):
        if merged and edit.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, edit.end))
        else:
            merged.append(edit)
    return merged


def _without(pieces: list[str], edits: list[Edit]) -> list[str]:
    """Return pieces with the edits of the text that they make together."""
    made, at = [], 0
    left = list(reversed(edits))
    for piece in pieces:
        new, here, end = [], 0, at + len(piece)
        while left and left[-1].start < end:
            edit = left[-1]
            if edit.start >= at:
                new += [piece[here : edit.start - at], edit.text]
            here = min(edit.end - at, len(piece))
            if edit.end > end:
                break  # it goes on in the next piece
            left.pop()
        made.append("".join([*new, piece[here:]]))
        at = end
    return made
