"""What a model can do, as data: a table by provider and the beginning of the model's name.

Law 1. Adapters look here and nowhere else; a caller who knows better passes `capabilities=`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from windlass.errors import InvalidInput
from windlass.kernel import thaw
from windlass.kernel.model_call import Generation, ModelRequest, ServerTool, WebSearch

T = TypeVar("T")

ReasoningStyle: TypeAlias = Literal["none", "budget", "effort"]
"""How reasoning is asked for: not at all, by a number of tokens, by a word."""
StructuredOutput: TypeAlias = Literal["native", "tool", "none"]
"""How a schema is kept: by the provider, by a tool that has to be called, or not at all."""

NO_VARIANTS: Mapping[str, int | str] = {}


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model can do.

    `variants` gives each named effort of a request (`ModelRequest.variant`) as the provider wants it: tokens
    for `budget`, a word for `effort`. `sampling`: whether temperature, top_p and the like are accepted.
    `image_types` and `file_types` are the media types that may be sent. `required_with_reasoning`: a call may
    be required while the model reasons. `structured_with_tools`: a schema may be asked for while tools are offered.
    `web_search`: the provider searches the web by itself; `search_with_tools`: also while tools are offered.
    """

    tools: bool = True
    parallel_tools: bool = True
    images: bool = True
    files: bool = True
    result_images: bool = True
    reasoning: ReasoningStyle = "none"
    variants: Mapping[str, int | str] = msgspec.field(default_factory=dict)
    required_with_reasoning: bool = True
    structured_output: StructuredOutput = "native"
    structured_with_tools: bool = True
    cache_marks: bool = False
    web_search: bool = False
    search_with_tools: bool = True
    sampling: bool = True
    max_output_tokens: int | None = None
    image_types: frozenset[str] = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
    file_types: frozenset[str] = frozenset({"application/pdf"})

    def effort(self, variant: str | None, *, model: str) -> int | str | None:
        """Return what the provider calls a variant; None where none was asked for.

        Raises:
            InvalidInput: this model has no such variant.
        """
        if variant is None:
            return None
        if variant not in self.variants:
            known = ", ".join(self.variants) or "none at all"
            raise InvalidInput.at("variant", "another one", f"one that {model} has: {known}")
        return self.variants[variant]

    def server_tools(self, request: ModelRequest, *, provider: str) -> ServerTools:
        """Return the tools that the provider is to run by itself.

        Raises:
            InvalidInput: it cannot, naming what was asked for.
        """
        search: WebSearch | None = None
        specs: list[dict[str, Any]] = []
        for at, wanted in enumerate(request.generation.server_tools):
            field = f"Generation.server_tools[{at}]"
            if isinstance(wanted, ServerTool):
                if wanted.provider != provider:
                    told = f"a model of {wanted.provider}, or no such tool"
                    raise InvalidInput.at(
                        field, f"a tool of {wanted.provider} for {provider}", told
                    )
                specs.append(thaw(wanted.spec))
            elif not self.web_search:
                told = f"a model whose provider searches the web: {', '.join(_searching())}"
                raise InvalidInput.at(field, f"WebSearch for {request.model}", told)
            else:
                search = wanted
        if search is not None and request.tools and self.tools and not self.search_with_tools:
            told = "no tools beside it: this model does not take both"
            raise InvalidInput.at("Generation.server_tools", "WebSearch", told)
        return ServerTools(search, specs)

    def taken_as(self, media_type: str) -> Literal["image", "file"] | None:
        """Return what an attachment of a media type is sent as; None: it cannot be sent."""
        if self.images and media_type in self.image_types:
            return "image"
        return "file" if self.files and media_type in self.file_types else None

    def output_limit(self, generation: Generation) -> int | None:
        """Return how many tokens may be written: as asked for, and no more than the model can."""
        wanted, most = generation.max_output_tokens, self.max_output_tokens
        return wanted if wanted is None or most is None else min(wanted, most)

    def sampling_of(self, generation: Generation) -> dict[str, float]:
        """Return what was asked for of sampling, as far as the model accepts it."""
        wanted = {"temperature": generation.temperature, "top_p": generation.top_p}
        return stated(wanted) if self.sampling else {}


