"""What each provider refuses, checked on the JSON that a server saw.

`windlass.testing.provider_rules` judges a request before an adapter has it; these judge what came out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

Json = Any
Body = dict[str, Any]


def anthropic(body: Body) -> list[str]:
    """Messages: roles take turns, results follow their calls, thoughts are signed and not last."""
    messages = body["messages"]
    wrong = _turns([each["role"] for each in messages])
    ids = [block["id"] for each in messages for block in _blocks(each, "tool_use")]
    if len(set(ids)) < len(ids):
        wrong.append("tool_use ids are unique")
    for message, following in zip(messages, [*messages[1:], {"content": []}], strict=True):
        kinds = [block["type"] for block in message["content"]]
        called = [block["id"] for block in _blocks(message, "tool_use")]
        answered = [block["tool_use_id"] for block in _blocks(following, "tool_result")]
        if message["role"] == "assistant" and called != answered:
            wrong.append("a tool_use has its tool_result in the next message")
        if message["role"] == "assistant" and kinds[-1] in ("thinking", "redacted_thinking"):
            wrong.append("an assistant message does not end in thinking")
        if "tool_use" in kinds and "text" in kinds[kinds.index("tool_use") :]:
            wrong.append("no text stands behind a tool_use")
        if "tool_result" in kinds[len(_blocks(message, "tool_result")) :]:
            wrong.append("tool_results stand first")
        if any(not block.get("signature") for block in _blocks(message, "thinking")):
            wrong.append("thinking has its signature")
    return wrong + _server_tools(messages)


def _server_tools(messages: list[Body]) -> list[str]:
    """What the provider ran has its result, or only results of calls behind it; a result has its call before it."""
    wrong = []
    blocks = [block for each in messages for block in each["content"]]
    found = {block["tool_use_id"] for block in blocks if block["type"].endswith("_tool_result")}
    seen: set[str] = set()
    for at, message in enumerate(messages):
        behind = [block["type"] for each in messages[at + 1 :] for block in each["content"]]
        for block in message["content"]:
            if block["type"] in ("server_tool_use", "mcp_tool_use"):
                seen.add(block["id"])
                if block["id"] not in found and {*behind, "tool_result"} != {"tool_result"}:
                    wrong.append("a server_tool_use has its result")
            elif block["type"].endswith("_tool_result") and block["tool_use_id"] not in seen:
                wrong.append("a server tool's result has its call before it")
    return wrong


def openai_chat(body: Body) -> list[str]:
    """Chat Completions: each call is answered at once, by a message of its own."""
    wrong: list[str] = []
    open_calls: list[str] = []
    seen: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                wrong.append("a tool message answers a tool_call of the message before")
            else:
                open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            wrong.append("tool messages answer each tool_call, before any other")
        calls = message.get("tool_calls", [])
        if message["role"] == "assistant" and not calls and not message.get("content"):
            wrong.append("an assistant message has content or tool_calls")
        if any(not isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls):
            wrong.append("arguments are an object, as text")
        open_calls = [call["id"] for call in calls]
        seen += open_calls
    if open_calls:
        wrong.append("tool messages answer each tool_call, before any other")
    if len(set(seen)) < len(seen):
        wrong.append("tool_call ids are unique")
    return wrong


def mistral(body: Body) -> list[str]:
    """Mistral: ids of nine letters and digits, an answer between results and the user, no field that it does not know."""
    messages = body["messages"]
    ids = [call["id"] for each in messages for call in each.get("tool_calls", ())]
    roles = [each["role"] for each in messages]
    wrong = openai_chat(body) + [
        f"Tool call id was {each} but must be a-z, A-Z, 0-9, with a length of 9."
        for each in ids
        if not re.fullmatch("[a-zA-Z0-9]{9}", each)
    ]
    if ("tool", "user") in pairwise(roles):
        wrong.append("Unexpected role 'user' after role 'tool'")
    if roles[-1] not in ("user", "tool"):
        wrong.append(f"Expected last role User or Tool for serving but got {roles[-1]}")
    unknown = {"stream_options", "seed", "max_completion_tokens"} & set(body)
    return wrong + [f"Extra inputs are not permitted: {each}" for each in sorted(unknown)]


def deepseek(body: Body) -> list[str]:
    """DeepSeek: while it thinks, a call comes back with what it thought."""
    return openai_chat(body) + [
        "The `reasoning_content` in the thinking mode must be passed back to the API."
        for message in body["messages"]
        if message.get("tool_calls") and "reasoning_content" not in message
    ]


def openrouter(body: Body) -> list[str]:
    """OpenRouter with Gemini 3: a message with calls has details, and each names one of these calls."""
    wrong = openai_chat(body)
    for message in body["messages"]:
        ids = {call["id"] for call in message.get("tool_calls", ())}
        details = message.get("reasoning_details") or []
        if ids and not details:
            wrong.append("Gemini models require OpenRouter reasoning details to be preserved")
        if any(each.get("id") and each["id"] not in ids for each in details):
            wrong.append("Function call is missing a thought_signature")
    return wrong


def openai_responses(body: Body) -> list[str]:
    """Responses: calls and outputs agree by call_id, a reasoning item has what it belongs to behind it."""
    items = body["input"]
    kinds = [item.get("type", "message") for item in items]
    called = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    wrong = []
    if sorted(called) != sorted(answered):
        wrong.append("a function_call has one function_call_output")
    if len(set(called)) < len(called):
        wrong.append("call_ids are unique")
    for at, item in enumerate(items):
        if kinds[at] == "function_call_output" and item["call_id"] not in {
            before["call_id"] for before in items[:at] if before.get("type") == "function_call"
        }:
            wrong.append("a function_call_output comes behind its function_call")
        if kinds[at] != "reasoning":
            continue
        if not item.get("encrypted_content"):
            wrong.append("a reasoning item has its encrypted content")
        behind = items[at + 1] if at + 1 < len(items) else {"role": "user"}
        if behind.get("role") == "user" or behind.get("type") == "function_call_output":
            wrong.append("a reasoning item is followed by its item")
    return wrong


def google(body: Body) -> list[str]:
    """GenerateContent: contents take turns, responses match their calls by number, place and name."""
    contents = body["contents"]
    wrong = _turns([{"model": "assistant"}.get(each["role"], each["role"]) for each in contents])
    for content, following in zip(contents, [*contents[1:], {"parts": []}], strict=True):
        called = [
            part["functionCall"]["name"] for part in content["parts"] if "functionCall" in part
        ]
        answered = [
            part["functionResponse"]["name"]
            for part in following["parts"]
            if "functionResponse" in part
        ]
        if content["role"] == "model" and called != answered:
            wrong.append("there is one functionResponse for each functionCall")
        if not content["parts"] or any(part.get("text") == "" for part in content["parts"]):
            wrong.append("a part holds something")
    return wrong


def _turns(roles: list[str]) -> list[str]:
    wanted = ["user", "assistant"] * len(roles)
    is_right = roles == wanted[: len(roles)] and roles[-1:] == ["user"]
    return [] if is_right else ["roles take turns, and the user's come first and last"]


def _blocks(message: Body, kind: str) -> list[Body]:
    return [block for block in message["content"] if block["type"] == kind]


RULES: dict[str, Callable[[Body], list[str]]] = {
    "anthropic": anthropic,
    "openai": openai_responses,
    "openrouter": openai_chat,
    "google": google,
}
"""The rules of a model's provider, by what stands before the colon of its name."""
