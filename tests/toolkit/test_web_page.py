"""A page as Markdown: what a reader sees of it; and a page that means harm ends in time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.limits import HANGS_S
from windlass.errors import ToolError
from windlass.toolkit.web import page as web_page
from windlass.toolkit.web.page import Page, page_of
from windlass.tools.threads import in_thread

URL = "https://a.example/docs/"


async def read(html: str | bytes, charset: str | None = None, *, url: str = URL) -> Page:
    body = html if isinstance(html, bytes) else html.encode()
    async with asyncio.timeout(HANGS_S):
        return await page_of(body, url, charset)


async def text_of(html: str | bytes) -> str:
    return (await read(html)).text


PAGE = """<!doctype html><html><head><title> A
 &lt;title&gt; </title><script>no("<p>script</p>")</script><style>p { no: style }</style></head>
<body><nav><ul><li>Menu<nav>inner</nav></ul></nav><h1>Head &amp; shoulders</h1>
<p>One <b>bold</b> and <em>leaning</em> &lt;tag&gt; <a href="../x?b=1&amp;c=2">link_x</a>.
<p>Two
   lines<br>here
<ol><li>one<li>two<ul><li>in<li>side</ul><li>three</ol>
<table><thead><tr><th>A<th>B</thead><tbody><tr><td>1<td>2</table>
<pre><code>def f():
    return "&lt;"
</code></pre><blockquote><p>quoted</p></blockquote>
<img src="p.png" alt="a picture"><a href="javascript:alert(1)">no link</a>
<!-- a comment --><svg><text>drawn</text></svg><template>hidden</template>
<noscript>no script</noscript><footer>The end</footer></body></html>"""
MARKDOWN = """# Head & shoulders

