"""What a refusal means beyond its status: too long a request, filtered content, a spent account.

Law 1. A false alarm is worse than a miss. An overflow that is none has a history compacted for nothing, so only
    sentences are listed that providers were seen to write for it, and never a word such as "context" alone.
"""

from __future__ import annotations

import re

from windlass.models.provider_errors.words import Said

OVERFLOW = "context_overflow"
FILTERED = "content_filter"
QUOTA = "quota"

# What providers call the trouble, in a body or in an event of a stream, and the status that stands for it.
_KINDS = {
    400: "invalid_request_error invalid_request invalid_prompt content_filter content_policy_violation "
    "context_length_exceeded exceed_context_size_error INVALID_ARGUMENT FAILED_PRECONDITION",
    401: "authentication_error authentication invalid_api_key UNAUTHENTICATED",
    402: "billing_error payment_required",
    403: "permission_error permission_denied PERMISSION_DENIED",
    404: "not_found_error not_found model_not_found NOT_FOUND",
    408: "timeout_error timeout",
    413: "request_too_large payload_too_large",
    429: "rate_limit_error rate_limit_exceeded rate_limit_reached_error rate_limited too_many_requests "
    "insufficient_quota exceeded_current_quota_error tokens requests RESOURCE_EXHAUSTED",
    500: "api_error server_error server internal_error internal_server_error INTERNAL",
    503: "service_unavailable slow_down capacity_exceeded engine_overloaded_error provider_overloaded "
    "provider_unavailable UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "overloaded_error",
}
STATUS_OF_KIND = {kind: status for status, kinds in _KINDS.items() for kind in kinds.split()}


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# "Pay first", or a quota that no wait of minutes brings back.
_QUOTA = _any_of(
    r"insufficient[_ ](?:quota|credits?|balance)",
    r"exceeded[_ ]current[_ ]quota",
    r"credit balance is too low",
    r"billing_(?:hard|not)_\w+",  # OpenAI
    r"reached your specified API usage limits",  # Anthropic: the limit that the owner set
    r"(?:used all available|run out of|requires more) credits",  # xAI, OpenRouter
    r"monthly spending limit",  # Fireworks, xAI
    r"\bkey limit exceeded",  # OpenRouter
    r"free[-_](?:models|tier)[-_](?:per[-_]day|daily)",  # OpenRouter
    r"余额不足",  # Zhipu
    r"(?:Requests|Tokens)(?:Per\w+)?PerDay|, limit: 0\b",  # Google
)
_QUOTA_STATUSES = frozenset({None, 400, 402, 403, 412, 429})

_OVERFLOW = _any_of(
    r"context[_ ]length[_ ]exceeded",
    r"request_too_large|payload_too_large|request payload size exceeds",  # bytes: attachments count here
    r"prompt (?:is )?too long",  # Anthropic, Fireworks, Ollama
    r"maximum context length",  # OpenAI, OpenRouter, vLLM, DeepSeek, Mistral, Fireworks
    r"exceeds? (?:the |this )?(?:model'?s? )?context (?:window|length|limit)",  # OpenAI, Anthropic, LM Studio
    r"input token count .{0,40}exceeds",  # Google
    r"longer than the (?:maximum model|model's context) length",  # vLLM; SGLang, Together
    r"maximum prompt length is \d",  # xAI
    r"reduce the length of the (?:messages|prompt|input)",  # Groq, Cerebras, vLLM
    r"exceeds? the available context size|context size has been exceeded",  # llama.cpp
    r"from the initial prompt .{0,30}greater than the context length",  # LM Studio
    r"keep the first \d+ tokens when context the overflows",  # LM Studio
    r"prompt token count of \d+ exceeds the limit",  # GitHub Copilot
    r"context window exceeds limit",  # MiniMax
    r"exceeded model token limit",  # Kimi
    r"prompt exceeds max(?:imum)? length",  # Z.ai
    r"input is too long for|number of input tokens exceeds maximum length",  # Bedrock
    r"`inputs` tokens \+ `max_new_tokens` must be|`inputs` must have less than",  # Together, Hugging Face
    r"range of input length should be",  # Qwen
    r"exceeds the maximum allowed input length",  # Poolside
    r"tokens, but the configured context size is",  # DS4
)
# llama.cpp, LM Studio and proxies say it with 500, too.
_OVERFLOW_STATUSES = frozenset({None, 400, 413, 422, 500})
# A reply that was asked to be longer than the whole window: no shorter prompt makes room for it.
_REPLY_AND_WINDOW = (
    re.compile(r"\((?P<reply>\d{1,15}) > (?P<window>\d{1,15}) - \d+\)"),
    re.compile(r"context length is (?P<window>\d{1,15}).*?\b(?P<reply>\d{1,15}) (?:in|for) the (?:completion|output)"),
    re.compile(r"context length is (?P<window>\d{1,15}).*?requested (?P<reply>\d{1,15}) output tokens"),
    re.compile(r"exceed context limit: \d+ \+ (?P<reply>\d{1,15}) > (?P<window>\d{1,15})"),
    re.compile(r"must be <= (?P<window>\d{1,15})\. Given: \d+ `inputs` tokens and (?P<reply>\d{1,15}) "),
)  # fmt: skip

