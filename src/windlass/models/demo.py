"""The model of the demo: a few rules that read the request. No language model, no network, no key.

Law 1. It knows what is in the request and nothing else. In any process, and however often it is asked, the
    same request gets the same reply.
Law 2. It says what it is, and claims nothing that it did not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from windlass.errors import WindlassError
from windlass.kernel import (
    Json,
    ModelReply,
    ModelRequest,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from windlass.ports.model import EmitModelEvent, TextChunk

WHAT_IT_IS = "I am the demo model: a few rules, no language model."

_TRIP = re.compile(r"(?P<nights>\d+) nights? in (?P<city>[A-Z]\w+)")
_BUDGET = re.compile(r"at most (?P<euros>\d+) euros")
_BY_HAND = re.compile(r"\s*(?P<tool>[\w-]+)\s*(?P<args>\{.*\})\s*", re.DOTALL)
_QUOTED = 60


class DemoModel:
    """Books a trip with the tools that it is offered, calls a tool by hand, or says what it sees.

    A trip is `2 nights in Lisbon for at most 300 euros`, with tools called `look_up`, `book`, and if
    they are there `notify` and `pay`. By hand is `tool {"json": "arguments"}`. Tokens are words here.
    """

    name = "demo"

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Answer a request by rules; the words are shown one by one."""
        reply = _reply_to(_Seen.of(request))
        for word in re.findall(r"\S+\s*", reply.text):
            emit(TextChunk(text=word))
        return reply


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a request shows: who speaks, what may be called, what was answered since the user spoke."""

    system: str
    said: str
    tools: frozenset[str]
    results: dict[str, ToolResult]
    place: int
    words: int

    @classmethod
    def of(cls, request: ModelRequest) -> _Seen:
        messages = list(request.messages)
        has_system = bool(messages) and messages[0].role == "system"
        spoken = [
            at for at, each in enumerate(messages) if each.role == "user" and _words(each.parts)
        ]
        last = spoken[-1] if spoken else len(messages)
        offered = () if request.tool_choice == "none" else request.tools
        return cls(
            system=_words(messages[0].parts) if has_system else "",
            said=_words(messages[last].parts) if spoken else "",
            tools=frozenset(tool.name for tool in offered),
            results={
                part.name: part
                for message in messages[last:]
                for part in message.parts
                if isinstance(part, ToolResult)
            },
            # Ids of calls derive from it, so that they differ in a conversation.
            place=sum(1 for message in messages if message.role == "assistant"),
            words=sum(len(_words(message.parts).split()) for message in messages),
        )

    def call(self, tool: str, **args: Json) -> ModelReply:
        """Ask for a tool."""
        part = ToolCall(call_id=f"call_{self.place}_0", name=tool, args=args)
        return ModelReply(parts=(part,), terminal="tool_use", usage=self._usage(1 + len(args)))

    def say(self, *sentences: str) -> ModelReply:
        """Say something and be done."""
        text = " ".join(filter(None, sentences))
        return ModelReply(text=text, usage=self._usage(len(text.split())))

    def _usage(self, written: int) -> Usage:
        return Usage(input_tokens=self.words, output_tokens=written)

    def value(self, tool: str) -> Json:
        """Return what a tool answered, as JSON where it is JSON; None if it did not, or not well."""
        result = self.results.get(tool)
        if result is None or result.status != "ok":
            return None
        text = _words(result.content)
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text


def _reply_to(seen: _Seen) -> ModelReply:
    trip = _TRIP.search(seen.said)
    if trip is not None and {"look_up", "book"} <= seen.tools:
        budget = _BUDGET.search(seen.said)
        return _Trip(
            seen=seen,
            city=trip["city"],
            nights=int(trip["nights"]),
            budget=int(budget["euros"]) if budget else None,
            offer=seen.value("look_up"),
        ).next_step()
    by_hand = _BY_HAND.fullmatch(seen.said)
    if by_hand is not None and by_hand["tool"] in seen.tools and not seen.results:
        return _call_by_hand(seen, by_hand["tool"], by_hand["args"])
    if seen.results:
        told = [f"{name} {_how(result)}." for name, result in seen.results.items()]
        return seen.say(WHAT_IT_IS, *told)
    return _introduce(seen)


# --- a trip --------------------------------------------------------------------------------------


class _Trip(msgspec.Struct, frozen=True, kw_only=True):
    """A trip as far as it is known; `offer` is what `look_up` answered, once it has."""

    seen: _Seen
    city: str
    nights: int
    budget: int | None
    offer: Json

    @property
    def cents(self) -> int:
        """What the whole stay costs."""
        return int(self.offer["cents"] * self.nights)

    @property
    def stay(self) -> str:
        return f"{self.nights} nights at {self.offer['hotel']} in {self.city}"

    def next_step(self) -> ModelReply:
        """Look up, book, notify, pay: the first that is not answered yet, or how it all went."""
        seen, results = self.seen, self.seen.results
        searching = self._search()
        if searching is not None:
            return searching
        if "book" not in results:
            return seen.call("book", hotel=self.offer["hotel"], nights=self.nights)
        if results["book"].status != "ok":
            return seen.say(f"{self.stay} is what I wanted: book {_how(results['book'])}.")
        if "notify" in seen.tools and "notify" not in results:
            return seen.call("notify", text=f"Booked: {self.stay}.")
        if "pay" in seen.tools and "pay" not in results:
            return seen.call("pay", cents=self.cents)
        return self._sum_up()

    def _search(self) -> ModelReply | None:
        seen = self.seen
        if "look_up" not in seen.results:
            return seen.call("look_up", city=self.city)
        if not _is_offer(self.offer):
            how = _how(seen.results["look_up"])
            return seen.say(f"I found no hotel in {self.city}: look_up {how}.")
        if self.budget is not None and self.cents > self.budget * 100:
            cost = f"{self.stay} would cost {_euros(self.cents)}"
            return seen.say(f"{cost}, more than your {self.budget} euros. Nothing is booked.")
        return None

    def _sum_up(self) -> ModelReply:
        results = self.seen.results
        booked = f"Booked: {self.stay} for {_euros(self.cents)}; book {_how(results['book'])}."
        rest = [f"{tool} {_how(results[tool])}." for tool in ("pay", "notify") if tool in results]
        return self.seen.say(booked, *(f"{told[0].upper()}{told[1:]}" for told in rest))


def _is_offer(found: Json) -> bool:
    return isinstance(found, dict) and "hotel" in found and type(found.get("cents")) is int


def _euros(cents: int) -> str:
    return f"{cents // 100} euros" if cents % 100 == 0 else f"{cents / 100:.2f} euros"


# --- other talk ----------------------------------------------------------------------------------


def _call_by_hand(seen: _Seen, tool: str, args: str) -> ModelReply:
    try:
        return seen.call(tool, **msgspec.json.decode(args))
    except (msgspec.DecodeError, WindlassError) as error:
        return seen.say(WHAT_IT_IS, f"The arguments of {tool} cannot be read: {error}.")


def _introduce(seen: _Seen) -> ModelReply:
    return seen.say(
        WHAT_IT_IS,
        f'My instructions begin "{_cut(seen.system)}".' if seen.system else "",
        f'You said "{_cut(seen.said)}".' if seen.said else "You said nothing that I can read.",
        (
            f"I am offered these tools: {', '.join(sorted(seen.tools))}. To see one called, write its "
            f"name and its arguments as JSON: {min(seen.tools)} {{…}}."
            if seen.tools
            else "I am offered no tools."
        ),
    )


def _how(result: ToolResult) -> str:
    """Say how a call ended, in words that claim no more than its status does."""
    said = _cut(_words(result.content))
    match result.status:
        case "ok":
            return f"answered {said}" if said else "answered nothing"
        case "denied":
            return f"was refused ({said})" if said else "was refused"
        case "unknown":
            return "was started; whether it finished is unknown, and it was not run again"
        case other:
            return f"ended as {other} ({said})" if said else f"ended as {other}"


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _QUOTED else f"{words[: _QUOTED - 1].rstrip()}…"


def _words(parts: Sequence[object]) -> str:
    return " ".join(part.text for part in parts if isinstance(part, Text)).strip()
