"""A web page as Markdown: what a reader sees of it, within bounds that no page can break.

Law 1. A page is read in one pass whose time grows with its length, whatever stands in it. Parsers of HTML do not promise
    that: some take minutes over a megabyte of `<a` and blanks, and hold up the whole process meanwhile.
Law 2. Before Markdown is made, the page is written anew: few kinds of tags, closed in order, so many and so deep at
    most, with no attribute but an address or a description, and not much longer than it was. What a page can make
    expensive is gone by then.
Law 3. Work that is given up on ends: it looks between two tags whether anyone still waits for it.
Law 4. Nothing of a page runs, and nothing is loaded that it refers to.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from html import escape, unescape
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urljoin

from windlass.errors import ToolError
from windlass.guards.text import clean_text
from windlass.net import known_charset
from windlass.net.fetched import decoded
from windlass.tools.threads import in_thread

DEADLINE_S: Final = 10.0
MAX_CHARS: Final = 1_000_000
_MAX_DEPTH: Final = 40
_MAX_INDENTS: Final = 8
_MAX_TAGS: Final = 12_000
_MAX_TITLE: Final = 300
_MAX_ADDRESS: Final = 1_000
_MAX_TAG_CHARS: Final = 16_384
# Addresses are written whole: a page of short links grows.
_MAX_WRITTEN: Final = 2 * MAX_CHARS
_META: Final = re.compile(rb"<meta[^>]{0,200}?charset\s{0,8}=\s{0,8}[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)  # fmt: skip
_LINES: Final = re.compile(r"\n(?:[ \t]*+\n)++")
# Possessive: what was read is not tried again in another way.
_MARKUP: Final = re.compile(r"<[A-Za-z/!?]")
_NAME: Final = re.compile(r"</?([A-Za-z][A-Za-z0-9-]{0,30}+)")
# As in browsers, a quote hides what follows only where a value begins; one that nothing closes hides nothing here.
_REST: Final = re.compile(r"(?:[^>=]++|=[ \t\r\n\f]*+(?:\"[^\"]*+\"|'[^']*+')?+)*+>")
# Each attribute with its value, so that no part of another name or value is taken for one.
_ATTRIBUTE: Final = re.compile(r"([^\s\"'<>/=]++)(?:\s{0,20}=\s{0,20}(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'>]++)))?")  # fmt: skip
_READ: Final = frozenset({"alt", "href", "src"})
_BLANK: Final = re.compile(r"[ \t\r\n\f]++")
# `<` and `&` of texts travel as letters of no alphabet: they are not tags, and escapes would take long to read.
_STAND_INS: Final = {
    0x3C: "\ue000", 0x26: "\ue001", **dict.fromkeys((0xE000, 0xE001, 0xE002), "\ufffd"),
}  # fmt: skip
# A blank line of code, which is not to go with the blank lines around it.
_EMPTY: Final = "\ue002"
_BACK: Final = {0xE000: "<", 0xE001: "&", 0xE002: ""}
_LONG_NUMBER: Final = re.compile(r"&#[0-9a-fA-FxX]{10,}+;?")
_RAW: Final = {
    name: re.compile(f"</{name}", re.IGNORECASE)
    for name in ("iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp")
}
_INVISIBLE: Final = frozenset({
    "audio", "button", "canvas", "nav", "noscript", "object", "select", "svg", "template", "video",
})  # fmt: skip
# What a forgotten </nav> must not hide.
_SURELY_SEEN: Final = frozenset({"article", "h1", "main"})
_BLOCKS: Final = frozenset({
    "address", "article", "aside", "body", "details", "dialog", "fieldset", "figcaption", "figure", "footer", "form",
    "header", "main", "section", "summary",
})  # fmt: skip
_KEPT: Final = frozenset({
    "a", "b", "blockquote", "caption", "code", "dd", "del", "div", "dl", "dt", "em", "h1", "h2", "h3", "h4", "h5", "h6",
    "i", "kbd", "li", "ol", "p", "pre", "s", "samp", "strong", "sub", "sup", "table", "td", "th", "tr", "ul",
})  # fmt: skip
_INDENTING: Final = frozenset({"blockquote", "dl", "ol", "table", "ul"})
_VOID: Final = frozenset({"br", "hr", "img"})
# What a tag closes that was left open, and where the search for it ends.
_CELLS: Final = (frozenset({"td", "th"}), frozenset({"tr", "table"}))
_TERMS: Final = (frozenset({"dt", "dd"}), frozenset({"dl"}))
_PARAGRAPH: Final = (frozenset({"p"}), frozenset({"blockquote", "dd", "div", "dt", "li", "table", "td", "th"}))  # fmt: skip
_CLOSES: Final = {
    "a": (frozenset({"a"}), frozenset({"td", "th", "li", "table"})),
    "dd": _TERMS,
    "dt": _TERMS,
    "li": (frozenset({"li"}), frozenset({"ul", "ol"})),
    "td": _CELLS,
    "th": _CELLS,
    "tr": (frozenset({"tr", "caption"}), frozenset({"table"})),
    **dict.fromkeys(
        ("blockquote", "div", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "ol", "p", "pre", "table", "ul"), _PARAGRAPH
    ),
}  # fmt: skip


class Page(NamedTuple):
    """A page as text: its title, its Markdown, and whether all of it was read."""

    title: str
    text: str
    is_whole: bool


async def page_of(
    body: bytes, url: str, charset: str | None, *, deadline_s: float = DEADLINE_S
) -> Page:
    """Return a page as Markdown. It is made in a thread.

    Raises:
        ToolError: it cannot be made in time.
    """
    work = _Work()
    try:
        async with asyncio.timeout(deadline_s):
            return cast("Page", await in_thread(lambda: _page(work, body, url, charset)))
    except TimeoutError:
        told = f"The page is too complicated to be turned into text in {deadline_s:g} s."
        raise ToolError(f"{told} Read another one.") from None
    finally:
        work.is_given_up = True


class _GivenUp(Exception):
    """Nobody waits any more."""


class _Work:
    """Whether anyone still waits for a page."""

    is_given_up = False

    def go_on(self) -> None:
        if self.is_given_up:
            raise _GivenUp


def _page(work: _Work, body: bytes, url: str, charset: str | None) -> Page:
    html = _text(body, charset)
    written = _Rewriter(url)
    for tag, text in _tokens(html[:MAX_CHARS]):
        work.go_on()
        if written.is_full:
            break
        written.take(tag, text)
    text = _LINES.sub("\n\n", _markdown(written.html(), work)).strip().translate(_BACK)
    is_whole = len(html) <= MAX_CHARS and not written.is_full and len(text) <= MAX_CHARS
    return Page(written.title, clean_text(text[:MAX_CHARS]), is_whole)


def _text(body: bytes, charset: str | None) -> str:
    named = _META.search(body[:4096]) if charset is None else None
    if named is not None:
        found = known_charset(named[1].decode())
        # Were it written in UTF-16, this could not have been read.
        charset = None if found is not None and found.startswith("utf-16") else found
    return decoded(body, charset or "utf-8", MAX_CHARS + 1)


# --------------------------------------------------------------------------------------- reading


def _tokens(html: str) -> Iterator[tuple[str, str]]:
    """Yield the tags and texts of a page: `("p", "<p …>")`, `("/p", "")`, `("", text)`, and raw text with its tag."""
    at, end = 0, len(html)
    while at < end:
        markup = _MARKUP.search(html, at)
        begin = end if markup is None else markup.start()
        if begin > at:
            yield "", html[at:begin]
        name = _NAME.match(html, begin)
        if name is None:
            at = _behind_other(html, begin)
            continue
        tag, (at, written) = name[1].lower(), _behind_tag(html, begin, name.end())
        if html[begin + 1] == "/":
            yield f"/{tag}", ""
        elif tag in _RAW:
            closed = _RAW[tag].search(html, at)
            stop = closed.start() if closed else end
            yield tag, html[at:stop]
            at = stop
        else:
            yield tag, written


def _behind_tag(html: str, begin: int, at: int) -> tuple[int, str]:
    """Return where the text goes on behind a tag, and the tag as it is written; one that is too long has no attributes."""
    limit = min(len(html), begin + _MAX_TAG_CHARS)
    rest = _REST.match(html, at, limit)
    if rest is not None:
        return rest.end(), html[at : rest.end()]
    close = html.find(">", limit)  # no sooner: what was read once would be read again and again
    return (len(html) if close < 0 else close + 1), ""


def _behind_other(html: str, begin: int) -> int:
    """Return where the text goes on behind a comment, a declaration or an end of nothing."""
    mark = "-->" if html.startswith("<!--", begin) else ">"
    close = html.find(mark, begin + 2)
    return len(html) if close < 0 else close + len(mark)


# --------------------------------------------------------------------------------------- writing


class _Rewriter:
    """Writes a page anew, as Law 2 says."""

    def __init__(self, url: str) -> None:
        self.title = ""
        self._url = url
        self._is_based = False
        self._out: list[str] = []
        self._open: list[str] = []
        self._skipped: list[str] = []
        self._n_tags = 0
        self._n_chars = 0

    @property
    def is_full(self) -> bool:
        """Whether no more is to be written."""
        return self._n_chars > _MAX_WRITTEN

    def take(self, tag: str, text: str) -> None:
        """Take one token of the page."""
        if not tag:
            self._say(text)
        elif tag.startswith("/"):
            self._end(tag[1:])
        elif tag == "title":
            if not self.title and not self._skipped:
                self.title = clean_text(" ".join(_unescaped(text[:_MAX_TITLE]).split()))
        elif tag == "textarea":
            self._say(text)
        elif tag not in _RAW:
            self._begin(tag, text)

    def _say(self, text: str) -> None:
        if self._skipped:
            return
        text = _unescaped(text)
        if "pre" not in self._open:
            text = _BLANK.sub(" ", text)
            if text.startswith(" ") and self._out and self._out[-1].endswith(" "):
                text = text[1:]
        if text:
            self._write(text.translate(_STAND_INS))

    def _write(self, piece: str) -> None:
        self._out.append(piece)
        self._n_chars += len(piece)

    def html(self) -> str:
        """Return all that was written, with every tag closed."""
        self._close_down_to(0)
        return "".join(self._out)

    def _begin(self, tag: str, written: str) -> None:
        if self._skipped:
            if tag not in _SURELY_SEEN:
                if tag == self._skipped[0]:
                    self._skipped.append(tag)
                return
            self._skipped.clear()
        if tag in _INVISIBLE:
            self._skipped.append(tag)
            return
        if tag == "base" and not self._is_based:
            address = self._addresses(written).get("href")
            self._is_based, self._url = bool(address), address or self._url
        tag = "div" if tag in _BLOCKS else tag
        if tag not in _KEPT and tag not in _VOID:
            return
        if tag in _CLOSES:
            self._close_one_of(*_CLOSES[tag])
        self._n_tags += 1
        if not self._has_room(tag):
            self._say(" ")
            return
        self._write(f"<{tag}{self._attributes(tag, written)}>")
        if tag not in _VOID:
            self._open.append(tag)

    def _has_room(self, tag: str) -> bool:
        if self._n_tags > _MAX_TAGS or len(self._open) >= _MAX_DEPTH:
            return False
        return (
            tag not in _INDENTING or sum(each in _INDENTING for each in self._open) < _MAX_INDENTS
        )

    def _end(self, tag: str) -> None:
        if self._skipped:
            if tag == self._skipped[0]:
                self._skipped.pop()
            return
        tag = "div" if tag in _BLOCKS else tag
        if tag in self._open:
            self._close_down_to(len(self._open) - 1 - self._open[::-1].index(tag))

    def _close_one_of(self, tags: frozenset[str], until: frozenset[str]) -> None:
        for at in range(len(self._open) - 1, -1, -1):
            if self._open[at] in tags:
                self._close_down_to(at)
                return
            if self._open[at] in until:
                return

    def _close_down_to(self, depth: int) -> None:
        while len(self._open) > depth:
            self._write(f"</{self._open.pop()}>")

    def _attributes(self, tag: str, written: str) -> str:
        if tag not in ("a", "img"):
            return ""
        found = self._addresses(written)
        wanted = ("href",) if tag == "a" else ("src", "alt")
        return "".join(
            f' {name}="{escape(found[name])}"' for name in wanted if found.get(name)
        )  # fmt: skip

    def _addresses(self, written: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for match in _ATTRIBUTE.finditer(written):
            name = match[1].lower()
            if name in _READ and name not in found:
                value = _unescaped(match[2] or match[3] or match[4] or "")
                found[name] = value[:_MAX_TITLE] if name == "alt" else self._address(value)
        return found

    def _address(self, value: str) -> str:
        if not value or len(value) > _MAX_ADDRESS:
            return ""
        try:
            joined = urljoin(self._url, value.strip())
        except ValueError:
            return ""
        is_link = len(joined) <= _MAX_ADDRESS and joined.startswith(("https://", "http://"))
        return joined if is_link else ""


def _unescaped(text: str) -> str:
    # A number of thousands of digits is an error of its own to Python.
    return unescape(_LONG_NUMBER.sub("\ufffd", text)) if "&" in text else text


def _markdown(html: str, work: _Work) -> str:
    import markdownify  # noqa: PLC0415 - an extra: the tool looked for it when it was made
    from bs4 import BeautifulSoup  # noqa: PLC0415 - comes with it

    class Converter(markdownify.MarkdownConverter):
        """Looks whether to go on, counts the items of a list as they come, and takes code as it is."""

        n_items: dict[int, int]

        def process_tag(self, node: Any, parent_tags: Any = None) -> str:  # noqa: ANN401 - its shape
            work.go_on()
            return str(super().process_tag(node, parent_tags=parent_tags))  # type: ignore[misc]  # it has no types

        def convert_li(self, el: Any, text: str, parent_tags: Any) -> str:  # noqa: ANN401 - its shape
            # The library looks at all items before this one, for each of them.
            if el.parent is None or el.parent.name != "ol":
                return str(super().convert_li(el, text, parent_tags))  # type: ignore[misc]  # as above
            number = self.n_items[id(el.parent)] = self.n_items.get(id(el.parent), 0) + 1
            mark = f"{number}. "
            first, *more = (text or "").strip().split("\n")
            lines = [
                (mark + first).rstrip(),
                *(" " * len(mark) + line if line else "" for line in more),
            ]
            return "\n".join(lines) + "\n"

        def convert_pre(self, el: Any, text: str, parent_tags: Any) -> str:  # noqa: ANN401, ARG002 - its shape
            # The library looks for blanks around code in a time that grows with their square.
            return text if "pre" in parent_tags else _code_block(text)

    converter = Converter(
        heading_style="ATX",
        bullets="-",
        autolinks=False,
        escape_asterisks=False,
        escape_underscores=False,
    )
    converter.n_items = {}
    soup = BeautifulSoup(html, "html.parser")
    work.go_on()
    try:
        return str(converter.convert_soup(soup))
    finally:
        soup.decompose()


def _code_block(text: str) -> str:
    first = text.rfind("\n", 0, len(text) - len(text.lstrip(" \n"))) + 1
    lines = text[first:].rstrip(" \n").split("\n")
    code = "\n".join(line if line.strip() else _EMPTY for line in lines)
    return f"\n\n```\n{code}\n```\n\n" if code != _EMPTY else "\n\n"
