"""What Gemini searched for, and which of its words rest on which page.

The shapes are those of recorded replies: counts are bytes of UTF-8 over all words, without `partIndex`, and at times
wrong by a few. `partIndex`, `citationMetadata` and maps rest on documentation alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.models.behaviours import ask
from tests.models.google_cases import ADD, SHAPE, SIGNATURE, TEXT, Google, assistant, request, user
from tests.models.wire_google import ended, said, stream
from windlass.errors import InvalidInput, Malformed
from windlass.kernel import (
    Citation,
    Generation,
    ModelReply,
    ServerTool,
    ServerToolCall,
    Text,
    WebSearch,
)
from windlass.models.capabilities import capabilities_of

GOOGLE = Google()
SEARCHING = Generation(server_tools=(WebSearch(),))
ZURICH = {"web": {"uri": "https://zuerich.test/see", "title": "zuerich.test"}}
BERN = {"web": {"uri": "https://bern.test/", "title": "bern.test"}}


def support(start: int, end: int, text: str, *chunks: int, **segment: Any) -> dict[str, Any]:
    """A support as Gemini writes it: an index of 0 is left out."""
    place = {"endIndex": end, "text": text, **({"startIndex": start} if start else {}), **segment}
    return {"segment": place, "groundingChunkIndices": list(chunks)}


def grounded(
    chunk: dict[str, Any], *supports: dict[str, Any], queries: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The event with what its words rest on."""
    found: dict[str, Any] = {
        "groundingChunks": [ZURICH, BERN],
        "groundingSupports": list(supports),
        "searchEntryPoint": {"renderedContent": "<div>suggestions</div>"},
    }
    if queries:
        found["webSearchQueries"] = list(queries)
    chunk["candidates"][0]["groundingMetadata"] = found
    return chunk


async def replied(*chunks: dict[str, Any]) -> ModelReply:
    async with GOOGLE.playing(stream(*chunks)) as (_, model):
        reply, _ = await ask(model, request(generation=SEARCHING))
    return reply


def cited(reply: ModelReply) -> list[tuple[str, str]]:
    """Each page with the words that rest on it."""
    return [
        (each.title, part.text[each.start : each.end])
        for part in reply.parts
        if isinstance(part, Text)
        for each in part.citations
        if each.start is not None
    ]


# --- what is asked for ------------------------------------------------------------------------------


async def test_a_search_is_asked_for() -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        await ask(model, request(generation=SEARCHING))
    body = server.requests[0].json
    assert body["tools"] == [{"googleSearch": {}}]
    assert "toolConfig" not in body


@pytest.mark.parametrize(
    ("search", "field"),
    [
        (WebSearch(max_uses=3), "max_uses"),
        (WebSearch(allowed_domains=("a.test",)), "allowed_domains"),
        (WebSearch(blocked_domains=("a.test",)), "blocked_domains"),
    ],
)
async def test_a_limit_that_the_search_does_not_have_is_refused(
    search: WebSearch, field: str
) -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        with pytest.raises(InvalidInput, match=f"WebSearch.{field}"):
            await ask(model, request(generation=Generation(server_tools=(search,))))
    assert server.requests == []


async def test_older_models_do_not_search_beside_tools() -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        with pytest.raises(InvalidInput, match=r"Generation.server_tools"):
            await ask(model, request(tools=(ADD,), generation=SEARCHING))
    assert server.requests == []


async def test_gemini_3_searches_beside_tools_and_shows_it() -> None:
    can = capabilities_of("google", "gemini-3-flash")
    async with GOOGLE.playing(TEXT.answer, capabilities=can) as (server, model):
        await ask(model, request(tools=(ADD,), tool_choice="required", generation=SEARCHING))
    body = server.requests[0].json
    search, declared = body["tools"]
    assert search == {"googleSearch": {}}
    assert [each["name"] for each in declared["functionDeclarations"]] == ["add"]
    assert body["toolConfig"] == {
        "functionCallingConfig": {"mode": "ANY"},
        "includeServerSideToolInvocations": True,
    }


