"""What Anthropic's own tools left in a history: how it goes back, and what stays behind so that a request is valid.

The rules are those of recorded exchanges, except where a test says that it rests on the documentation.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.models.anthropic_cases import WEATHER, assistant, call, kept, request, result, user
from tests.models.anthropic_search import (
    CITED,
    RAIN,
    RAIN_CITED,
    SEARCH_PART,
    SEARCHING,
    SENT,
    SUN,
    asked,
    found,
    sent,
    used,
    words,
)
from tests.models.behaviours import KEY, ClosableModel, ask
from tests.models.wire_rules import RULES
from tests.models.wire_server import Played, WireServer
from windlass.errors import Rejected
from windlass.kernel import Generation, Text
from windlass.kernel.messages import ServerToolCall
from windlass.kernel.model_call import ServerTool
from windlass.models.google import GoogleModel
from windlass.models.openai_chat import OpenAIChatModel
from windlass.models.openai_responses import OpenAIResponsesModel


async def test_a_search_goes_back_with_its_citations() -> None:
    said = assistant(SEARCH_PART, Text(text="It says: "), CITED)
    talk = await sent(user("Weather?"), said, user("Tomorrow?"))
    cited = {**words("rain until noon"), "citations": [RAIN_CITED]}
    assert talk[1] == ("assistant", [*SENT, words("It says: "), cited])


async def test_citations_stay_behind_without_what_they_refer_to() -> None:
    talk = await sent(user("Weather?"), assistant(CITED), user("Tomorrow?"))
    assert talk[1] == ("assistant", [words("rain until noon")])


async def test_another_route_gets_the_words_alone() -> None:
    _, _, [seen] = await asked(
        request(user("Weather?"), assistant(SEARCH_PART, CITED), user("Tomorrow?")),
        model="claude-opus-5",
    )
    assert seen.json["messages"][1]["content"] == [words("rain until noon")]
    for secret in (RAIN["encrypted_content"], RAIN_CITED["encrypted_index"], "srv_1"):
        assert secret.encode() not in seen.body


async def test_a_document_that_is_cited_has_to_be_there() -> None:
    """By the documentation: a citation numbers the documents of the request."""
    where = {"type": "char_location", "document_index": 0, "cited_text": "G", "document_title": "N"}
    cited = Text(text="Green", replay=kept({"citations": [where]}))
    fetched = [
        {**used("srv_1", ""), "name": "web_fetch", "input": {"url": "https://a.example"}},
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "srv_1",
            "content": {"type": "web_fetch_result", "content": {"type": "document", "source": {}}},
        },
    ]
    ran = ServerToolCall(name="web_fetch", replay=kept(fetched))
    for parts, is_cited in (((ran, cited), True), ((cited,), False)):
        talk = await sent(user("Colour?"), assistant(*parts), user("Sure?"))
        assert ("citations" in talk[1][1][-1]) is is_cited


OPEN = ServerToolCall(name="web_search", replay=kept([used("srv_9", "Rome")]))
LATE = ServerToolCall(name="web_search", replay=kept([found("srv_9", SUN)]))


async def test_a_call_goes_back_while_its_result_is_still_to_come() -> None:
    """Recorded: beside a call of the caller's own tool, the result comes with the next reply."""
    begun = [user("W?"), assistant(OPEN, call("c1", "Paris", "")), user(result("c1", "sunny"))]
    talk = await sent(*begun, tools=(WEATHER,), generation=SEARCHING)
    assert [block["type"] for block in talk[1][1]] == ["server_tool_use", "tool_use"]
    whole = [*begun, assistant(LATE, "Sunny."), user("Thanks.")]
    talk = await sent(*whole, tools=(WEATHER,), generation=SEARCHING)
    assert [block["type"] for block in talk[1][1]] == ["server_tool_use", "tool_use"]
    assert talk[3] == ("assistant", [found("srv_9", SUN), words("Sunny.")])


@pytest.mark.parametrize("beside", [(call("c1", "Paris", ""),), ("Hm.",), ()])
async def test_a_call_without_its_result_is_left_behind_once_there_are_words(
    beside: tuple[object, ...],
) -> None:
    """Reported: "… was found without a corresponding `web_search_tool_result` block"."""
    results = (result("c1", "sunny"),) if beside and not isinstance(beside[0], str) else ()
    talk = await sent(user("W?"), assistant(OPEN, *beside), user(*results, "And?"))
    assert "srv_9" not in str(talk)
    roles = [role for role, _ in talk]
    assert roles == (["user", "assistant", "user"] if beside else ["user"])


async def test_a_result_without_its_call_is_left_behind() -> None:
    talk = await sent(user("W?"), assistant(LATE, "Sunny."), user("And?"))
    assert talk[1] == ("assistant", [words("Sunny.")])


async def test_a_tool_that_has_to_be_offered_is_left_behind_where_it_is_not() -> None:
    """By the documentation: blocks of the advisor are refused without the advisor."""
    advised = [
        {**used("srv_1", ""), "name": "advisor", "input": {}},
        {"type": "advisor_tool_result", "tool_use_id": "srv_1", "content": {"text": "4."}},
    ]
    part = ServerToolCall(name="advisor", replay=kept(advised))
    spec = {"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-4-8"}
    offered = Generation(server_tools=(ServerTool(provider="anthropic", spec=spec),))
    for generation, blocks in ((offered, [*advised, words("4")]), (Generation(), [words("4")])):
        talk = await sent(user("2+2?"), assistant(part, "4"), user("+1?"), generation=generation)
        assert talk[1][1] == blocks


@pytest.mark.parametrize("harm", ["no result", "no call"])
def test_the_rules_see_a_harmed_history(harm: str) -> None:
    """The rules that `sent` asks can fail."""
    blocks = SENT[:1] if harm == "no result" else SENT[1:]
    turns = [("user", [words("Hi")]), ("assistant", blocks), ("user", [words("And?")])]
    body = {"messages": [{"role": role, "content": content} for role, content in turns]}
    assert len(RULES["anthropic"](body)) == 1


OTHERS: dict[str, Callable[[str], ClosableModel]] = {
    "POST /v1/responses": lambda url: OpenAIResponsesModel("gpt-5", base_url=url, api_key=KEY),
    "POST /v1/chat/completions": lambda url: OpenAIChatModel("m", base_url=url, api_key=KEY),
    "POST /v1beta/models/gemini-2.5-flash:streamGenerateContent": lambda url: GoogleModel(
        "gemini-2.5-flash", base_url=url.removesuffix("/v1"), api_key=KEY
    ),
}


@pytest.mark.parametrize("path", OTHERS)
async def test_another_provider_gets_the_words_alone(path: str) -> None:
    refused = Played(b"{}", 400, {}, "application/json")
    async with WireServer({path: refused}) as server:
        model = OTHERS[path](f"{server.url}/v1")
        talk = (user("W?"), assistant(SEARCH_PART, CITED), user("And?"), assistant(LATE), user("?"))
        with pytest.raises(Rejected):
            await ask(model, request(*talk))
        await model.aclose()
    [seen] = server.requests
    assert b"rain until noon" in seen.body
    for secret in (RAIN["encrypted_content"], RAIN_CITED["encrypted_index"], "srv_"):
        assert secret.encode() not in seen.body