One **bold** and *leaning* <tag> [link_x](https://a.example/x?b=1&c=2).

Two lines\x20\x20
here

1. one
2. two
   - in
   - side
3. three

| A | B |
| --- | --- |
| 1 | 2 |

```
def f():
    return "<"
```

> quoted

![a picture](https://a.example/docs/p.png)no link

The end"""


async def test_a_page_is_what_a_reader_sees_of_it() -> None:
    page = await read(PAGE)

    assert page == Page("A <title>", MARKDOWN, is_whole=True)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("", ""),
        ("plain words", "plain words"),
        ("a < b and c > d & e", "a < b and c > d & e"),
        ("<p>a</b></div></p>b", "a\n\nb"),
        ("<DIV CLASS=x>a</DIV><DiV>b</dIv>", "a\n\nb"),
        ("<a href='https://b.example/?x=\"'>q</a>", '[q](https://b.example/?x=")'),
        ("<a href=//b.example/y>r</a>", "[r](https://b.example/y)"),
        ("<a title='>' href=/z>s</a>", "[s](https://a.example/z)"),
        ("<a href = '/z?>' >s</a>", "[s](https://a.example/z?>)"),
        ("<p title=don't>a</p><p>it's</p>", "a\n\nit's"),
        ('<p title="5" inch">a</p>b', "a\n\nb"),
        ("<p title='never closed>a</p><p>b</p>", "a\n\nb"),
        (f"<img src='data:image/png;base64,{'A' * 20_000}=='>after<p>that", "![]()after\n\nthat"),
        ("<a href='data:text/html,x'>t</a><img src='data:image/png;base64,AAAA' alt=u>", "t![u]()"),
        ("<a href='http://[::1'>v</a>", "v"),
        ("<a data-href=/no xlink:href=/no HREF=/yes>w</a>", "[w](https://a.example/yes)"),
        ("<a title='see href=/no' href=/yes href=/no>w</a>", "[w](https://a.example/yes)"),
        ("<a disabled href=/yes>w</a>", "[w](https://a.example/yes)"),
        ("<img data-src=/no src=/yes alt=x>", "![x](https://a.example/yes)"),
        ("<base href=//b.example/e/><base href=/no><a href=f>x</a>", "[x](https://b.example/e/f)"),
        ("<base target=x><base href=e/><a href=f>x</a>", "[x](https://a.example/docs/e/f)"),
        ("<base href='javascript:x'><a href=f>x</a>", "[x](https://a.example/docs/f)"),
        ("<pre>\n\n  a\n\n \n\nb  \n\n</pre>c", "```\n  a\n\n\n\nb\n```\n\nc"),
        ("<pre>a<pre>b</pre></pre>", "```\nab\n```"),
        ("<pre> \n </pre>a<pre></pre>b", "a\n\nb"),
        ("<ul><li><pre>a\n\nb</pre></ul>", "- ```\n  a\n  \n  b\n  ```"),
        ("<script>1 < 2</script>after", "after"),
        ("<script>never closed <p>x", ""),
        ("<!-- never closed <p>x", ""),
        ("a<!-->b--><p>c", "ab-->\n\nc"),
        ("a<!-- b <p> - -> -->c<!d>e<?f?>g</>h", "acegh"),
        ("<nav>menu<h1>Head</h1>", "# Head"),
        ("<nav>menu<main>body</main>", "body"),
        ("<textarea><b>typed</b></textarea>", "<b>typed</b>"),
        ("<p>a<p>b<p>c", "a\n\nb\n\nc"),
        ("<ol><li><li>b<li>c</ol>", "1.\n2. b\n3. c"),
        ("<dl><dt>term<dd>meaning<dt>two<dd>more</dl>", "term\n:   meaning\n\ntwo\n:   more"),
        ("<h7>x</h7><blink>y</blink><o:p>z</o:p>", "xyz"),
        ("&#0;&#xD800;&nbsp;&bogus;&#1114112;", "\ufffd\ufffd\xa0&bogus;\ufffd"),
        ("a\x00b\ue000c\ue001\ue002", "a\ufffdb\ufffdc\ufffd\ufffd"),
        ("<", "<"),
        ("<3 you", "<3 you"),
    ],
)  # fmt: skip
async def test_odd_pages_are_read_as_browsers_read_them_or_nearly(html: str, text: str) -> None:
    assert await text_of(html) == text


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("grün".encode(), None, "grün"),
        (b"gr\xfcn", "cp1252", "grün"),
        (b'<meta charset="iso-8859-1"><p>gr\xfcn', None, "grün"),
        (b"<META content='text/html; charset=windows-1251' http-equiv=x><p>\xe4\xe0", None, "да"),
        (b"<meta charset=utf-16><p>plain", None, "plain"),
        (b"<meta charset=zlib><p>plain", None, "plain"),
        (b"\xed\xa0\x80\xff", None, "\ufffd\ufffd\ufffd\ufffd"),
    ],
)
async def test_a_page_may_say_itself_how_it_is_written(
    body: bytes, charset: str | None, text: str
) -> None:
    assert (await read(body, charset)).text == text


async def test_a_page_that_is_too_long_is_read_in_part() -> None:
    page = await read("<p>" + "x" * 1_100_000)

    assert (len(page.text), page.is_whole) == (999_997, False)


async def test_a_link_is_as_long_as_an_address_may_be_and_a_longer_one_is_left_out() -> None:
    """What stands in a page is joined with its own address: the sum counts, not the part."""
    longest = "https://a.example/" + "x" * (1_000 - len("https://a.example/"))

    assert (await read(f"<a href='{longest}'>a</a>")).text == f"[a]({longest})"
    assert (await read(f"<a href='{longest}y'>a</a>")).text == "a"
    assert (await read("<a href='y'>a</a>", url="https://a.example/" + "x" * 979 + "/")).text == (
        f"[a](https://a.example/{'x' * 979}/y)"
    )
    assert (
        await read("<a href='yz'>a</a>", url="https://a.example/" + "x" * 980 + "/")
    ).text == "a"


@pytest.mark.parametrize(
    "html",
    [
        "<ul><li>" * 8 + "<pre>" + "a\n" * 490_000,
        "<a href=x>y</a>" * 12_000,
        ("<a href='" + '"' * 60 + "'>y</a>\n") * 1_900,
    ],
    ids=["lines that are moved in", "short links on a long address", "quotes that are written out"],
)
async def test_no_page_grows_beyond_what_is_read_of_one(
    html: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, real = list[int](), web_page._markdown

    def watched(html: str, work: web_page._Work) -> str:
        written.append(len(html))
        return real(html, work)

    monkeypatch.setattr(web_page, "_markdown", watched)
    page = await read(html, url="https://a.example/" + "x" * 900 + "/")

    assert (len(page.text) <= 1_000_000, page.is_whole) == (True, False)
    assert written[0] < 2_010_000


# ------------------------------------------------------------------------------- pages that harm

SIZE = 100_000
HARMFUL: dict[str, Callable[[], str]] = {
    "10,000 levels": lambda: "<div>" * 10_000 + "deep" + "</div>" * 10_000,
    "lists in quotes": lambda: "<ul><li><blockquote>" * 5_000 + "x\n" * 1_000,
    "tables in tables": lambda: "<table><tr><td>" * (SIZE // 15),
    "one huge attribute": lambda: "<a href='" + "x" * SIZE + "'>t</a>",
    "huge attributes": lambda: ("<a href='" + "x" * 17_000 + "'>t</a>") * 50,
    "an attribute without end": lambda: "<a x='" * (SIZE // 6),
    "quotes that hide ends": lambda: "<a x='>'" * (SIZE // 8),
    "quotes outside of values": lambda: '<a ">"' * (SIZE // 6),
    "quotes that cross": lambda: "<a '><b \">" * (SIZE // 10),
    "blanks in a tag": lambda: "<a" + " " * SIZE,
    "blanks in tags": lambda: ("<a" + " " * 1_000) * (SIZE // 1_000),
    "nothing is closed": lambda: "<p>a<li>b<td>c<b>" * (SIZE // 20),
    "only bold": lambda: "<b>" * (SIZE // 3) + "x",
    "only ends": lambda: "<div>" * 40 + "</p>" * (SIZE // 4),
    "one long list": lambda: "<ol>" + "<li>a" * (SIZE // 5),
    "one long table": lambda: "<table><thead>" + "<tr><td colspan=1000>a" * (SIZE // 22),
    "comments without end": lambda: "<!--" * (SIZE // 4),
    "less-than signs": lambda: "<" * SIZE,
    "ends of nothing": lambda: "</" * (SIZE // 2),
    "declarations": lambda: "<!" * (SIZE // 2),
    "sections": lambda: "<![CDATA[" * (SIZE // 9),
    "entities": lambda: "&amp;" * (SIZE // 5),
    "half entities": lambda: "&#" * (SIZE // 2),
    "a number of a million digits": lambda: "&#" + "9" * SIZE + ";",
    "blank lines": lambda: "\n" * SIZE + "x",
    "blanks and a word": lambda: (" " * 999 + "x") * (SIZE // 1_000),
    "blanks in pre": lambda: "<pre>" + " " * (SIZE // 2) + "x" + " " * (SIZE // 2),
    "blanks between tags in pre": lambda: "<pre>x" + (" " * 79 + "<x>") * (SIZE // 82) + "y",
    "backticks": lambda: "<code>" + "` " * (SIZE // 2),
    "scripts": lambda: "<script>" * (SIZE // 8),
    "scripts that nearly end": lambda: "<script></scrip" * (SIZE // 15),
}


ORDINARY = "<p>An <b>ordinary</b> page of <a href=/x>some</a> length.</p>\n" * (SIZE // 65)


async def cost_of(html: str) -> float:
    """Return the time of the processor that a page takes, whatever else slows this machine."""
    begun = time.process_time()
    page = await page_of(html.encode(), URL, None, deadline_s=HANGS_S)
    assert len(page.text) <= 4 * SIZE
    return time.process_time() - begun


@pytest.fixture(scope="module")
async def ordinary_s() -> float:
    await cost_of(ORDINARY)  # what is imported does not count
    return await cost_of(ORDINARY)


@pytest.mark.parametrize("html", HARMFUL.values(), ids=HARMFUL.keys())
async def test_no_page_costs_much_more_than_an_ordinary_one_of_its_length(
    html: Callable[[], str], ordinary_s: float
) -> None:
    assert await cost_of(html()) < 8 * ordinary_s


async def test_what_is_given_up_on_is_told_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, done, real = list[str](), threading.Event(), web_page._page

    def watched(*args: Any) -> Page:
        try:
            return real(*args)
        except BaseException as error:
            ended.append(type(error).__name__)
            raise
        finally:
            done.set()

    monkeypatch.setattr(web_page, "_page", watched)
    with pytest.raises(ToolError) as caught:
        await page_of(("<p>a" * 250_000).encode(), URL, None, deadline_s=0.001)
    await in_thread(lambda: done.wait(HANGS_S))

    assert str(caught.value) == (
        "The page is too complicated to be turned into text in 0.001 s. Read another one."
    )
    assert ended == ["_GivenUp"]