async def test_another_tool_goes_as_it_is_written() -> None:
    tools = (
        ServerTool(provider="google", spec={"code_execution": {}}),
        ServerTool(provider="google", spec={"toolOfTomorrow": {"limits": [1, 2]}}),
    )
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        await ask(model, request(generation=Generation(server_tools=tools)))
    assert server.requests[0].json["tools"] == [
        {"code_execution": {}},
        {"toolOfTomorrow": {"limits": [1, 2]}},
    ]


async def test_a_tool_of_another_provider_is_refused() -> None:
    tools = (ServerTool(provider="anthropic", spec={"type": "web_fetch"}),)
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        with pytest.raises(InvalidInput, match="anthropic"):
            await ask(model, request(generation=Generation(server_tools=tools)))
    assert server.requests == []


async def test_a_schema_beside_a_search_is_told_in_words_where_both_do_not_go() -> None:
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        await ask(model, request(output=SHAPE, generation=SEARCHING))
    body = server.requests[0].json
    assert "responseJsonSchema" not in body["generationConfig"]
    assert '"city"' in body["systemInstruction"]["parts"][0]["text"]


# --- what comes of it -------------------------------------------------------------------------------


async def test_bytes_of_all_words_become_characters_of_a_text() -> None:
    # "Grüezi! " has 9 bytes, "Zürich 🌍 liegt am See." has 26, and a blank follows.
    reply = await replied(
        said({"text": "Grüezi! Zürich 🌍"}),
        said({"text": " liegt am See. Bern "}),
        grounded(
            ended({"text": "an der Aare."}),
            support(9, 35, "Zürich 🌍 liegt am See.", 0, 1),
            support(36, 53, "Bern an der Aare.", 1),
            queries=("Zürich See", "", "Bern Fluss", "Zürich See"),
        ),
    )
    assert reply.parts == (
        ServerToolCall(name="web_search", text="Zürich See"),
        ServerToolCall(name="web_search", text="Bern Fluss"),
        Text(
            text="Grüezi! Zürich 🌍 liegt am See. Bern an der Aare.",
            citations=(
                Citation(url="https://zuerich.test/see", title="zuerich.test", start=8, end=30),
                Citation(url="https://bern.test/", title="bern.test", start=8, end=30),
                Citation(url="https://bern.test/", title="bern.test", start=31, end=48),
            ),
        ),
    )
    assert reply.diagnostic is None


async def test_a_place_that_is_wrong_by_some_bytes_is_that_of_the_words() -> None:
    words = "Bern is old. Zürich is large. Bern is old."
    late = grounded(ended({"text": words}), support(30, 44, "Bern is old.", 1))
    early = grounded(ended({"text": words}), support(2, 14, "Bern is old.", 1))
    for chunk, start in ((late, 30), (early, 0)):
        [text] = (await replied(chunk)).parts
        assert isinstance(text, Text)
        [_, found] = sorted(text.citations, key=lambda each: each.start is not None)
        assert (found.start, found.end) == (start, start + 12)


async def test_words_over_two_texts_are_cited_in_both() -> None:
    reply = await replied(
        said({"text": "Zürich is", "thoughtSignature": SIGNATURE}),
        grounded(ended({"text": " large."}), support(0, 17, "Zürich is large.", 0)),
    )
    assert cited(reply) == [("zuerich.test", "Zürich is"), ("zuerich.test", " large.")]


async def test_a_count_within_a_part_is_found_by_its_words() -> None:
    reply = await replied(
        said({"text": "Bern! ", "thoughtSignature": SIGNATURE}),
        grounded(
            ended({"text": "Oh, Bern! Old Bern!"}),
            support(14, 19, "Bern!", 1, partIndex=1),
            support(4, 9, "Bern!", 0, partIndex=1),
        ),
    )
    [_, second] = reply.parts
    assert isinstance(second, Text)
    assert [(each.title, each.start, each.end) for each in second.citations] == [
        ("bern.test", 14, 19),
        ("zuerich.test", 4, 9),
    ]


