"""Refusals for what was asked about, for money, and for how often: as `refusal_cases.py` has them."""

from __future__ import annotations

from tests.models.refusal_cases import (
    DOCUMENTED,
    INVALID,
    RECORDED,
    REPORTED,
    TOO_MANY,
    Refusal,
    anthropic,
    google,
    named,
    quotas,
    upstream,
)

AZURE = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry."
FLAGGED = "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please try again with a different prompt."

FILTERED = [
    Refusal("azure", 400, named(AZURE, type=None, param="prompt", code="content_filter", status=400, innererror={"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": False, "severity": "safe"}, "violence": {"filtered": True, "severity": "medium"}}}), REPORTED),
    Refusal("azure", 400, named("Blocked.", code="BadRequest", innererror={"code": "ResponsibleAIPolicyViolation"}), DOCUMENTED),
    Refusal("azure", None, {"message": AZURE, "code": "content_filter", "status": 400}, REPORTED),
    Refusal("azure", None, {"message": AZURE, "code": "content_filter"}, REPORTED),
    Refusal("azure", 400, named(f"AzureException - {AZURE}", code="400", type=None), REPORTED),
    Refusal("openai", 400, named(FLAGGED, type=INVALID, param=None, code="invalid_prompt"), REPORTED),
    Refusal("openai", 400, named("Your request was rejected by the safety system.", type=INVALID, code="content_policy_violation"), REPORTED),
    Refusal("openai-chat", 400, named("Your request was rejected as a result of our safety system.", type=INVALID), REPORTED),
    Refusal("openai", None, {"code": "invalid_prompt", "message": FLAGGED}, REPORTED),
    Refusal("anthropic", 400, anthropic("Output blocked by content filtering policy"), REPORTED),
    Refusal("anthropic", None, {"details": None, "type": INVALID, "message": "Output blocked by content filtering policy"}, REPORTED),
    Refusal("openrouter", 403, named("openai/gpt-4 requires moderation on OpenAI.", code=403, metadata={"reasons": ["violence"], "flagged_input": "how to…", "provider_name": "OpenAI", "model_slug": "openai/gpt-4"}), DOCUMENTED),
    Refusal("openrouter", 403, named("Declined", code=403, metadata={"error_type": "content_policy_violation"}), DOCUMENTED),
    Refusal("openrouter", 400, upstream('{"error":{"message":"Content Exists Risk","type":"invalid_request_error"}}'), REPORTED),
    Refusal("xai", 403, {"code": "The caller does not have permission to execute the specified operation", "error": "Content violates usage guidelines. Team: t, API key ID: k, Model: grok-4-0709, Failed check: SAFETY_CHECK_TYPE_BIO"}, REPORTED),
    Refusal("deepseek", 400, named("Content Exists Risk", type=INVALID, param=None, code=INVALID), REPORTED),
    Refusal("deepseek", 400, {"detail": "Content Exists Risk"}, REPORTED),
    Refusal("kimi", 400, named("The request was rejected because it was considered high risk", type="content_filter"), REPORTED),
    Refusal("generic", 400, named("Moderation Block", code="421", param="considered high risk", type="content_filter"), REPORTED),
    Refusal("generic", None, {"code": "421", "message": "Moderation Block", "type": "content_filter"}, REPORTED),
    Refusal("generic", 400, named("Input data may contain inappropriate content.", code="data_inspection_failed", type="data_inspection_failed"), REPORTED),
    Refusal("generic", 400, named("<400> InternalError.Algo.DataInspectionFailed: Input text data may contain inappropriate content."), REPORTED),
    Refusal("generic", 400, named("input new_sensitive (1026)", type="bad_request_error"), REPORTED),
    Refusal("zai", 400, {"error": {"code": "1301", "message": "System detected potentially unsafe or sensitive content in input or generation."}}, DOCUMENTED),
    Refusal("bedrock", 400, {"message": "This request has been blocked by our content filters. Our filters automatically flagged this prompt."}, REPORTED),
]  # fmt: skip

FILTERED += [
    Refusal("openai", None, {"code": name, "message": "Stopped."}, DOCUMENTED)
    for name in (
        "bio_policy",
        "content_policy_violation",
        "cyber_policy",
        "image_content_policy_violation",
        "misalignment_policy_violation",
    )
]

