"""Sessions that change between all hosts, with thoughts, calls, images, searches and commentary in their history.

Whatever was said before by whom, each request keeps to the rules of the host that it is sent to, and holds no thought,
signature, id or search of another.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.models import wire_rules
from tests.models.hosts import CITED, HOSTS, Host, query_of, signature_of, thought_of
from tests.models.wire_server import Played, Seen, WireServer
from windlass import Agent, Generation, Runtime, Text, ToolContext, WebSearch, tool
from windlass.models.openai_chat.dialects import DIALECTS

RULES: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "anthropic": wire_rules.anthropic,
    "openai": wire_rules.openai_responses,
    "google": wire_rules.google,
    "openai-chat": wire_rules.openai_chat,
    "mistral": wire_rules.mistral,
    "deepseek": wire_rules.deepseek,
    "openrouter": wire_rules.openrouter,
}
N_TURNS = 12
PNG = b"\x89PNG\r\n\x1a\n"
SEARCHING = Generation(server_tools=(WebSearch(),))
# Gemini before version 3 and every host without a search are asked without one.
CALLS, SEARCH, ASIDE, WORDS = "calls", "search", "commentary", "words"


@tool(effect="pure")
async def weather(ctx: ToolContext[None], city: str) -> list[Any]:
    """Say how the weather is, with a picture."""
    picture = await ctx.attach(PNG, media_type="image/png", name="sky.png")
    return [Text(text=f"Sunny in {city}."), picture]


class Talk:
    """What is said to whom, drawn from a seed: a host and what it is to do, for each turn."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.turns: list[tuple[Host, str]] = []
        for _ in range(N_TURNS):
            host = draw.choice(list(HOSTS.values()))
            can = [CALLS, WORDS]
            can += [SEARCH] if host.search is not None else []
            can += [ASIDE] if host.commentary is not None else []
            self.turns.append((host, draw.choice(can)))

    def answers(self) -> dict[str, list[Played]]:
        """Return what each host plays, in order."""
        found: dict[str, list[Played]] = {}
        for at, (host, kind) in enumerate(self.turns):
            plays: dict[str, list[Played | None]] = {
                CALLS: [host.calls(at), host.says],
                SEARCH: [host.search],
                ASIDE: [host.commentary],
                WORDS: [host.says],
            }
            found.setdefault(host.path, []).extend(p for p in plays[kind] if p is not None)
        return found


@asynccontextmanager
async def playing(talk: Talk) -> AsyncIterator[tuple[WireServer, dict[str, Any]]]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(WireServer(talk.answers()))
        models = {name: host.make(server.url) for name, host in HOSTS.items()}
        for model in models.values():
            stack.push_async_callback(model.aclose)
        yield server, models


async def play(talk: Talk, store: str) -> list[tuple[Host, Seen]]:
    """Run the turns of a talk in one session; return each request with the host that got it."""
    async with playing(talk) as (server, models):
        agent = Agent("a", model=models["openai"], tools=[weather], instructions="Be brief.")
        async with Runtime(agent, store=store, models=list(models.values())) as runtime:
            session = runtime.session("s")
            for at, (host, kind) in enumerate(talk.turns):
                generation = SEARCHING if kind == SEARCH else Generation()
                result = await session.run(
                    f"Turn {at}.", model=models[host.name].name, generation=generation
                )
                assert result.text == (CITED if kind == SEARCH else "Sunny."), (host.name, kind)
    owners = {host.path.partition(" ")[2]: host for host in HOSTS.values()}
    return [(owners[seen.path.partition("?")[0]], seen) for seen in server.requests]


def wrong_in(host: Host, seen: Seen) -> list[str]:
    """Return what a host would refuse in a request, and what it should not know."""
    found = list(RULES[host.rules](seen.json))
    for other in set(HOSTS) - {host.name}:
        # Ids of calls are everybody's: by them a result finds its call.
        foreign = (thought_of(other), signature_of(other), query_of(other), f'"srv_{other}"')
        found += [f"{each} of {other}" for each in foreign if each.encode() in seen.body]
    items = (b'"rs_0"', b'"ws_0"', b'"msg_0"', b'"msg_1"', b'"fc_1"', b'"fc_2"')
    return found + [f"the id {each!r} of an item" for each in items if each in seen.body]


@pytest.mark.parametrize("seed", range(24))
async def test_a_session_that_changes_its_host_all_the_time_stays_valid(
    seed: int,
    tmp_path: Any,  # noqa: ANN401 - pytest's
) -> None:
    talk = Talk(seed)
    store = "memory:" if seed % 2 else f"sqlite:///{tmp_path / 'a.db'}"

    requests = await play(talk, store)

    has_calls = any(kind == CALLS for _, kind in talk.turns)
    assert has_calls is any(b"Sunny in Paris." in seen.body for _, seen in requests)
    for at, (host, seen) in enumerate(requests):
        assert wrong_in(host, seen) == [], (at, host.name, talk.turns)


@pytest.mark.parametrize("name", HOSTS)
async def test_what_a_host_made_comes_back_to_it_after_all_the_others(name: str) -> None:
    host = HOSTS[name]
    talk = Talk(0)
    others = [each for each in HOSTS.values() if each.name != name]
    first = [(host, CALLS), *([(host, SEARCH)] if host.search else [])]
    talk.turns = [*first, *[(other, CALLS) for other in others], (host, WORDS)]

    requests = await play(talk, "memory:")

    for owner, seen in requests:
        assert wrong_in(owner, seen) == [], owner.name
    # The picture of a result is sent to who takes it, and named to the others.
    last = requests[-1][1].body
    assert b"iVBORw0KGgo" in last or b"sky.png" in last
    row = next((each for each in DIALECTS.values() if each.provider == name), None)
    if row is None or row.replay_field is not None:
        assert thought_of(name).encode() in last or signature_of(name).encode() in last
    if host.search is not None and host.rules in ("anthropic", "openai"):
        assert query_of(name).encode() in last


@pytest.mark.parametrize("rules", ["mistral", "deepseek", "openrouter"])
def test_the_rules_see_what_a_host_refuses(rules: str) -> None:
    """The rules above can fail: a call as any other host takes it."""
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "x"},
        ]
    }

    assert wire_rules.openai_chat(body) == []
    assert RULES[rules](body) != []
