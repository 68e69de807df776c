"""What every host does, cell by cell: a check that runs, and what the cell rests on.

`recorded`: seen in an exchange with the provider that was recorded. `documented`: its documentation, its source, or its
users say so. A cell without a check is what the host does not have.

`python -m tests.models.behaviour_table` writes docs/models/behaviours.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.models import account_cases, refusal_cases
from tests.models.behaviours import KEY, ask
from tests.models.hosts import (
    ARGUMENTS,
    CITED,
    HOSTS,
    PAGE,
    TITLE,
    Host,
    query_of,
    signature_of,
    thought_of,
)
from tests.models.refusal_cases import RECORDED, Refusal
from tests.models.wire_server import Played, Seen, WireServer
from windlass.errors import InvalidInput, ProviderError, Rejected, Throttled, Unavailable
from windlass.kernel import (
    Citation,
    Generation,
    ModelMessage,
    ModelReply,
    ModelRequest,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    WebSearch,
)
from windlass.models.openai_chat.dialects import DIALECTS
from windlass.ports.model import CallChunk, ModelEvent

PAGE_PATH = Path(__file__).parents[2] / "docs/models/behaviours.md"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec(name="weather", description="The weather.", parameters=CITY)
HI = ModelMessage(role="user", parts=(Text(text="Hi"),))
SEARCHING = Generation(server_tools=(WebSearch(),))

Check = Callable[[Host], Awaitable[None]]
Said = tuple[ModelReply, tuple[ModelEvent, ...], list[Seen]]


async def asked(host: Host, *answers: Played, **fields: object) -> Said:
    """Ask a host; return the last reply, what was shown, and what it was sent."""
    async with WireServer({host.path: list(answers)}) as server:
        model = host.make(server.url)
        try:
            request = ModelRequest(model=host.model, **{"messages": (HI,), **fields})  # type: ignore[arg-type]
            reply, shown = await ask(model, request)
            for _ in answers[1:]:
                reply, shown = await ask(model, going_on(request, reply))
        finally:
            await model.aclose()
    return reply, shown, server.requests


def going_on(request: ModelRequest, reply: ModelReply) -> ModelRequest:
    """Return the request that follows a reply, with the results of its calls."""
    results = tuple(
        ToolResult(call_id=part.call_id, name=part.name, content=(Text(text="Sunny."),))
        for part in reply.parts
        if isinstance(part, ToolCall)
    )
    said = [
        part
        for part in reply.parts
        if not isinstance(part, (Reasoning, ServerToolCall)) or part.replay is not None
    ]
    talk = (
        *request.messages,
        ModelMessage(role="assistant", parts=tuple(said)),
        ModelMessage(role="user", parts=results or (Text(text="And?"),)),
    )
    return ModelRequest(model=request.model, messages=talk, tools=request.tools)


# --- the checks ------------------------------------------------------------------------------------------


async def words(host: Host) -> None:
    reply, shown, _ = await asked(host, host.says)
    assert (reply.text, reply.terminal) == ("Sunny.", "stop")
    assert "".join(getattr(each, "text", "") for each in shown) == "Sunny."


async def calls(host: Host) -> None:
    reply, _, seen = await asked(host, host.calls(0), host.says, tools=(WEATHER,))
    assert reply.text == "Sunny."
    sent = seen[1].body
    # Both calls, and the result of each, went back.
    assert sent.count(b"Paris") >= 1
    assert sent.count(b"Rome") >= 1
    assert sent.count(b"Sunny.") == 2


async def previews(host: Host) -> None:
    reply, shown, _ = await asked(host, host.calls(0), tools=(WEATHER,))
    made = [part for part in reply.parts if isinstance(part, ToolCall)]
    chunks = [each for each in shown if isinstance(each, CallChunk)]
    assert [each.name for each in chunks] == ["weather", "weather"]
    assert [each.text.replace(" ", "") for each in chunks] == [
        each.replace(" ", "") for each in ARGUMENTS
    ]
    assert [part.args for part in made] == [{"city": "Paris"}, {"city": "Rome"}]


async def thoughts(host: Host) -> None:
    reply, _, _ = await asked(host, host.calls(0), tools=(WEATHER,))
    found = [part.text for part in reply.parts if isinstance(part, Reasoning)]
    assert found == [thought_of(host.name)]


async def thoughts_back(host: Host) -> None:
    _, _, seen = await asked(host, host.calls(0), host.says, tools=(WEATHER,))
    assert thoughts_are_in(host, seen[1])


def thoughts_are_in(host: Host, seen: Seen) -> bool:
    kept = (thought_of(host.name), signature_of(host.name))
    return any(each.encode() in seen.body for each in kept)


async def typed(host: Host) -> None:
    _, _, seen = await asked(host, host.says, output=CITY)
    assert b'"city"' in seen[0].body or b'\\"city\\"' in seen[0].body


async def cache(host: Host) -> None:
    reply, _, _ = await asked(host, host.cached)
    used = reply.usage
    assert (used.input_tokens, used.cached_input_tokens, used.output_tokens) == (10, 40, 2)


async def commentary(host: Host) -> None:
    assert host.commentary is not None
    reply, shown, seen = await asked(host, host.commentary, host.says)
    assert reply.text == "Sunny."
    assert b'"commentary"' in seen[1].body
    assert b"I look." in seen[1].body
    assert shown


async def search(host: Host) -> None:
    assert host.search is not None
    reply, _, seen = await asked(host, host.search, generation=SEARCHING)
    assert any(word in seen[0].body for word in (b"web_search", b"googleSearch"))
    [answer] = [part for part in reply.parts if isinstance(part, Text)]
    [page] = answer.citations
    assert (answer.text, page.url, page.title) == (CITED, PAGE, TITLE)
    assert (page.start, page.end) == (0, 9)
    assert Citation(url=PAGE, title=TITLE) == Citation(url=page.url, title=page.title)


async def search_back(host: Host) -> None:
    assert host.search is not None
    _, _, seen = await asked(host, host.search, host.says, generation=SEARCHING)
    assert query_of(host.name).encode() in seen[1].body


async def no_search(host: Host) -> None:
    with pytest.raises(InvalidInput, match="WebSearch"):
        await asked(host, host.says, generation=SEARCHING)


async def quiet(host: Host) -> None:
    reply, _, _ = await asked(host, host.quiet)
    assert reply.parts == ()
    assert reply.diagnostic


def refusal(cases: list[Refusal], kind: type[ProviderError], found: str | None = None) -> Check:
    """Return the check of a host's refusals of one kind, over the wire."""

    async def check(host: Host) -> None:
        for case in of_host(cases, host):
            if case.status is None:  # an error in mid-stream
                continue
            answer = Played(case.text.encode(), case.status, dict(case.headers), "application/json")
            if found in ("context_overflow", "content_filter"):
                reply, _, _ = await asked(host, answer)
                assert (reply.terminal, reply.parts) == (found, ()), case
                told = str(reply.diagnostic)
            else:
                with pytest.raises(kind) as raised:
                    await asked(host, answer)
                assert (type(raised.value), raised.value.found) == (kind, found), case
                told = str(raised.value)
            assert told.startswith(f"{host.name}: status {case.status}"), case
            assert KEY not in told

    return check