NOT_FILTERED = [
    Refusal("azure", 400, named("Unrecognized request argument supplied: content_filter", code="unknown_parameter", type=INVALID), REPORTED),
    Refusal("openrouter", 400, named("messages.0.role: unsupported", code=400, metadata={"error_type": "invalid_prompt"}), DOCUMENTED),
    Refusal("openai", 400, named("Unknown parameter: 'moderation'.", code="unknown_parameter", type=INVALID), REPORTED),
    Refusal("google", 400, google("Invalid value at 'safety_settings[0].category'", "INVALID_ARGUMENT", 400), REPORTED),
    Refusal("openai", 403, named("Your organization must be verified to use this model.", type=INVALID, code="model_not_found"), REPORTED),
    Refusal("openai", 401, named("Your access was terminated due to violation of our policies.", type=INVALID), REPORTED),
    Refusal("groq", 400, named("Failed to call a function.", type=INVALID, code="tool_use_failed", failed_generation="content exists risk"), RECORDED),
    Refusal("xai", 403, {"code": "The caller does not have permission to execute the specified operation", "error": "Your API key has no access to this model."}, REPORTED),
]  # fmt: skip

SPENT = [
    Refusal("openai", 429, named(TOO_MANY, type="insufficient_quota", code="insufficient_quota"), DOCUMENTED),
    Refusal("openai", 429, named("Billing hard limit has been reached", code="billing_hard_limit_reached", type=INVALID), REPORTED),
    Refusal("openai", 429, named("Your account is not active, please check your billing details on our website.", code="billing_not_active", type="billing_not_active"), REPORTED),
    Refusal("anthropic", 400, anthropic("Your credit balance is too low to access the Anthropic API."), REPORTED),
    Refusal("anthropic", 400, anthropic("You have reached your specified API usage limits. You will regain access on 2026-11-01 at 00:00 UTC."), DOCUMENTED),
    Refusal("anthropic", 402, anthropic("There is an issue with your billing.", "billing_error"), DOCUMENTED),
    Refusal("anthropic", None, {"type": "billing_error", "message": "Pay."}, DOCUMENTED),
    Refusal("google", 429, google(TOO_MANY, "RESOURCE_EXHAUSTED", 429, quotas("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), {"retryDelay": "38s"}), REPORTED),
    Refusal("google", 429, google(TOO_MANY, "RESOURCE_EXHAUSTED", 429, quotas("GenerateRequestsPerMinutePerProjectPerModel", "GenerateRequestsPerDayPerProjectPerModel")), REPORTED),
    Refusal("google", 429, google(TOO_MANY, "RESOURCE_EXHAUSTED", 429, quotas("GenerateContentInputTokensPerModelPerDay-FreeTier")), REPORTED),
    Refusal("google", 429, google(TOO_MANY + " \n* Quota exceeded for metric: generate_content_free_tier_requests, limit: 0, model: gemini-3.1-pro", "RESOURCE_EXHAUSTED", 429), REPORTED),
    Refusal("openrouter", 402, named("Insufficient credits", code=402), DOCUMENTED),
    Refusal("openrouter", 402, named("This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 30000.", code=402), REPORTED),
    Refusal("openrouter", 403, named("Key limit exceeded (monthly limit).", code=403), REPORTED),
    Refusal("openrouter", 429, named("Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day", code=429), REPORTED),
    Refusal("openrouter", 429, named("Rate limited", code=429, metadata={"limit_source": "openrouter_free_tier_daily"}), REPORTED),
    Refusal("openrouter", 429, upstream('{"error":{"message":"Your account org-1 <ak-1> is suspended due to insufficient balance, please recharge your account"}}', 429), REPORTED),
    Refusal("deepseek", 402, named("Insufficient Balance", type="unknown_error", code=INVALID), DOCUMENTED),
    Refusal("xai", 429, {"code": "Some resource has been exhausted", "error": "Your team t has either used all available credits or reached its monthly spending limit."}, REPORTED),
    Refusal("xai", 403, {"code": "forbidden", "error": "You have run out of credits or need a Grok subscription."}, REPORTED),
    Refusal("fireworks", 412, named("Account acme is suspended, possibly due to reaching the monthly spending limit or failure to pay past invoices.", code="PRECONDITION_FAILED", type="error"), REPORTED),
    Refusal("together", 402, named("Payment required", type="payment_required"), DOCUMENTED),
    Refusal("kimi", 403, named("Your account is not active, organization <org> exceeded current quota, please check your plan and billing details", type="exceeded_current_quota_error"), REPORTED),
    Refusal("zai", 429, {"error": {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}}, REPORTED),
    Refusal("zai", 429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}, REPORTED),
]  # fmt: skip

THROTTLED = [
    Refusal("openai", 429, named("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 4000. Please try again in 6ms.", type="tokens", code="rate_limit_exceeded"), REPORTED),
    Refusal("openai", None, {"code": "rate_limit_exceeded", "message": "slower"}, DOCUMENTED),
    Refusal("anthropic", 429, anthropic("This request would exceed your account's rate limit. Please try again later.", "rate_limit_error"), REPORTED),
    Refusal("google", 429, google(TOO_MANY, "RESOURCE_EXHAUSTED", 429, quotas("GenerateContentInputTokensPerModelPerMinute-FreeTier"), {"retryDelay": "34s"}), REPORTED),
    Refusal("google", 429, google(TOO_MANY + " \n* Quota exceeded for metric: requests, limit: 10, model: gemini-2.5-pro", "RESOURCE_EXHAUSTED", 429), REPORTED),
    Refusal("vertex", 429, [google("Resource exhausted. Please try again later.", "RESOURCE_EXHAUSTED", 429)], REPORTED),
    Refusal("groq", 429, named("Rate limit reached for model `llama-3.3-70b` on tokens per day (TPD): Limit 100000, Used 99000, Requested 3000. Please try again in 7m12.5s.", type="tokens", code="rate_limit_exceeded"), REPORTED),
    Refusal("mistral", 429, {"object": "error", "message": "Rate limit exceeded", "type": "rate_limited", "param": None, "code": "1300", "raw_status_code": 429}, REPORTED),
    Refusal("mistral", 429, {"object": "error", "message": "Service tier capacity exceeded for this model.", "type": "service_tier_capacity_exceeded", "param": None, "code": "3505"}, REPORTED),
    Refusal("openrouter", 429, upstream("acme/model:free is temporarily rate-limited upstream. Please retry shortly.", 429), RECORDED),
    Refusal("openrouter", 402, named("In-flight spending budget reached", code=402, metadata={"limit_source": "openrouter_in_flight_budget"}), DOCUMENTED, {"Retry-After": "4"}),
    Refusal("kimi", 429, named("Your account request reached project TPM rate limit, current: 1410, limit: 100", type="rate_limit_reached_error"), REPORTED),
    Refusal("kimi", 429, named("The engine is currently overloaded, please try again later", type="engine_overloaded_error"), REPORTED),
    Refusal("zai", 429, {"error": {"code": "1302", "message": "High concurrency usage of this API, please reduce concurrency"}}, REPORTED),
    Refusal("bedrock", 429, {"message": "Too many tokens, please wait before trying again."}, REPORTED),
    Refusal("azure", 429, named("Requests have exceeded token rate limit of your current pricing tier. Please retry after 6 seconds.", code="429"), REPORTED),
    Refusal("cerebras", 429, {"message": "Tokens per minute limit exceeded - too many tokens processed.", "code": "token_quota_exceeded"}, REPORTED),
]  # fmt: skip

UNAVAILABLE = [
    Refusal("openai", 503, named("Slow down", code="slow_down", type="service_unavailable_error"), DOCUMENTED),
    Refusal("openai", None, {"code": "slow_down", "message": "Slow down"}, DOCUMENTED),
    Refusal("openai", None, {"code": "server_error", "message": "The server had an error."}, DOCUMENTED),
    Refusal("anthropic", 529, anthropic("Overloaded", "overloaded_error"), DOCUMENTED),
    Refusal("anthropic", None, {"type": "overloaded_error", "message": "Overloaded"}, DOCUMENTED),
    Refusal("google", 503, google("No capacity available for model on the server", "UNAVAILABLE", 503, {"reason": "MODEL_CAPACITY_EXHAUSTED"}), REPORTED),
    Refusal("groq", 498, named("Flex tier capacity exceeded", type="capacity_exceeded", code="capacity_exceeded"), DOCUMENTED),
    Refusal("mistral", 503, {"object": "error", "message": "Service tier capacity exceeded for this model."}, REPORTED),
    Refusal("openrouter", 502, upstream("error code: 1033", 502), REPORTED),
    Refusal("openrouter", None, {"code": 502, "message": "Provider disconnected", "metadata": {"error_type": "provider_unavailable"}}, DOCUMENTED),
    Refusal("deepseek", 503, named("The server is overloaded", type="server_error"), DOCUMENTED),
    Refusal("together", 503, named("The server is overloaded", type="service_unavailable"), DOCUMENTED),
    Refusal("generic", None, {"message": "something else"}, DOCUMENTED),
]  # fmt: skip
