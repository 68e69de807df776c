"""A request to a model, its reply or failure, and what it used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

import msgspec

from windlass.errors import InvalidInput
from windlass.guards import check_limit, check_text
from windlass.kernel.chain import Chain
from windlass.kernel.messages import (
    Attachment,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    answer_in,
    check_object,
)
from windlass.kernel.tool_call import ToolSpec
from windlass.kernel.value import (
    Json,
    JsonValue,
    Value,
    check_instance,
    repair_text,
    set_field,
    use_default,
)

ToolChoice: TypeAlias = Literal["auto", "none", "required"]
KnownTerminal: TypeAlias = Literal[
    "stop",
    "tool_use",
    "output_limit",
    "context_overflow",
    "content_filter",
    "provider_error",
    "cancelled",
    "withheld",
    "limit",
]
TerminalReason: TypeAlias = str
"""A `KnownTerminal`; anything else, such as `unknown`, is left to the driver."""

ReplyPart: TypeAlias = Text | Reasoning | ToolCall | ServerToolCall
RequestPart: TypeAlias = Text | Reasoning | ToolCall | ToolResult | ServerToolCall | Attachment

_REPLY_PARTS = frozenset({Text, Reasoning, ToolCall, ServerToolCall})
_NO_SERVER_TOOLS: tuple[()] = ()
_REPLY_PART_NAMES = "Text, Reasoning, ToolCall or ServerToolCall"
# Counters are stored as 64-bit integers by every store.
_MAX_COUNT = 2**63 - 1


def _check_range(found: float | None, field: str, low: float, high: float) -> None:
    if found is None:
        return
    if type(found) not in (int, float) or math.isnan(found) or not low <= found <= high:
        shown = found if isinstance(found, (int, float)) else type(found).__name__
        raise InvalidInput.at(field, shown, f"{low} to {high}")


class Usage(Value, kw_only=True):
    """Tokens of one call or many. Buckets are disjoint, except that reasoning is within output.

    Attributes:
        input_tokens: Tokens of prompts that no cache had.
        output_tokens: Tokens that the model wrote, its thoughts included.
        cached_input_tokens: Tokens of prompts that were read from the provider's cache.
        cache_write_tokens: Tokens of prompts that were written to that cache.
        reasoning_tokens: How many of the output tokens were thoughts.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        """Refuse counts that no provider can mean."""
        try:
            # The sign bit of the union: below zero if any of them is.
            low = (
                self.input_tokens
                | self.output_tokens
                | self.cached_input_tokens
                | self.cache_write_tokens
                | self.reasoning_tokens
            )
        except TypeError:
            found = "a count that is not a whole number"
            raise InvalidInput.at("Usage", found, "whole numbers") from None
        if low < 0:
            raise InvalidInput.at("Usage", "a count below 0", "0 or more")

    @property
    def prompt_tokens(self) -> int:
        """All that was sent: fresh, read from a cache, written to one."""
        return self.input_tokens + self.cached_input_tokens + self.cache_write_tokens

    @classmethod
    def total(cls, used: Iterable[Usage]) -> Usage:
        """Return the sum.

        Args:
            used: The usage of each call, in any order.
        """
        counts = map(sum, zip(*map(msgspec.structs.astuple, used), strict=True))
        return cls(**dict(zip(cls.__struct_fields__, counts, strict=False)))

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


class WebSearch(Value, kw_only=True):
    """Lets the model search the web at its provider, which bills it. Found pages stand in `Text.citations`.

    Attributes:
        max_uses: How many searches one reply may make, where the provider can be told.
        allowed_domains: The only domains whose pages may be used.
        blocked_domains: Domains whose pages are not used; not together with `allowed_domains`.
    """

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what every provider would refuse, before any network."""
        _check_range(self.max_uses, "WebSearch.max_uses", 1, 1000)
        check_instance(self.max_uses or 0, int, field="WebSearch.max_uses")
        for name in ("allowed_domains", "blocked_domains"):
            given: object = getattr(self, name)
            if isinstance(given, list):
                set_field(self, name, tuple(given))
            check_instance(getattr(self, name), tuple, field=f"WebSearch.{name}")
            for at, domain in enumerate(getattr(self, name)):
                check_text(domain, field=f"WebSearch.{name}[{at}]")
        if self.allowed_domains and self.blocked_domains:
            found = "allowed_domains beside it"
            raise InvalidInput.at("WebSearch.blocked_domains", found, "one of the two")


class ServerTool(JsonValue, kw_only=True):
    """Any other tool that a provider runs by itself, in the provider's own words.

    Attributes:
        provider: Whose tool it is: what stands before the colon in the model's name. Other models refuse it.
        spec: The tool as that provider's API has it among its tools.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("spec",)

    provider: str
    spec: dict[str, Json]

    def __post_init__(self) -> None:
        """Freeze the spec; refuse one that is not an object."""
        check_text(self.provider, field="ServerTool.provider")
        check_object(self.spec, field="ServerTool.spec")
        super().__post_init__()