def of_host(cases: list[Refusal], host: Host) -> list[Refusal]:
    owner = {"azure-responses": "azure", "vertex-anthropic": "anthropic", "vertex": "google"}
    names = {host.name, owner.get(host.name, host.name)}
    return [each for each in cases if each.provider in names]


REFUSALS: dict[str, tuple[list[Refusal], Check]] = {
    "a request that is too long": (
        refusal_cases.OVERFLOWS,
        refusal(refusal_cases.OVERFLOWS, Rejected, "context_overflow"),
    ),
    "a filter, or moderation": (
        account_cases.FILTERED,
        refusal(account_cases.FILTERED, Rejected, "content_filter"),
    ),
    "spent credit or quota": (
        account_cases.SPENT,
        refusal(account_cases.SPENT, Rejected, "quota"),
    ),
    "too many requests": (account_cases.THROTTLED, refusal(account_cases.THROTTLED, Throttled)),
    "overloaded": (account_cases.UNAVAILABLE, refusal(account_cases.UNAVAILABLE, Unavailable)),
}
CHECKS: dict[str, Check] = {
    "words, streamed": words,
    "two calls at once, and back": calls,
    "arguments as they are written": previews,
    "thoughts are read": thoughts,
    "thoughts go back": thoughts_back,
    "typed answers": typed,
    "share of the cache": cache,
    "commentary": commentary,
    "web search and its pages": search,
    "a search goes back": search_back,
    "a search is refused": no_search,
    "an empty reply says why": quiet,
    **{name: check for name, (_, check) in REFUSALS.items()},
}