# The provider's policy stopped it: an outcome to show, not a fault to repeat.
# The names are those of fields for a machine; in a sentence they may be those of a parameter.
FILTERED_NAMES = frozenset(
    {
        "bio_policy",
        "content_filter",
        "content_policy_violation",
        "cyber_policy",
        "image_content_policy_violation",
        "misalignment_policy_violation",
        "moderation",
        "ResponsibleAIPolicyViolation",
    }
)
_FILTERED = _any_of(
    r"content management policy",  # Azure
    r"flagged as potentially violating|rejected as a result of our safety system",  # OpenAI
    r"content violates usage guidelines",  # xAI
    r"blocked by (?:our )?content filter",  # Anthropic, Bedrock
    r"content exists risk",  # DeepSeek
    r"may contain inappropriate content",  # Qwen
    r"potentially (?:unsafe or )?sensitive content|\bnew_sensitive\b",  # Z.ai, MiniMax
)
# Who may ask, whether it is paid and how often: with these it is not about what was asked.
_NEVER_FILTERED = frozenset({401, 402, 404, 408, 409, 429})

# The request alone is above the limit by the minute: to wait is vain, and the window is not full either.
_TOO_LARGE_EVER = re.compile(r"request too large for ", re.IGNORECASE)


def meaning_of(status: int | None, said: Said) -> str | None:
    """Return what a refusal means beyond its status: `QUOTA`, `FILTERED`, `OVERFLOW`, or None for nothing more.

    The status is None for an error in a stream that has none.
    """
    told = " ".join((*said.names, said.words))
    if status in _QUOTA_STATUSES and _QUOTA.search(told):
        return QUOTA
    if _may_be_filtered(status) and _is_filtered(said):
        return FILTERED
    if status in _OVERFLOW_STATUSES and _OVERFLOW.search(told) and not _asks_too_much(said.words):
        return OVERFLOW
    return None


def _may_be_filtered(status: int | None) -> bool:
    return status is None or (400 <= status < 500 and status not in _NEVER_FILTERED)


def _is_filtered(said: Said) -> bool:
    return not FILTERED_NAMES.isdisjoint(said.names) or _FILTERED.search(said.words) is not None


def is_too_large_ever(said: Said) -> bool:
    """Whether a limit by the minute is smaller than this one request, so that it never passes."""
    return _TOO_LARGE_EVER.search(said.words) is not None


def _asks_too_much(words: str) -> bool:
    """Whether the reply that was asked for would not fit the window without any prompt."""
    text = words.replace(",", "")
    found = next((match for each in _REPLY_AND_WINDOW if (match := each.search(text))), None)
    return found is not None and int(found["reply"]) >= int(found["window"])
