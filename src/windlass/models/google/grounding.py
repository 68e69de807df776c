"""Where Gemini's words come from: what it searched for, and which words rest on which page.

Law 1. Gemini counts bytes of UTF-8 over all words of a reply, or of the part that it names; a citation counts
    characters of its own part.
Law 2. Gemini miscounts at times, so the words that it quotes from the reply decide where a citation stands. One
    whose place is not certain is kept without a place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec.structs import replace

from windlass.kernel.messages import Citation
from windlass.models.message_parts import text_at, whole_text
from windlass.models.provider_errors import list_at, object_at

_SOURCES = ("web", "retrievedContext", "maps", "image")


class Grounding:
    """What a reply is said to rest on."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._found: list[dict[str, Any]] = []
        self._quoted: list[dict[str, Any]] = []
        self._queries: dict[str, None] = {}
        self._pages: dict[str, None] = {}

    def take(self, candidate: dict[str, Any]) -> None:
        """Keep what a candidate says of it.

        Raises:
            Malformed: it is not what Gemini may say.
        """
        provider = self._provider
        found = object_at(candidate, "groundingMetadata", provider)
        if found:
            self._found.append(found)
            for query in list_at(found, "webSearchQueries", provider):
                self._queries |= _words(query)
        read = object_at(candidate, "urlContextMetadata", provider)
        for page in list_at(read, "urlMetadata", provider):
            self._pages |= _words(text_at(page, "retrievedUrl"))
        copied = object_at(candidate, "citationMetadata", provider)
        for name in ("citationSources", "citations"):
            self._quoted += list_at(copied, name, provider)

    def ran(self) -> Iterator[tuple[str, str]]:
        """Yield what Gemini ran without a part of its own: the tool, and what it was asked for."""
        yield from (("web_search", query) for query in self._queries)
        yield from (("url_context", page) for page in self._pages)

    @property
    def has_sources(self) -> bool:
        """Whether it names where words come from."""
        return bool(self._quoted) or any(found.get("groundingChunks") for found in self._found)

    def citations(self, texts: Sequence[str]) -> list[tuple[Citation, ...]]:
        """Return the citations of each of a reply's texts.

        Raises:
            Malformed: they are not what Gemini may say.
        """
        words = _Joined.of(texts)
        cited: list[dict[Citation, None]] = [{} for _ in texts]
        for found in self._found:
            for source, place in self._supported(found, words):
                words.put(source, place, cited)
        for quoted in self._quoted:
            if isinstance(quoted, dict):
                place = words.place_of({**quoted, "text": ""})
                words.put(_citation(quoted), place, cited)
        return [tuple(each) for each in cited]

    def _supported(
        self, found: dict[str, Any], words: _Joined
    ) -> Iterator[tuple[Citation, tuple[int, int] | None]]:
        """Yield each source with each place that rests on it; at last those that no place names."""
        sources = [_source(chunk) for chunk in list_at(found, "groundingChunks", self._provider)]
        left = dict.fromkeys(range(len(sources)))
        for support in list_at(found, "groundingSupports", self._provider):
            if not isinstance(support, dict):
                continue
            place = words.place_of(object_at(support, "segment", self._provider))
            for at in list_at(support, "groundingChunkIndices", self._provider):
                if type(at) is int and 0 <= at < len(sources):
                    left.pop(at, None)
                    yield sources[at], place
        yield from ((sources[at], None) for at in left)


class _Joined(NamedTuple):
    """The words of a reply joined, and where each of its texts begins."""

    words: str
    data: bytes
    texts: Sequence[str]
    begins: list[int]

    @classmethod
    def of(cls, texts: Sequence[str]) -> _Joined:
        words = "".join(texts)
        return cls(words, words.encode(), texts, [0, *accumulate(map(len, texts))][: len(texts)])

    def place_of(self, segment: dict[str, Any]) -> tuple[int, int] | None:
        """Return where the words of a segment stand, in characters of all words."""
        start, end = segment.get("startIndex") or 0, segment.get("endIndex") or 0
        if type(start) is not int or type(end) is not int or not 0 <= start < end:
            return None
        said = whole_text(text_at(segment, "text"))
        if not said:  # nothing to check it by
            is_whole = not segment.get("partIndex") and end <= len(self.data)
            return (self._at(start), self._at(end)) if is_whole else None
        begins = [0, *(begin for begin in self.begins if begin and segment.get("partIndex"))]
        near = [self._at(start + len(self.words[:begin].encode())) for begin in begins]
        for place in near:
            if self.words.startswith(said, place):
                return place, place + len(said)
        place = self._nearest(said, near[0])
        return None if place < 0 else (place, place + len(said))

    def _at(self, offset: int) -> int:
        """Return how many characters stand before a byte."""
        if len(self.words) == len(self.data):
            return offset
        return len(self.data[:offset].decode(errors="ignore"))

    def _nearest(self, said: str, wanted: int) -> int:
        """Return the place of words that is nearest to the wanted one; -1 if they are nowhere."""
        before = self.words.rfind(said, 0, wanted + len(said))
        behind = self.words.find(said, wanted)
        found = [place for place in (before, behind) if place >= 0]
        return min(found, key=lambda place: abs(place - wanted), default=-1)

    def put(
        self, source: Citation, place: tuple[int, int] | None, cited: list[dict[Citation, None]]
    ) -> None:
        """Note a source at each text that its place touches; without a place, at the last text."""
        if place is None:
            if cited:
                cited[-1][source] = None
            return
        for text, begin, of_text in zip(self.texts, self.begins, cited, strict=True):
            start, end = max(place[0] - begin, 0), min(place[1] - begin, len(text))
            if start < end:
                of_text[replace(source, start=start, end=end)] = None


def _source(chunk: object) -> Citation:
    found = chunk if isinstance(chunk, dict) else {}
    return _citation(next((found[name] for name in _SOURCES if name in found), None))


def _citation(source: object) -> Citation:
    return Citation(
        url=text_at(source, "uri") or text_at(source, "sourceUri"),
        title=text_at(source, "title"),
        quote=text_at(source, "text"),
    )


def _words(found: object) -> dict[str, None]:
    words = whole_text(found) if isinstance(found, str) else ""
    return {words: None} if words else {}