@pytest.mark.parametrize(
    "segment",
    [
        {"startIndex": 0, "endIndex": 5, "text": "elsewhere"},
        {"startIndex": 4, "endIndex": 4},
        {"startIndex": -3, "endIndex": 4},
        {"startIndex": "0", "endIndex": 5},
        {"startIndex": 0, "endIndex": 500},
        {"startIndex": 0, "endIndex": 2, "partIndex": 3},
        {},
    ],
)
async def test_a_page_without_a_certain_place_is_kept_without_one(segment: dict[str, Any]) -> None:
    rests = {"segment": segment, "groundingChunkIndices": [0, 7, -1, "1"]}
    [text] = (await replied(grounded(ended({"text": "Bern."}), rests))).parts
    assert isinstance(text, Text)
    assert text.citations == (
        Citation(url="https://zuerich.test/see", title="zuerich.test"),
        Citation(url="https://bern.test/", title="bern.test"),
    )


async def test_a_place_without_words_to_check_it_is_taken_as_it_is() -> None:
    rests = {"segment": {"startIndex": 3, "endIndex": 7}, "groundingChunkIndices": [1]}
    reply = await replied(grounded(ended({"text": "Ü, Bern."}), rests))
    assert cited(reply) == [("bern.test", " Ber")]


async def test_a_document_of_ones_own_is_cited_with_its_words() -> None:
    chunk = ended({"text": "Paid."})
    found = {"retrievedContext": {"title": "invoice.txt", "text": "Paid on May 3."}}
    chunk["candidates"][0]["groundingMetadata"] = {
        "groundingChunks": [found, {"maps": {"uri": "https://maps.test", "title": "Bank"}}],
        "groundingSupports": [support(0, 5, "Paid.", 0)],
    }
    [text] = (await replied(chunk)).parts
    assert isinstance(text, Text)
    assert text.citations == (
        Citation(title="invoice.txt", quote="Paid on May 3.", start=0, end=5),
        Citation(url="https://maps.test", title="Bank"),
    )


async def test_words_that_were_copied_are_cited() -> None:
    chunk = ended({"text": "Ü: to be or not to be"})
    copied = {"startIndex": 4, "endIndex": 22, "uri": "https://hamlet.test", "license": "none"}
    chunk["candidates"][0]["citationMetadata"] = {"citationSources": [copied]}
    [text] = (await replied(chunk)).parts
    assert isinstance(text, Text)
    assert text.citations == (Citation(url="https://hamlet.test", start=3, end=21),)


async def test_pages_that_were_read_are_told() -> None:
    chunk = ended({"text": "A library."})
    page = {"retrievedUrl": "https://a.test", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}
    chunk["candidates"][0]["urlContextMetadata"] = {"urlMetadata": [page]}
    assert (await replied(chunk)).parts == (
        ServerToolCall(name="url_context", text="https://a.test"),
        Text(text="A library."),
    )


async def test_pages_without_words_are_named() -> None:
    chunk = grounded(ended(), queries=("maps of Bern",))
    reply = await replied(chunk)
    assert reply.parts == (ServerToolCall(name="web_search", text="maps of Bern"),)
    assert reply.diagnostic == "left out of the reply: groundingMetadata"


@pytest.mark.parametrize(
    "found",
    [7, {"groundingChunks": 7}, {"groundingSupports": {}}, {"webSearchQueries": "why"}],
)
async def test_what_it_rests_on_that_is_none_is_malformed(found: object) -> None:
    chunk = ended({"text": "Hi"})
    chunk["candidates"][0]["groundingMetadata"] = found
    assert type(await GOOGLE.fault(stream(chunk))) is Malformed


async def test_empty_words_of_a_search_change_nothing() -> None:
    first = said({"text": "Hi"})
    first["candidates"][0]["groundingMetadata"] = {}
    assert (await replied(first, ended())).parts == (Text(text="Hi"),)


async def test_a_search_is_not_sent_back() -> None:
    then = ServerToolCall(name="web_search", text="Bern"), Text(text="Bern is old.")
    async with GOOGLE.playing(TEXT.answer) as (server, model):
        history = (user("Hi"), assistant(*then), user("And?"))
        await ask(model, request(*history, generation=SEARCHING))
    assert server.requests[0].json["contents"][1]["parts"] == [{"text": "Bern is old."}]
