"""Every size and count limit on what comes from outside, in one table, and seconds that a clock can count.

A limit is where a value arises, never where it is stored: what was accepted and recorded is
never refused again for its size.
"""

from __future__ import annotations

import math

import msgspec

from windlass.errors import InvalidInput, LimitExceeded

_KIB = 1024
_MIB = 1024 * _KIB


class InputLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table. Each field is settable; a value at the limit passes, one more does not."""

    attachment_bytes: int = 64 * _MIB
    attachments_per_turn: int = 32
    # OpenAI's Chat Completions takes back no more calls than that in one message.
    calls_per_reply: int = 128
    cron_chars: int = 256
    header_block_bytes: int = 16 * _KIB
    history_page: int = 1_000
    id_chars: int = 128
    input_text_bytes: int = _MIB
    # Python's own recursion limit is 1,000 frames; 64 levels leave room for recursive readers.
    json_depth: int = 64
    json_keys: int = 1_024
    # CPython refuses to print or parse integers of over 4,300 digits, which is 14,284 bits.
    json_integer_bits: int = 14_000
    metadata_bytes: int = 16 * _KIB
    parts_per_message: int = 256
    request_body_bytes: int = 4 * _MIB
    schema_bytes: int = 64 * _KIB
    server_event_bytes: int = _MIB
    # The widest of the providers' own limits (Gemini 5, OpenAI 4, Anthropic leaves it open).
    stop_sequences: int = 16
    tool_args_bytes: int = 256 * _KIB
    # Anthropic and OpenAI both end at 64 in their older models, 128 in the newer.
    tool_name_chars: int = 64
    tool_result_bytes: int = _MIB
    tools: int = 512


INPUT_LIMITS = InputLimits()


def check_limit(name: str, found: int, *, field: str, limits: InputLimits = INPUT_LIMITS) -> None:
    """Refuse `found` if it is over the limit called `name`.

    Raises:
        LimitExceeded: naming the field, the size found and the limit.
    """
    wanted: int = getattr(limits, name)
    if found > wanted:
        raise LimitExceeded(
            f"{field}: {name} is {found:,}, the limit is {wanted:,}",
            field=field,
            found=found,
            wanted=wanted,
        )


def check_page(limit: object) -> int:
    """Return how many lines a page may have.

    Raises:
        InvalidInput: it is not a number of lines.
        LimitExceeded: it is more than a store shows at once.
    """
    if type(limit) is not int or limit < 1:
        raise InvalidInput("limit: wanted a whole number of 1 or more", field="limit")
    check_limit("history_page", limit, field="limit")
    return limit


# Ten thousand years: beyond it no store and no timer keeps a time.
_MAX_SECONDS = 3.2e11


def check_seconds(found: object, *, field: str) -> None:
    """Refuse what is neither None nor a finite number of seconds from 0 on.

    Raises:
        InvalidInput: naming the field.
    """
    if found is None:
        return
    is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
    if is_number and math.isfinite(found) and 0 <= found <= _MAX_SECONDS:  # type: ignore[arg-type,operator]  # a number
        return
    shown = found if is_number else type(found).__name__
    raise InvalidInput.at(field, shown, "seconds of 0 or more")