# --- what a cell rests on ----------------------------------------------------------------------------------

# The hosts of which a behaviour was seen in a recorded exchange.
_RECORDED = {
    "words, streamed": "anthropic openai google vertex openai-chat openrouter deepseek groq mistral",
    "two calls at once, and back": "anthropic openai google openai-chat deepseek groq",
    "arguments as they are written": "anthropic openai google openai-chat",
    "thoughts are read": "anthropic openai google openrouter deepseek groq mistral ollama",
    "thoughts go back": "anthropic openai google vertex deepseek mistral",
    "typed answers": "anthropic openai google openai-chat ollama",
    "share of the cache": "anthropic openai google openai-chat openrouter deepseek groq mistral",
    "commentary": "openai azure-responses",
    "web search and its pages": "anthropic openai google vertex openrouter",
    "a search goes back": "anthropic openai",
    "an empty reply says why": "openai google",
}


def has(behaviour: str, host: Host) -> bool:
    """Whether a host has a behaviour."""
    if behaviour in REFUSALS:
        return bool(of_host(REFUSALS[behaviour][0], host))
    row = next((each for each in DIALECTS.values() if each.provider == host.name), None)
    return {
        "thoughts are read": host.has_thoughts,
        "thoughts go back": row is None or row.replay_field is not None,
        # A server that is not asked for usage tells none; and Gemini's search leaves nothing to send back.
        "share of the cache": host.name != "generic",
        "commentary": host.commentary is not None,
        "web search and its pages": host.search is not None,
        "a search goes back": host.search is not None and host.rules in ("anthropic", "openai"),
        "a search is refused": host.search is None,
    }.get(behaviour, True)


def evidence(behaviour: str, host: Host) -> str:
    """Return what a cell rests on; empty where the host has no such thing."""
    if not has(behaviour, host):
        return ""
    if behaviour in REFUSALS:
        found = {each.evidence for each in of_host(REFUSALS[behaviour][0], host)}
        return "recorded" if RECORDED in found else "documented"
    is_recorded = host.name in _RECORDED.get(behaviour, "").split()
    return "recorded" if is_recorded else "documented"


SIGNS = {"recorded": "R", "documented": "d", "": ""}
INTRODUCTION = """\
# What works where

One row for each provider, one column for each behaviour. **R**: the cell rests on exchanges with the provider that
were recorded; **d**: on its documentation, its source or reports of its users alone. An empty cell: the provider
has no such thing, or nothing is known of it. For every cell that is not empty, a test plays the provider's own
words at the adapter (`tests/models/test_behaviour_table.py`). No cell rests on a call made to the provider by these
tests.
"""


def page() -> str:
    """Return docs/models/behaviours.md."""
    lines = [INTRODUCTION]
    for group in (list(CHECKS)[:7], list(CHECKS)[7:12], list(REFUSALS)):
        lines += ["| | " + " | ".join(group) + " |", "|---|" + "---|" * len(group)]
        for host in HOSTS.values():
            cells = [SIGNS[evidence(name, host)] for name in group]
            lines.append(f"| `{host.name}` | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE_PATH.write_text(page(), encoding="utf-8")
