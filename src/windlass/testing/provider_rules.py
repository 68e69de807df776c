"""What providers refuse, checked without one: Anthropic, OpenAI Chat and Responses, Gemini.

A request that a provider refuses is not a passing fault. The history that made it is stored, so the
next request is refused too, and the session is wedged. That is why every request has to suit every
provider, whichever is asked now: the next turn may ask another.

A request is judged as a plain adapter would send it: the system prompt apart, ids and names as they
are, parts in their order, neighbors of one role merged where the provider merges them, thoughts only
with the blob that their provider gave (`Reasoning.replay`), and so are tools that a provider ran itself. Those of
another provider stay behind, so a message must hold something besides them.

Law 1. Nothing here repairs. A rule says what should hold, and where it does not.
Law 2. A rule stands beside its source: the provider's documentation, or the words of its refusal.

What the types already rule out is not checked again: arguments are JSON objects, text is clean.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeAlias

from windlass.kernel import (
    Attachment,
    ModelRequest,
    Reasoning,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    Value,
)
from windlass.testing import places

Rules: TypeAlias = Iterator[tuple[str, list[str]]]
"""Each rule of a provider, with the places that break it."""

_HOLDS: dict[str, tuple[type, ...]] = {
    "system": (Text,),
    "user": (Text, Attachment, ToolResult),
    "assistant": (Text, Reasoning, ToolCall, ServerToolCall),
}
_BOTH = ("user", "assistant")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_GEMINI_DECLARED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}\Z")
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_CHAT_ID = re.compile(r".{1,40}\Z", re.DOTALL)
_RESPONSES_ID = re.compile(r".{1,64}\Z", re.DOTALL)
_CHAT_ARRAY = 128
_CALLED = "a called name is 1 to 64 of letters, digits, _ and -"
_DECLARED = "a tool's name is 1 to 64 of letters, digits, _ and -"


class Broken(Value, kw_only=True):
    """One rule that a request breaks.

    Attributes:
        provider: Whose rule it is: `anthropic`, `openai_chat`, `openai_responses`, `gemini`, or `any` for
            what holds everywhere.
        rule: The claim that should hold.
        where: The place that breaks it, such as `messages[2].parts[0]`.
    """

    provider: str
    rule: str
    where: str


def broken_rules(request: ModelRequest) -> list[Broken]:
    """Return every rule of every provider that `request` breaks; none means that it may be sent.

    It is for tests of whatever makes or changes requests: projectors, drivers, a plugin's hooks.

        assert broken_rules(hook(request)) == []

    One mistake often breaks several rules, since providers agree on much and word it differently.
    What depends on a provider's settings or on the size of its window is not judged.

    Args:
        request: What would be sent to a model.
    """
    return [
        Broken(provider=provider, rule=rule, where=where)
        for provider, rules in _PROVIDERS.items()
        for rule, found in rules(request)
        for where in found
    ]


def _any(request: ModelRequest) -> Rules:
    """What windlass promises to every adapter, so that an adapter can be plain."""
    # Anthropic and Gemini take the prompt as a field of the request, not as a message.
    yield (
        "a system message stands first or nowhere",
        places.messages(request, lambda at, each: at > 0 and each.role == "system"),
    )
    yield (
        "a message is the system's, the user's or the assistant's",
        places.messages(request, lambda _, each: each.role not in _HOLDS),
    )
    yield "a message has parts", places.messages(request, lambda _, each: not each.parts)
    # Anthropic: images and results are user content, thinking and calls the assistant's.
    # OpenAI Chat: an assistant's content is text or a refusal, a system message's is text.
    yield (
        "a part suits the role of its message",
        [
            where
            for where, message, part in places.parts(request)
            if not isinstance(part, _HOLDS.get(message.role, object))
        ],
    )
    # Where a provider has no call ids, as Gemini once had none, the order is all there is.
    yield "each call has one result, in order, in the next message", places.out_of_order(request)


def _anthropic(request: ModelRequest) -> Rules:
    """Anthropic Messages."""
    turns = places.turns(request, merged=_BOTH)
    # Messages API, `messages`: consecutive turns of one role are combined. Refused with "first
    # message must use the "user" role", and with "at least one message is required".
    yield "the first message is the user's", places.not_of_user(turns[:1])
    # Newer models refuse with "This model does not support assistant message prefill. The
    # conversation must end with a user message."
    yield "the last message is the user's", places.not_of_user(turns[-1:])
    # Refused with "text content blocks must be non-empty", "... must contain non-whitespace text".
    yield "text is more than white space", places.texts(request, lambda text: not text.strip())
    # Tool use, handling tool calls: results immediately follow their calls, in the next message.
    # Refused with "`tool_use` ids were found without `tool_result` blocks immediately after".
    yield "a tool_use has one tool_result in the next message", places.unanswered(turns)
    # Refused with "unexpected `tool_use_id` found in `tool_result` blocks. Each `tool_result` block
    # must have a corresponding `tool_use` block in the previous message."
    yield "a tool_result has its tool_use in the message before", places.orphans(turns)
    # Tool use, handling tool calls: in the content array, results come first and text after them.
    yield "tool_results stand first in their message", places.late_results(turns)
    # Text behind a call is answered like a missing result, even when the result is there.
    yield "no text stands behind a tool_use", places.text_after_calls(turns)
    # Refused with "`tool_use` ids must be unique"; "tool_use.id: String should match pattern
    # '^[a-zA-Z0-9_-]+$'".
    yield "tool_use ids are unique", places.repeated_ids(request)
    yield "a tool_use id is of letters, digits, _ and -", places.bad_ids(request, _ANTHROPIC_ID)
    # Tool use, defining tools: the name matches ^[a-zA-Z0-9_-]{1,64}$ (newer models take 128).
    # Refused with "Tool names must be unique."
    yield _CALLED, places.bad_call_names(request, _NAME)
    yield _DECLARED, places.bad_tool_names(request, _NAME)
    yield "tools' names are unique", places.repeated_tools(request)
    # Extended thinking: blocks are passed back with their signature. Refused with
    # "thinking.signature: Field required"; "The final block in an assistant message cannot be
    # `thinking`."
    yield "thinking has its signature", places.unsigned_thoughts(request)
    yield "an assistant message does not end in thinking", places.last_thoughts(turns)


def _openai_chat(request: ModelRequest) -> Rules:
    """OpenAI Chat Completions: each result is a message of its own, thoughts are not sent."""
    turns = places.turns(request, merged=("user",))
    # Refused with "An assistant message with 'tool_calls' must be followed by tool messages responding
    # to each 'tool_call_id'."
    yield "tool messages answer each tool_call, before any other", places.cut_off(turns)
    # Refused with "messages with role 'tool' must be a response to a preceding message with
    # 'tool_calls'."
    yield "a tool message answers a tool_call of the message before", places.orphans(turns)
    # API reference, assistant message: content is required unless tool_calls is given.
    yield "an assistant message has content or tool_calls", places.only_thoughts(request)
    # API reference, function: letters, digits, underscores and dashes, at most 64 characters.
    yield _CALLED, places.bad_call_names(request, _NAME)
    yield _DECLARED, places.bad_tool_names(request, _NAME)
    # Refused with "tool_calls[0].id: string too long. Expected a string with maximum length 40";
    # "Duplicate value for 'tool_call_id'".
    yield "a tool_call id has 1 to 40 characters", places.bad_ids(request, _CHAT_ID)
    yield "tool_call ids are unique", places.repeated_ids(request)
    # Refused with "tool_calls: array too long. Expected an array with maximum length 128".
    yield (
        "a message has at most 128 tool_calls",
        [turn.where for turn in turns if len(turn.of(ToolCall)) > _CHAT_ARRAY],
    )
    # API reference, `tools`: at most 128 functions.
    yield "there are at most 128 tools", ["tools"] if len(request.tools) > _CHAT_ARRAY else []
    # Refused with "'tool_choice' is only allowed when 'tools' are specified." Without tools an adapter
    # leaves out `auto` and `none`, which changes nothing; `required` it cannot.
    yield "a required call has tools to choose from", places.no_choice(request)


def _openai_responses(request: ModelRequest) -> Rules:
    """OpenAI Responses: a flat list of items that refer to each other by call_id."""
    calls = places.of(request, ToolCall)
    results = places.of(request, ToolResult)
    called = {part.call_id for _, part in calls}
    answered = Counter(part.call_id for _, part in results)
    # Refused with "No tool output found for function call call_1."
    yield (
        "a function_call has one function_call_output",
        [where for where, part in calls if answered[part.call_id] != 1],
    )
    # Refused with "No tool call found for function call output with call_id call_1."
    yield (
        "a function_call_output has its function_call",
        [where for where, part in results if part.call_id not in called],
    )
    # Refused with "Duplicate 'call_id'"; "call_id: string too long. Expected a string with maximum
    # length 64".
    yield "call_ids are unique", places.repeated_ids(request)
    yield "a call_id has 1 to 64 characters", places.bad_ids(request, _RESPONSES_ID)
    # API reference, function tool: the same names as in Chat Completions.
    yield _CALLED, places.bad_call_names(request, _NAME)
    yield _DECLARED, places.bad_tool_names(request, _NAME)
    # Reasoning guide: without stored responses, items are passed back with their encrypted content.
    yield "a reasoning item has its encrypted content", places.unsigned_thoughts(request)
    # Refused with "Item 'rs_1' of type 'reasoning' was provided without its required following item."
    yield "a reasoning item is followed by its item", places.last_thoughts(places.turns(request))
    # As in Chat Completions.
    yield "a required call has tools to choose from", places.no_choice(request)


def _gemini(request: ModelRequest) -> Rules:
    """Gemini generateContent: calls and responses agree by place, number and name."""
    turns = places.turns(request, merged=_BOTH)
    # Refused with "contents is not specified"; "Please ensure that function call turn comes
    # immediately after a user turn or after a function response turn."
    yield "contents begin with a user turn", places.not_of_user(turns[:1])
    # Refused with "Please ensure that multiturn requests ends with a user role or a function
    # response."
    yield "contents end with a user turn", places.not_of_user(turns[-1:])
    # Refused with "Please ensure that the number of function response parts is equal to the number of
    # function call parts of the function call turn."
    yield "there is one functionResponse for each functionCall", places.miscounted(turns)
    # Refused with "Please ensure that function response turn comes immediately after a function call
    # turn."
    yield "a functionResponse comes right after a functionCall turn", places.uncalled(turns)
    # API reference, FunctionResponse: its name is that of the function that was called.
    yield "a functionResponse has its functionCall's name", places.renamed(request)
    # Refused with "required oneof field 'data' must have one initialized field", which empty text is
    # not; "contents.parts must not be empty".
    yield "a part holds something", places.texts(request, lambda text: not text)
    yield "a content has parts besides thoughts", places.only_thoughts(request)
    # API reference, FunctionCall: letters, digits, underscores and dashes, at most 64 characters.
    yield _CALLED, places.bad_call_names(request, _NAME)
    # A declaration is refused with "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or
    # contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
    yield (
        "a tool's name begins with a letter or _ and has at most 64 characters",
        places.bad_tool_names(request, _GEMINI_DECLARED),
    )
    # API reference, FunctionCallingConfig: mode ANY predicts one of the functions provided.
    yield "a required call has tools to choose from", places.no_choice(request)


_PROVIDERS: dict[str, Callable[[ModelRequest], Rules]] = {
    "any": _any,
    "anthropic": _anthropic,
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "gemini": _gemini,
}
