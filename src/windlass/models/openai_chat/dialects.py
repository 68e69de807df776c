"""Chat Completions is spoken with accents: one row for each server, and no other place that knows them.

Where a server lives and which variable holds its key stands in `credentials.KEY_SOURCES`, under the row's
`provider`. What its models can do stands in `capabilities`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from windlass.errors import ConfigError

SchemaSupport: TypeAlias = Literal["json_schema", "json_object", "none"]
EffortField: TypeAlias = Literal["reasoning_effort", "reasoning"]


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind of server differs. The defaults are the least that any of them understands."""

    provider: str
    token_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"  # noqa: S105 - tokens of text
    # Takes `stream_options.include_usage`; without it no usage is told, and usage is unknown.
    usage_option: bool = False
    # Where thoughts are found in a delta; the first field that is there counts.
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    # The field that its thoughts are taken back in; None: they are never sent again. `reasoning_details` holds them
    # as the server gave them, `content` as parts of it, any other field as text.
    replay_field: str | None = None
    # Refuses an assistant message without `replay_field`: it is sent empty with what another model said.
    replay_needed: bool = False
    # Where the effort goes; None: cannot be asked for.
    effort_field: EffortField | None = None
    # Understands `tool_choice`; else `none` leaves the tools out and `required` is not asked for.
    tool_choice: bool = False
    # Its word for "call a tool"; None: it refuses to be told, so that is not asked for.
    required_word: str | None = "required"
    parallel_option: bool = False
    seed_field: Literal["seed", "random_seed"] = "seed"
    schema: SchemaSupport = "none"
    # Wants schemas closed, with every property required; others take them as they are.
    strict_schema: bool = False
    files: bool = False
    cache_key: bool = False
    # Beginnings of the names of models whose cache wants to be told what stays.
    cache_marks: tuple[str, ...] = ()
    # Always ends with [DONE]: a finish_reason without it is a stream that was cut.
    done_needed: bool = False
    # May end with [DONE] and never have given a finish_reason.
    done_is_enough: bool = True
    # Numbers its calls 0, 1, 2: a number left out is a call that was lost.
    calls_numbered: bool = False
    # Takes only ids of so many letters and digits for calls; others are rewritten.
    call_id_chars: int | None = None
    # Beginnings of the names of models that refuse a call without a signature, which another model's never has.
    signed_calls: tuple[str, ...] = ()
    # Wants an assistant's message between results and a user's, and system messages first.
    strict_order: bool = False
    # The object of a chunk that holds the usage, where it is not the chunk itself.
    usage_inside: str | None = None
    # Searches the web by a tool of this type.
    search_tool: str | None = None
    # Fields that models of these beginnings are always sent.
    extra_fields: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)


# What most servers understand by now.
_USUAL = Dialect(
    provider="",
    usage_option=True,
    reasoning_fields=("reasoning", "reasoning_content"),
    tool_choice=True,
    parallel_option=True,
    schema="json_schema",
    done_needed=True,
)
_OPENAI = replace(
    _USUAL,
    provider="openai-chat",
    token_limit_field="max_completion_tokens",  # noqa: S106 - tokens of text
    reasoning_fields=(),
    effort_field="reasoning_effort",
    strict_schema=True,
    files=True,
    cache_key=True,
    done_is_enough=False,
    calls_numbered=True,
)
_ROWS: dict[str, Dialect] = {
    "openai": _OPENAI,
    # Deployments of OpenAI's models at Microsoft, by its API v1.
    "azure": replace(_OPENAI, provider="azure"),
    "openrouter": replace(
        _USUAL,
        provider="openrouter",
        replay_field="reasoning_details",
        effort_field="reasoning",
        strict_schema=True,
        files=True,
        done_is_enough=False,
        cache_marks=("anthropic/",),
        signed_calls=("google/gemini-3",),
        search_tool="openrouter:web_search",
    ),
    # https://api-docs.deepseek.com/guides/thinking_mode: thoughts have to come back with calls. While it thinks, which
    # is its default, it refuses to be told to call a tool.
    "deepseek": replace(
        _USUAL,
        provider="deepseek",
        reasoning_fields=("reasoning_content",),
        replay_field="reasoning_content",
        replay_needed=True,
        effort_field="reasoning_effort",
        required_word=None,
        parallel_option=False,
        schema="json_object",
    ),
    # Its schemas do not go with streaming. https://console.groq.com/docs/structured-outputs
    "groq": replace(
        _USUAL,
        provider="groq",
        token_limit_field="max_completion_tokens",  # noqa: S106 - tokens of text
        usage_option=False,
        usage_inside="x_groq",
        reasoning_fields=("reasoning",),
        effort_field="reasoning_effort",
        schema="none",
        extra_fields={
            name: {"reasoning_format": "parsed"}
            for name in ("openai/gpt-oss", "qwen/qwen3", "deepseek-r1")
        },
    ),
    # It refuses fields that it does not know, and always tells the usage.
    "mistral": replace(
        _USUAL,
        provider="mistral",
        usage_option=False,
        reasoning_fields=(),
        replay_field="content",
        effort_field="reasoning_effort",
        required_word="any",
        seed_field="random_seed",
        strict_schema=True,
        cache_key=True,
        call_id_chars=9,
        strict_order=True,
    ),
    "xai": replace(
        _USUAL,
        provider="xai",
        token_limit_field="max_completion_tokens",  # noqa: S106 - tokens of text
        reasoning_fields=("reasoning_content",),
        effort_field="reasoning_effort",
        strict_schema=True,
    ),
    "together": replace(
        _USUAL,
        provider="together",
        effort_field="reasoning_effort",
        parallel_option=False,
    ),
    "fireworks": replace(
        _USUAL,
        provider="fireworks",
        reasoning_fields=("reasoning_content",),
        replay_field="reasoning_content",
        effort_field="reasoning_effort",
        parallel_option=False,
    ),
    "ollama": replace(
        _USUAL,
        provider="ollama",
        effort_field="reasoning_effort",
        tool_choice=False,
        parallel_option=False,
    ),
    "vllm": replace(_USUAL, provider="vllm", replay_field="reasoning"),
    "llamacpp": replace(
        _USUAL,
        provider="llamacpp",
        reasoning_fields=("reasoning_content",),
        replay_field="reasoning_content",
    ),
    "lmstudio": replace(_USUAL, provider="lmstudio", parallel_option=False),
    "generic": Dialect(provider="generic"),
}

DIALECTS: Mapping[str, Dialect] = MappingProxyType(_ROWS)


def dialect_named(name: str) -> Dialect:
    """Return the row of this name.

    Raises:
        ConfigError: there is none; the message names those there are.
    """
    found = DIALECTS.get(name)
    if found is None:
        raise ConfigError.at("dialect", f"{name[:40]!r}", f"one of {', '.join(DIALECTS)}")
    return found
