"""Refusals as providers write them, by what they mean. Where each was seen stands beside it.

`recorded`: the body was recorded from the provider. `documented`: its documentation, or its source, has it.
`reported`: users published it, or it is widely known. `constructed`: made up to look alike. The sentences are the providers' own, with other numbers and names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

RECORDED, DOCUMENTED, REPORTED = "recorded", "documented", "reported"
CONSTRUCTED = "constructed"


class Refusal(NamedTuple):
    """What a provider sent. Without a status it is an error inside of a stream, or of an answer with status 200."""

    provider: str
    status: int | None
    body: Any
    evidence: str
    headers: Mapping[str, str] = {}

    @property
    def text(self) -> str:
        return self.body if isinstance(self.body, str) else json.dumps(self.body)


def named(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


def anthropic(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(message: str, status: str, code: int, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": [*details]}}


def upstream(raw: str, code: int = 400, who: str = "Acme") -> dict[str, Any]:
    return named("Provider returned error", code=code, metadata={"raw": raw, "provider_name": who})


def quotas(*ids: str) -> dict[str, Any]:
    kind = "type.googleapis.com/google.rpc.QuotaFailure"
    return {
        "@type": kind,
        "violations": [{"quotaMetric": "requests", "quotaId": each} for each in ids],
    }


INVALID = "invalid_request_error"
TOO_MANY = "You exceeded your current quota, please check your plan and billing details."
EXCEEDED = "context_length_exceeded"
OLD_WORDS = (
    "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in the messages, "
    "{} in the completion). Please reduce the length of the messages or completion."
)

ROWS = frozenset(
    [
        "anthropic",
        "openai",
        "openai-chat",
        "google",
        "vertex",
        "openrouter",
        "ollama",
        "vllm",
        "llamacpp",
        "lmstudio",
        "deepseek",
        "groq",
        "mistral",
        "xai",
        "together",
        "fireworks",
        "azure",
        "bedrock",
        "generic",
        "kimi",
        "zai",
        "copilot",
        "cerebras",
    ]
)
"""Every host of which a request that is too long is known."""

OVERFLOWS = [
    Refusal("anthropic", 400, anthropic("prompt is too long: 213462 tokens > 200000 maximum"), REPORTED),
    Refusal("anthropic", 400, anthropic("input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length or `max_tokens` and try again"), REPORTED),
    # 32 MB, which images reach long before the window is full; the summary is asked for without them.
    Refusal("anthropic", 413, anthropic("Request exceeds the maximum size", "request_too_large"), DOCUMENTED),
    Refusal("anthropic", 413, anthropic("Request size exceeds model context window"), REPORTED),
    Refusal("anthropic", None, {"type": INVALID, "message": "prompt is too long: 3 tokens > 2 maximum"}, REPORTED),
    Refusal("openai", 400, named("Your input exceeds the context window of this model. Please adjust your input and try again.", code=EXCEEDED, type=INVALID, param="input"), REPORTED),
    Refusal("openai", None, {"code": EXCEEDED, "message": "Your input exceeds the context window of this model."}, DOCUMENTED),
    Refusal("openai-chat", 400, named("This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. Please reduce the length of the messages.", code=EXCEEDED, type=INVALID, param="messages"), REPORTED),
    Refusal("openai-chat", 400, named(OLD_WORDS.format(4097, 4203, 3703, 500), type=INVALID), REPORTED),
    Refusal("google", 400, google("The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).", "INVALID_ARGUMENT", 400), REPORTED),
    Refusal("google", 400, google("Request payload size exceeds the limit: 20971520 bytes.", "INVALID_ARGUMENT", 400), REPORTED),
    Refusal("vertex", 400, [google("The input token count exceeds the maximum number of tokens allowed 1048576.", "INVALID_ARGUMENT", 400)], REPORTED),
    Refusal("openrouter", 400, named("This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens (140000 of text input, 10000 in the output).", code=400), REPORTED),
    Refusal("openrouter", 400, upstream('{"error":{"message":"This model\'s maximum context length is 262144 tokens. However, your messages resulted in 262897 tokens.","type":"Bad Request","code":400}}'), REPORTED),
    Refusal("openrouter", 400, upstream("Input length 131393 exceeds the maximum allowed input length of 131040 tokens."), REPORTED),
    Refusal("openrouter", 400, named("Too long", code=400, metadata={"error_type": EXCEEDED}), DOCUMENTED),
    Refusal("openrouter", 413, named("Too large", code=413, metadata={"error_type": "payload_too_large"}), DOCUMENTED),
    Refusal("ollama", 400, named("prompt too long; exceeded max context length by 100918 tokens"), REPORTED),
    Refusal("vllm", 400, {"object": "error", "message": "The decoder prompt (length 10127) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens.", "type": "BadRequestError", "code": 400}, REPORTED),
    Refusal("vllm", 400, named("This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.", type="BadRequestError", code=400), REPORTED),
    # The reply would fit an empty window: a shorter prompt makes room for it.
    Refusal("vllm", 400, named("'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 tokens and your request has 6000 input tokens (4096 > 8192 - 6000).", code=400), DOCUMENTED),
    Refusal("llamacpp", 400, named("request (68879 tokens) exceeds the available context size (65536 tokens), try increasing it", code=400, type="exceed_context_size_error", n_ctx=65536), REPORTED),
    Refusal("llamacpp", 400, named("the request exceeds the available context size, try increasing it", code=400), REPORTED),
    Refusal("llamacpp", 500, named("Context size has been exceeded.", code=500, type="server_error"), DOCUMENTED),
    Refusal("llamacpp", None, {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}, DOCUMENTED),
    Refusal("lmstudio", 400, {"error": "The number of tokens to keep from the initial prompt (9800) is greater than the context length (8192)."}, REPORTED),
    Refusal("lmstudio", None, {"message": "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough."}, REPORTED),
    Refusal("lmstudio", None, {"message": "Input length 1581 exceeds context length 1500"}, REPORTED),
    Refusal("deepseek", 400, named(OLD_WORDS.format(65536, 126674, 118674, 8000), type=INVALID, code=INVALID), REPORTED),
    Refusal("groq", 400, named("Please reduce the length of the messages or completion.", type=INVALID, code=EXCEEDED, param="messages"), REPORTED),
    Refusal("groq", 413, named("Request Entity Too Large", type=INVALID, code="request_too_large"), DOCUMENTED),
    Refusal("mistral", 400, {"object": "error", "message": "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "type": "invalid_request_prompt", "param": None, "code": "3051"}, REPORTED),
    Refusal("xai", 400, {"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}, REPORTED),
    Refusal("together", 400, named("The input (516368 tokens) is longer than the model's context length (262144 tokens).", type=INVALID), REPORTED),
    Refusal("together", 400, named("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 80125 `inputs` tokens and 4096 `max_new_tokens`", type=INVALID, param="max_tokens"), REPORTED),
    Refusal("together", 400, named("Input validation error: `inputs` must have less than 1024 tokens. Given: 1244"), REPORTED),
    Refusal("fireworks", 400, named("The prompt is too long: 300000, model maximum context length: 131071", type=INVALID), REPORTED),
    Refusal("azure", 400, named("This model's maximum context length is 16385 tokens. However, your messages resulted in 31228 tokens. Please reduce the length of the messages.", type=INVALID, param="messages", code=EXCEEDED), REPORTED),
    Refusal("bedrock", 400, {"message": "Input is too long for requested model."}, REPORTED),
    Refusal("bedrock", 400, {"message": "The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again."}, REPORTED),
    Refusal("generic", 400, named("Input length (265330) exceeds model's maximum context length (262144)."), REPORTED),
    Refusal("generic", 400, named("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", code="invalid_parameter_error"), REPORTED),
    Refusal("generic", 400, named("invalid params, context window exceeds limit (2013)", type="bad_request_error"), REPORTED),
    Refusal("generic", 400, named("Requested tokens (640) exceed context window of 512"), REPORTED),
    Refusal("generic", 400, named("Prompt has 256,468 tokens, but the configured context size is 256,000 tokens"), REPORTED),
    Refusal("kimi", 400, named("Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)", type=INVALID), REPORTED),
    Refusal("zai", 400, {"error": {"code": "1261", "message": "Prompt exceeds max length"}}, REPORTED),
    Refusal("copilot", 400, named("prompt token count of 140000 exceeds the limit of 128000", code="model_max_prompt_tokens_exceeded"), REPORTED),
    Refusal("cerebras", 400, {"message": "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000", "type": INVALID, "param": "messages", "code": EXCEEDED}, REPORTED),
    Refusal("cerebras", 400, named("Please reduce the length of the messages or completion. Current length is 69553 while limit is 65536"), REPORTED),
]  # fmt: skip

NO_OVERFLOWS = [
    # The reply was asked to be too long, whatever the prompt.
    Refusal("anthropic", 400, anthropic("max_tokens: 250000 > 128000, which is the maximum allowed number of output tokens for claude-opus-4-7"), REPORTED),
    Refusal("anthropic", 400, anthropic("input length and `max_tokens` exceed context limit: 90 + 300000 > 200000, decrease input length or `max_tokens` and try again"), REPORTED),
    Refusal("openai-chat", 400, named("max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you provided 32000.", code="invalid_value", param="max_tokens", type=INVALID), REPORTED),
    Refusal("openai-chat", 400, named(OLD_WORDS.format(4097, 8012, 12, 8000), type=INVALID), REPORTED),
    Refusal("openrouter", 400, named("This endpoint's maximum context length is 40960 tokens. However, you requested about 120043 tokens (43 of text input, 120000 in the output).", code=400), REPORTED),
    Refusal("openrouter", None, {"code": 400, "message": "Token limit reached"}, RECORDED),
    Refusal("openrouter", 400, named("Generation stopped", code=400, metadata={"error_type": "max_tokens_exceeded"}), DOCUMENTED),
    Refusal("vllm", 400, named("'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 8192 tokens and your request has 100 input tokens (32000 > 8192 - 100).", code=400), DOCUMENTED),
    Refusal("vllm", 400, named("This model's maximum context length is 8192 tokens. However, you requested 9000 output tokens and your prompt contains at least 20 input tokens", code=400), REPORTED),
    Refusal("together", 422, named("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 25 `inputs` tokens and 5000 `max_new_tokens`"), REPORTED),
    Refusal("groq", 400, named("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model", type=INVALID), REPORTED),
    Refusal("google", 400, google("Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive).", "INVALID_ARGUMENT", 400), REPORTED),
    Refusal("bedrock", 400, {"message": "The maximum tokens you requested exceeds the model limit of 8192. Try again with a maximum tokens value that is lower than 8192."}, REPORTED),
    Refusal("deepseek", 400, named("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", type=INVALID), REPORTED),
    Refusal("generic", 400, named("Range of max_tokens should be [1, 8192]", code="invalid_parameter_error"), REPORTED),
    # How often, and how much in a minute.
    Refusal("groq", 413, named("Request too large for model `llama-3.1-8b-instant` in organization `org_1` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 12000, please reduce your message size and try again.", type="tokens", code="rate_limit_exceeded"), REPORTED),
    Refusal("openai-chat", 429, named("Request too large for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Requested 35000. The input or output tokens must be reduced in order to run successfully.", type="tokens", code="rate_limit_exceeded"), REPORTED),
    Refusal("anthropic", 429, anthropic("Extra usage is required for long context requests.", "rate_limit_error"), REPORTED),
    Refusal("bedrock", 429, {"message": "Too many tokens, please wait before trying again."}, REPORTED),
    Refusal("cerebras", 429, {"message": "Tokens per minute limit exceeded - too many tokens processed.", "code": "token_quota_exceeded"}, REPORTED),
    Refusal("anthropic", 429, anthropic("prompt is too long", "rate_limit_error"), CONSTRUCTED),
    # Other things that are too large, or called so.
    Refusal("anthropic", 400, anthropic("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes"), REPORTED),
    Refusal("anthropic", 400, anthropic("context_management: Extra inputs are not permitted"), REPORTED),
    Refusal("anthropic", 400, anthropic("The long context beta is not yet available for this subscription."), REPORTED),
    Refusal("openai", 400, named("Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 130 instead.", code="array_above_max_length", param="tools", type=INVALID), REPORTED),
    Refusal("openai", 400, named("Invalid 'metadata.note': string too long. Expected a string with maximum length 512, but got a string with length 600 instead.", code="string_above_max_length", type=INVALID), REPORTED),
    Refusal("openai", 400, named("Invalid schema for function 'set_context_window': schema must be a JSON Schema of 'type: \"object\"'", code="invalid_function_parameters", param="tools[0].function.parameters", type=INVALID), REPORTED),
    Refusal("openai", 400, named("Unknown parameter: 'context window'.", code="unknown_parameter", type=INVALID), REPORTED),
    Refusal("generic", 422, {"detail": [{"loc": ["body", "max_context"], "msg": "value is not a valid integer", "input": "maximum context length"}]}, DOCUMENTED),
    # What the model wrote, or the user, is not what the provider says.
    Refusal("groq", 400, named("Failed to call a function.", type=INVALID, code="tool_use_failed", failed_generation="This model's maximum context length is 9 tokens"), RECORDED),
    Refusal("openrouter", 400, named("Bad input", code=400, metadata={"flagged_input": "prompt is too long", "headers": {"x": "maximum context length"}}), DOCUMENTED),
    # Passing, or of another kind altogether.
    Refusal("generic", 503, named("maximum context length service is down"), CONSTRUCTED),
    Refusal("openrouter", 402, named("Prompt tokens limit exceeded: 36163 > 29652. To increase, visit https://openrouter.ai/settings/credits and upgrade to a paid account", code=402), REPORTED),
    Refusal("generic", 404, named("No endpoints found with a maximum context length of 2000000"), CONSTRUCTED),
]  # fmt: skip
