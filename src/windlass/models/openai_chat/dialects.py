"""Chat Completions is spoken with accents: one row for each server, and no other place that knows them.

Where a server lives and which variable holds its key stands in `credentials.KEY_SOURCES`, under the row's
`provider`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias

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
    # The field that its thoughts are taken back in; None: they are never sent again.
    replay_field: str | None = None
    # Where the effort goes; None: cannot be asked for.
    effort_field: EffortField | None = None
    # Understands `tool_choice`; else `none` leaves the tools out and `required` is not asked for.
    tool_choice: bool = False
    parallel_option: bool = False
    schema: SchemaSupport = "none"
    # Wants schemas closed, with every property required; others take them as they are.
    strict_schema: bool = False
    files: bool = False
    cache_key: bool = False
    # Always ends with [DONE]: a finish_reason without it is a stream that was cut.
    done_needed: bool = False
    # May end with [DONE] and never have given a finish_reason.
    done_is_enough: bool = True
    # Numbers its calls 0, 1, 2: a number left out is a call that was lost.
    calls_numbered: bool = False


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
_ROWS: dict[str, Dialect] = {
    "openai": replace(
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
    ),
    "openrouter": replace(
        _USUAL,
        provider="openrouter",
        replay_field="reasoning_details",
        effort_field="reasoning",
        strict_schema=True,
        files=True,
        done_is_enough=False,
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
