"""What a model can do, as data: a table by provider and the beginning of the model's name.

Law 1. Adapters look here and nowhere else; a caller who knows better passes `capabilities=`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from windlass.errors import InvalidInput
from windlass.kernel.model_call import Generation

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
    sampling=False,
    max_output_tokens=64_000,
    file_types=frozenset({"application/pdf", "text/plain"}),
)
_CLAUDE_BUDGET = replace(_CLAUDE, reasoning="budget", variants=_BUDGETS)
_CLAUDE_FORCED = replace(_CLAUDE_BUDGET, structured_output="tool")
_CLAUDE_3 = replace(_CLAUDE_FORCED, reasoning="none", variants=NO_VARIANTS, max_output_tokens=8_192)
_GPT = Capabilities()
_O = Capabilities(reasoning="effort", variants=_EFFORTS, sampling=False)
_GEMINI = Capabilities(
    reasoning="budget",
    variants={"none": 0, **_BUDGETS},
    structured_with_tools=False,
    image_types=frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}),
)
_GEMINI_3 = replace(_GEMINI, reasoning="effort", variants=_EFFORTS, structured_with_tools=True)
_PLAIN_CHAT = Capabilities(files=False, result_images=False)
_MODEST = Capabilities(images=False, files=False, result_images=False)

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
        "claude-3-haiku": replace(_CLAUDE_3, max_output_tokens=4_096),
        "claude-3-7": _CLAUDE_FORCED,
    },
    "openai": {
        "": _GPT,
        "gpt-5": Capabilities(reasoning="effort", variants=_MORE_EFFORTS, sampling=False),
        "gpt-5-chat": _GPT,
        "gpt-4": _GPT,
        "gpt-3.5": Capabilities(images=False, files=False, structured_output="none"),
        "o1": _O,
        "o3": _O,
        "o4": _O,
    },
    "google": {
        "": _GEMINI,
        "gemini-2.0": replace(_GEMINI, reasoning="none", variants=NO_VARIANTS),
        "gemini-1.5": replace(_GEMINI, reasoning="none", variants=NO_VARIANTS),
        "gemini-3": _GEMINI_3,
        "gemma": replace(_GEMINI, reasoning="none", variants=NO_VARIANTS, files=False),
    },
    "openrouter": {"": replace(_PLAIN_CHAT, reasoning="effort", variants=_EFFORTS)},
    "ollama": {"": _PLAIN_CHAT},
    "vllm": {"": _PLAIN_CHAT},
    "llamacpp": {"": _PLAIN_CHAT},
    "local": {"": _MODEST},
}
_TABLES["openai-chat"] = {
    prefix: replace(each, result_images=False) for prefix, each in _TABLES["openai"].items()
}


def capabilities_of(provider: str, model: str) -> Capabilities:
    """Return what is known of a model: the longest beginning of its name that stands in the table."""
    table = _TABLES.get(provider, {"": _PLAIN_CHAT})
    return table[max((prefix for prefix in table if model.startswith(prefix)), key=len)]