class ServerTools(NamedTuple):
    """What a provider is to run by itself: a search of the web, and tools in its own words."""

    search: WebSearch | None
    specs: list[dict[str, Any]]


def stated(fields: Mapping[str, T | None]) -> dict[str, T]:
    """Return the fields that say something: those that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


_BUDGETS: Mapping[str, int | str] = {"low": 2_048, "medium": 8_192, "high": 24_576}
_EFFORTS: Mapping[str, int | str] = {"low": "low", "medium": "medium", "high": "high"}
_MORE_EFFORTS: Mapping[str, int | str] = {"none": "none", "minimal": "minimal", **_EFFORTS}

# Claude from 4.6 on decides itself how long to think and is told how hard to try; before, it was given a
# number of tokens. The API has no sampling parameters since its version 2026-10-21.
_CLAUDE = Capabilities(
    reasoning="effort",
    variants=_EFFORTS,
    required_with_reasoning=False,
    cache_marks=True,
    web_search=True,
    sampling=False,
    max_output_tokens=64_000,
    file_types=frozenset({"application/pdf", "text/plain"}),
)
_CLAUDE_BUDGET = replace(_CLAUDE, reasoning="budget", variants=_BUDGETS)
_CLAUDE_FORCED = replace(_CLAUDE_BUDGET, structured_output="tool")
_CLAUDE_3_5 = replace(
    _CLAUDE_FORCED, reasoning="none", variants=NO_VARIANTS, max_output_tokens=8_192
)
_CLAUDE_3 = replace(_CLAUDE_3_5, web_search=False)
_GPT = Capabilities(web_search=True)
_O = Capabilities(reasoning="effort", variants=_EFFORTS, sampling=False, web_search=True)
_GEMINI = Capabilities(
    reasoning="budget",
    variants={"none": 0, **_BUDGETS},
    structured_with_tools=False,
    web_search=True,
    search_with_tools=False,
    image_types=frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
)
_GEMINI_3 = replace(
    _GEMINI,
    reasoning="effort",
    variants=_EFFORTS,
    structured_with_tools=True,
    search_with_tools=True,
)
_GEMINI_1 = replace(_GEMINI, reasoning="none", variants=NO_VARIANTS, web_search=False)
_PLAIN_CHAT = Capabilities(files=False, result_images=False)
_MODEST = Capabilities(images=False, files=False, result_images=False)
_MISTRAL_THINKS = replace(
    _PLAIN_CHAT, reasoning="effort", variants={"none": "none", "high": "high"}
)

_TABLES: dict[str, dict[str, Capabilities]] = {
    "anthropic": {
        "": _CLAUDE,
        "claude-opus-4-5": _CLAUDE_BUDGET,
        "claude-sonnet-4-5": _CLAUDE_BUDGET,
        "claude-haiku-4-5": _CLAUDE_BUDGET,
        "claude-opus-4-1": replace(_CLAUDE_BUDGET, max_output_tokens=32_000),
        "claude-opus-4-0": replace(_CLAUDE_FORCED, max_output_tokens=32_000),
        "claude-opus-4-2": replace(_CLAUDE_FORCED, max_output_tokens=32_000),
        "claude-sonnet-4-0": _CLAUDE_FORCED,
        "claude-sonnet-4-2": _CLAUDE_FORCED,
        "claude-3": _CLAUDE_3,
        "claude-3-5": _CLAUDE_3_5,
        "claude-3-haiku": replace(_CLAUDE_3, max_output_tokens=4_096),
        "claude-3-7": _CLAUDE_FORCED,
    },
    "openai": {
        "": _GPT,
        "gpt-5": replace(_O, variants=_MORE_EFFORTS),
        "gpt-5-chat": _GPT,
        "gpt-4": replace(_GPT, web_search=False),
        "gpt-4o": _GPT,
        "gpt-4.1": _GPT,
        "gpt-4.1-nano": replace(_GPT, web_search=False),
        "gpt-3.5": Capabilities(images=False, files=False, structured_output="none"),
        "o1": replace(_O, web_search=False),
        "o3": _O,
        "o4": _O,
    },
    "google": {
        "": _GEMINI,
        "gemini-2.0": replace(_GEMINI, reasoning="none", variants=NO_VARIANTS),
        "gemini-1.5": _GEMINI_1,
        "gemini-3": _GEMINI_3,
        "gemma": replace(_GEMINI_1, files=False),
    },
    "openrouter": {
        "": replace(_PLAIN_CHAT, files=True, reasoning="effort", variants=_EFFORTS, web_search=True)
    },
    "deepseek": {
        "": replace(_MODEST, reasoning="effort", variants={**_EFFORTS, "max": "max"}),
        "deepseek-chat": _MODEST,
        "deepseek-reasoner": _MODEST,
    },
    "groq": {
        "": _PLAIN_CHAT,
        "openai/gpt-oss": replace(_MODEST, reasoning="effort", variants=_EFFORTS),
        "qwen/qwen3": replace(
            _MODEST, reasoning="effort", variants={"none": "none", "high": "default"}
        ),
    },
    "mistral": {
        "": _PLAIN_CHAT,
        "mistral-small": _MISTRAL_THINKS,
        "mistral-medium": _MISTRAL_THINKS,
    },
    "xai": {
        "": _PLAIN_CHAT,
        "grok-3-mini": replace(
            _MODEST, reasoning="effort", variants={"low": "low", "high": "high"}
        ),
        "grok-4.3": replace(_PLAIN_CHAT, reasoning="effort", variants={"none": "none", **_EFFORTS}),
    },
    "together": {
        "": _PLAIN_CHAT,
        "openai/gpt-oss": replace(_MODEST, reasoning="effort", variants=_EFFORTS),
    },
    "fireworks": {"": replace(_PLAIN_CHAT, reasoning="effort", variants=_EFFORTS)},
    "ollama": {"": _PLAIN_CHAT},
    "vllm": {"": _PLAIN_CHAT},
    "llamacpp": {"": _PLAIN_CHAT},
    "lmstudio": {"": _PLAIN_CHAT},
    "local": {"": _MODEST},
}
_TABLES["vertex"] = _TABLES["google"]
_TABLES["openai-chat"] = _TABLES["azure"] = {
    prefix: replace(each, result_images=False, web_search=False)
    for prefix, each in _TABLES["openai"].items()
}
_TABLES["azure-responses"] = _TABLES["openai"]


def capabilities_of(provider: str, model: str) -> Capabilities:
    """Return what is known of a model: the longest beginning of its name that stands in the table."""
    table = _TABLES.get(provider, {"": _PLAIN_CHAT})
    return table[max((prefix for prefix in table if model.startswith(prefix)), key=len)]


def _searching() -> list[str]:
    return [name for name, rows in _TABLES.items() if any(row.web_search for row in rows.values())]


def abilities_of(provider: str) -> tuple[str, ...]:
    """Return what models of a provider can do, in words; not each of them can do all of it."""
    # A cloud's models of Anthropic are Anthropic's.
    owner = "anthropic" if provider.endswith("-anthropic") else provider
    rows = _TABLES.get(owner, {"": _PLAIN_CHAT}).values()
    asked = {
        "tools": any(row.tools for row in rows),
        "think": any(row.variants for row in rows),
        "schemas": any(row.structured_output != "none" for row in rows),
        "search": any(row.web_search for row in rows),
    }
    return tuple([name for name, can in asked.items() if can])