class Generation(Value, kw_only=True):
    """How the model should generate; None leaves it to the provider.

    Attributes:
        max_output_tokens: How long a reply may be, thoughts included.
        temperature: How freely the model chooses its words: 0 to 2.
        top_p: The share of probability that it chooses from: 0 to 1.
        seed: Makes replies repeatable, where the provider can.
        stop: Texts at which a reply ends.
        variant: How hard the model should think, by the name of an effort: `low`, `medium`, `high`.
        server_tools: Tools that the provider runs by itself: `WebSearch()`, or a `ServerTool`. None unless asked for.
    """

    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    variant: str | None = None
    server_tools: tuple[WebSearch | ServerTool, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what every provider would refuse, before any network."""
        stop_given: object = self.stop
        if isinstance(stop_given, list):
            set_field(self, "stop", tuple(stop_given))
        check_instance(self.stop, tuple, field="Generation.stop")
        check_limit("stop_sequences", len(self.stop), field="Generation.stop")
        for at, stop in enumerate(self.stop):
            check_text(stop, field=f"Generation.stop[{at}]")
        check_instance(self.seed or 0, int, field="Generation.seed")
        _check_range(self.max_output_tokens, "Generation.max_output_tokens", 1, _MAX_COUNT)
        check_instance(self.max_output_tokens or 0, int, field="Generation.max_output_tokens")
        _check_range(self.temperature, "Generation.temperature", 0, 2)
        _check_range(self.top_p, "Generation.top_p", 0, 1)
        # 0 and 0.0 are equal and have other bytes: what is read back from a journal is the latter.
        if type(self.temperature) is int:
            set_field(self, "temperature", float(self.temperature))
        if type(self.top_p) is int:
            set_field(self, "top_p", float(self.top_p))
        if self.variant is not None:
            check_text(self.variant, field="Generation.variant")
        if self.server_tools is not _NO_SERVER_TOOLS:
            self._check_server_tools()

    def _check_server_tools(self) -> None:
        given: object = self.server_tools
        if isinstance(given, list):
            set_field(self, "server_tools", tuple(given))
        check_instance(self.server_tools, tuple, field="Generation.server_tools")
        for at, each in enumerate(self.server_tools):
            if not isinstance(each, (WebSearch, ServerTool)):
                field = f"Generation.server_tools[{at}]"
                raise InvalidInput.at(field, type(each).__name__, "WebSearch or ServerTool")


NO_USAGE = Usage()
PROVIDER_CHOICE = Generation()
AUTO: ToolChoice = "auto"
STOP: TerminalReason = "stop"
PROVIDER_ERROR: TerminalReason = "provider_error"
WITHHELD: TerminalReason = "withheld"
"""A plugin withheld the reply: nothing of it is kept, and `diagnostic` is what the model is told instead."""
LIMIT: TerminalReason = "limit"


class ModelMessage(Value, kw_only=True):
    """A message as it is sent."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[RequestPart, ...]


class ModelRequest(JsonValue, kw_only=True):
    """One call to a model. `messages` is kept as a chain, so the next request costs what is new.

    `variant` is what `generation` says, unless another one is given.

    Attributes:
        model: The model's name; what the call is counted under.
        messages: What the model is to read, the system prompt first.
        tools: The tools that it may call.
        tool_choice: Whether it may, must or must not call a tool.
        variant: How hard it should think, if not as `generation` says.
        generation: Sampling settings; without them the provider's own.
        session_id: Whose conversation it is, for the provider's cache.
        output: The JSON schema that the answer is to have; None for words.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("output",)

    model: str
    if TYPE_CHECKING:
        # Any sequence may be given and a sequence may be relied on; kept as a Chain.
        messages: Sequence[ModelMessage]
    else:
        messages: Chain[ModelMessage]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = AUTO
    variant: str | None = None
    generation: Generation = PROVIDER_CHOICE
    session_id: str | None = None
    output: Json = None

    def __post_init__(self) -> None:
        """Keep the messages as a chain; freeze the output schema."""
        if type(self.messages) is not Chain:
            set_field(self, "messages", Chain(self.messages))
        if self.output is not None:
            super().__post_init__()
        if self.tool_choice is not AUTO or self.generation is not PROVIDER_CHOICE:
            use_default(self, "tool_choice", AUTO)
            use_default(self, "generation", PROVIDER_CHOICE)
            if self.variant is None:
                set_field(self, "variant", self.generation.variant)


class ModelReply(JsonValue, kw_only=True):
    """What a model answered, in the order it was said.

    `text` is the Text parts joined, without commentary if there is more than that. Either may be left out when it is
    built and follows from the other: text alone is one text part, said before any calls.

    Attributes:
        text: The words of the reply: its text parts joined, without commentary.
        parts: Words, thoughts and tool calls, in the order in which they were said.
        usage: What the call used; zeros if the provider does not say.
        terminal: Why the reply ended: `stop`, `tool_use`, `output_limit`, `content_filter` and others.
        diagnostic: What the provider said about an unusual end, for people.
        provider_usage: The provider's own count, as it came.
        request_body: What was sent, for a trace; None if it is not kept.
    """

    json_fields: ClassVar[tuple[str, ...]] = ("provider_usage",)

    text: str = ""
    parts: tuple[ReplyPart, ...] = ()
    usage: Usage = NO_USAGE
    terminal: TerminalReason = STOP
    diagnostic: str | None = None
    provider_usage: Json = None
    request_body: str | None = None

    def __post_init__(self) -> None:  # noqa: C901 - every reply passes here, so what is usual is told in place
        """Bring text and parts into agreement."""
        if self.provider_usage is not None:
            super().__post_init__()
        usage, terminal, parts = self.usage, self.terminal, self.parts
        if type(usage) is not Usage:
            check_instance(usage, Usage, field="ModelReply.usage")
        if usage == NO_USAGE:
            set_field(self, "usage", NO_USAGE)
        if terminal is not STOP:
            # Most reasons are identifiers, which are clean; checking that here saves a call.
            if type(terminal) is not str or not terminal.isidentifier():
                repair_text(self, "terminal")
            if terminal == STOP:
                set_field(self, "terminal", STOP)
        if self.diagnostic is not None or self.request_body is not None:
            repair_text(self, "diagnostic", "request_body")
        if type(parts) is not tuple:
            parts = tuple(parts)
            set_field(self, "parts", parts)
        if not _REPLY_PARTS.issuperset(map(type, parts)):
            found = [type(part).__name__ for part in parts if type(part) not in _REPLY_PARTS]
            raise InvalidInput.at("ModelReply.parts", found[0], _REPLY_PART_NAMES)
        texts = [part for part in parts if type(part) is Text]
        # Most replies have one text or none: asking that here saves a call.
        said = "" if not texts else texts[0].text if len(texts) == 1 else answer_in(texts)
        if said != self.text:
            self._agree(said)

    def _agree(self, said: str) -> None:
        if not self.text:
            set_field(self, "text", said)
        elif not said:
            set_field(self, "parts", (Text(text=self.text), *self.parts))
        else:
            raise InvalidInput.at(
                "ModelReply.text", "other text than in the parts", "the parts' text joined"
            )


class ModelFailure(Value, kw_only=True):
    """A call that gave no reply."""

    message: str
    retryable: bool = False
    code: str | None = None
    terminal: TerminalReason = PROVIDER_ERROR
    raw: str | None = None
    request_body: str | None = None

    def __post_init__(self) -> None:
        """Repair foreign text: a failure must always be tellable."""
        repair_text(self, "message", "code", "terminal", "raw", "request_body")
        use_default(self, "terminal", PROVIDER_ERROR)
