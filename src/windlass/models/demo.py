"""The demo model: a few rules that read the request. No language model, no network, no key.

Law 1. It knows what is in the request and nothing else. In any process, and however often it is asked, the
    same request gets the same reply.
Law 2. It says what it is, and claims nothing that it did not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from windlass.errors import ToolError, WindlassError
from windlass.kernel import (
    Json,
    ModelReply,
    ModelRequest,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
    canonical,
    freeze,
)
from windlass.models.arithmetic import Sum, evaluate, number_text, sum_in
from windlass.ports.model import EmitModelEvent, TextChunk

WHAT_IT_IS = "I am the demo model: a few rules, no language model."

_TRIP = re.compile(r"(?P<nights>\d+) nights? in (?P<city>[A-Z]\w+)")
_BUDGET = re.compile(r"at most (?P<euros>\d+) euros")
_BY_HAND = re.compile(r"\s*(?P<tool>[\w-]+)\s*(?P<args>\{.*\})\s*", re.DOTALL)
_WORD = re.compile(r"[^\W_]+")
_QUOTED = 60
_MAX_RESULT = 600
_EXAMPLE_SUM = "17 % of 2400"
# What people say instead of a tool's name.
_ALSO_CALLED = {"clock": "time"}


class DemoModel:
    """Books a trip, does sums, and calls the tools that it is offered when a message names one.

    A trip is `2 nights in Lisbon for at most 300 euros`, with tools called `look_up`, `book`, and if
    they are there `notify` and `pay`. A sum is `17 % of 2400` or `(3 + 4) * 5`; a tool for it is used
    if there is one. A tool is named with `refund {"order": "A-17", "cents": 900}`, or in words that
    have all of its arguments: `Refund 900 cents for order A-17`. Tokens are words here.
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

    said: str
    tools: dict[str, ToolSpec]
    results: dict[str, ToolResult]
    place: int
    words: int

    @classmethod
    def of(cls, request: ModelRequest) -> _Seen:
        messages = list(request.messages)
        spoken = [
            at for at, each in enumerate(messages) if each.role == "user" and _words(each.parts)
        ]
        last = spoken[-1] if spoken else len(messages)
        offered = () if request.tool_choice == "none" else request.tools
        return cls(
            said=_words(messages[last].parts) if spoken else "",
            tools={tool.name: tool for tool in offered},
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
    if trip is not None and {"look_up", "book"} <= seen.tools.keys():
        budget = _BUDGET.search(seen.said)
        return _Trip(
            seen=seen,
            city=trip["city"],
            nights=int(trip["nights"]),
            budget=int(budget["euros"]) if budget else None,
            offer=seen.value("look_up"),
        ).next_step()
    asked = sum_in(seen.said)
    if seen.results:
        return _tell_results(seen, asked)
    by_hand = _BY_HAND.fullmatch(seen.said)
    if by_hand is not None and by_hand["tool"] in seen.tools:
        return _call_by_hand(seen, by_hand["tool"], by_hand["args"])
    if asked is not None:
        return _calculate(seen, asked)
    return _call_in_words(seen) or _introduce(seen)


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


# --- sums ----------------------------------------------------------------------------------------

_OPERATION = re.compile(r"\s*(-?[\d.]+)\s*([-+*/])\s*(-?[\d.]+)\s*")
_TOOLS_FOR = {"+": ("add", "sum"), "-": ("subtract",), "*": ("multiply",), "/": ("divide",)}


def _calculate(seen: _Seen, asked: Sum) -> ModelReply:
    """Use a tool for the sum if one is offered; else say what it comes to."""
    for name, tool in seen.tools.items():
        if _required(tool) == ["expression"]:
            return seen.call(name, expression=asked.expression)
    operation = _OPERATION.fullmatch(asked.expression)
    if operation is not None:
        left, sign, right = operation.groups()
        for name in _TOOLS_FOR[sign]:
            args = _two_numbers(seen.tools.get(name), left, right)
            if args is not None:
                return seen.call(name, **args)
    return seen.say(f"{asked.shown} = {number_text(evaluate(asked.expression))}.")


def _two_numbers(tool: ToolSpec | None, *numbers: str) -> dict[str, Json] | None:
    """Return two numbers as the arguments of a tool; None if it does not take just them."""
    names = [] if tool is None else _required(tool)
    if tool is None or len(names) != len(numbers):
        return None
    schemas = [_properties(tool)[name] for name in names]
    given = [_as_type(schema, said) for schema, said in zip(schemas, numbers, strict=True)]
    has_text = any(isinstance(value, str) for value in given)
    return None if None in given or has_text else dict(zip(names, given, strict=True))


def _tell_results(seen: _Seen, asked: Sum | None) -> ModelReply:
    if asked is not None and len(seen.results) == 1:
        value = seen.value(next(iter(seen.results)))
        if type(value) in (int, float):
            return seen.say(f"{asked.shown} = {number_text(value)}.")
    return seen.say(*(f"{name} {_how(result)}." for name, result in seen.results.items()))


# --- tools that a message names ------------------------------------------------------------------


def _call_by_hand(seen: _Seen, tool: str, args: str) -> ModelReply:
    try:
        return seen.call(tool, **freeze(msgspec.json.decode(args), field="args"))
    except (msgspec.DecodeError, WindlassError) as error:
        return seen.say(f"The arguments of {tool} cannot be read: {error}.")


def _call_in_words(seen: _Seen) -> ModelReply | None:
    """Call the tool whose name is in the message, if the message has all that it requires."""
    words = {word.lower().removesuffix("s") for word in _WORD.findall(seen.said)}
    for name in sorted(seen.tools):
        tool = seen.tools[name]
        own = {word.lower().removesuffix("s") for word in _WORD.findall(name)}
        if own <= words or _ALSO_CALLED.get(name) in words:
            args = {each: _argument(tool, each, seen.said) for each in _properties(tool)}
            if all(args[each] is not None for each in _required(tool)):
                return seen.call(
                    name, **{at: value for at, value in args.items() if value is not None}
                )
    return None


def _argument(tool: ToolSpec, name: str, said: str) -> Json:
    """Return an argument: `order A-17`, `order "B 2"`, `900 cents`, or the only quoted text or path; None without one."""
    spoken = re.escape(name).replace("_", "[ _]")
    after = rf"\b{spoken}[:= ]+(?:\"([^\"]+)\"|([^\s,;\"]+))"
    for pattern in (after, rf"(-?\d+(?:\.\d+)?) {spoken}\b"):
        for found in re.finditer(pattern, said, re.IGNORECASE):
            word = found[1] or found[2].rstrip(".?!")
            value = _as_type(_properties(tool)[name], word)
            if value is not None:
                return value
    if _required(tool) == [name] and _properties(tool)[name].get("type") == "string":
        found_text = re.search(r"\"([^\"]+)\"|(?<!\S)([\w-]*[./][\w./-]*\w)", said)
        return None if found_text is None else found_text[1] or found_text[2]
    return None


def _as_type(schema: Json, said: str) -> Json:
    """Return a word as a value of the schema's type; None if it is not one."""
    kind = schema.get("type")
    if kind == "string":
        return said
    if kind in ("integer", "number"):
        try:
            value = evaluate(said)
        except ToolError:
            return None
        return value if kind == "number" or isinstance(value, int) else None
    return None


def _properties(tool: ToolSpec) -> dict[str, Json]:
    found = tool.parameters.get("properties", {})
    return {name: each if isinstance(each, dict) else {} for name, each in found.items()}


def _required(tool: ToolSpec) -> list[str]:
    return [name for name in tool.parameters.get("required", ()) if name in _properties(tool)]


# --- other talk ----------------------------------------------------------------------------------


def _introduce(seen: _Seen) -> ModelReply:
    """Say what it can do: at length the first time, then in short."""
    quoted = f'"{_cut(seen.said)}"' if seen.said else "a message without text"
    example = _example(seen)
    if seen.place:
        return seen.say(
            f"I have no rule for {quoted}. Try {_EXAMPLE_SUM}{example and f', or {example}'}."
        )
    names = sorted(seen.tools)
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""
    return seen.say(
        WHAT_IT_IS,
        f"I have no rule for {quoted}. I can do sums, such as {_EXAMPLE_SUM}.",
        f"I can call {listed}, such as: {example}" if names else "I am offered no tools.",
    )


def _example(seen: _Seen) -> str:
    """Return a call of an offered tool, as a user would write it; one with arguments if there is one."""
    if not seen.tools:
        return ""
    name = min(seen.tools, key=lambda each: (not _required(seen.tools[each]), each))
    tool = seen.tools[name]
    args = {each: _example_value(each, _properties(tool)[each]) for each in _required(tool)}
    return f"{name} {canonical.encode(args).decode()}"


def _example_value(name: str, schema: Json) -> Json:
    kinds = {"integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}
    if name == "expression":
        return "17 * 24"
    choices = schema.get("enum")
    return choices[0] if choices else kinds.get(schema.get("type"), "text")


def _how(result: ToolResult) -> str:
    """Say how a call ended, in words that claim no more than its status does."""
    said = _cut(_words(result.content), _MAX_RESULT)
    match result.status:
        case "ok":
            return f"answered {said}" if said else "answered nothing"
        case "denied":
            return f"was refused ({said})" if said else "was refused"
        case "unknown":
            return "was started; whether it finished is unknown, and it was not run again"
        case other:
            return f"ended as {other} ({said})" if said else f"ended as {other}"


def _cut(text: str, n_chars: int = _QUOTED) -> str:
    words = " ".join(text.split())
    return words if len(words) <= n_chars else f"{words[: n_chars - 1].rstrip()}…"


def _words(parts: Sequence[object]) -> str:
    return " ".join(part.text for part in parts if isinstance(part, Text)).strip()
