"""Each rule of each provider has a request that breaks it, and no valid request breaks any."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass.kernel import (
    Attachment,
    ModelMessage,
    ModelRequest,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from windlass.testing import Broken, broken_rules, provider_rules

ADD = ToolSpec(name="add")


def misnamed(name: str) -> ToolSpec:
    """A specification that could not be built so: the name is put in afterwards."""
    tool = ToolSpec(name="named")
    msgspec.structs.force_setattr(tool, "name", name)
    return tool


PICTURE = Attachment(ref="blob-1", media_type="image/png")
SIGNED = Reasoning(text="Hm.", replay={"signature": "s"})
UNSIGNED = Reasoning(text="Hm.")


def message(role: Any, *parts: Any) -> ModelMessage:  # noqa: ANN401 - wrong roles and parts, too
    return ModelMessage(
        role=role,
        parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts),
    )


def user(*parts: Any) -> ModelMessage:
    return message("user", *parts)


def assistant(*parts: Any) -> ModelMessage:
    return message("assistant", *parts)


def call(call_id: str = "c1", name: str = "add") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, args={"a": 1})


def result(call_id: str = "c1", name: str = "add", text: str = "2") -> ToolResult:
    return ToolResult(call_id=call_id, name=name, content=(Text(text=text),))


def request(
    *messages: ModelMessage, tools: tuple[ToolSpec, ...] = (ADD,), **rest: Any
) -> ModelRequest:
    return ModelRequest(model="m", messages=messages, tools=tools, **rest)


ASKED = user("Add.")
MANY = [f"c{at}" for at in range(129)]

VALID = {
    "one question": request(ASKED),
    "a system prompt": request(message("system", "Be brief."), ASKED),
    "an answer and another question": request(ASKED, assistant("2"), user("And now?")),
    "a call and its result": request(ASKED, assistant(call()), user(result())),
    "words before a call, words after a result": request(
        ASKED, assistant("Wait.", call()), user(result(), "Quick!")
    ),
    "two calls at once": request(
        ASKED, assistant(call("c1"), call("c2")), user(result("c1"), result("c2"))
    ),
    "calls in two rounds": request(
        ASKED, assistant(call("c1")), user(result("c1")), assistant(call("c2")), user(result("c2"))
    ),
    "signed thoughts before words and calls": request(
        ASKED, assistant(SIGNED, "Wait.", SIGNED, call()), user(result())
    ),
    "neighbors of one role": request(
        ASKED, user("Please."), assistant("Wait."), assistant(call()), user(result()), user("Well?")
    ),
    "attachments": request(
        user("See:", PICTURE),
        assistant(call()),
        user(ToolResult(call_id="c1", name="add", content=(PICTURE,))),
    ),
    "a result that shows nothing": request(
        ASKED, assistant(call()), user(ToolResult(call_id="c1", name="add"))
    ),
    "a tool that is gone since": request(ASKED, assistant(call()), user(result()), tools=()),
    "the longest id": request(ASKED, assistant(call("c" * 40)), user(result("c" * 40))),
    "the longest name": request(
        ASKED,
        assistant(call(name="n" * 64)),
        user(result(name="n" * 64)),
        tools=(ToolSpec(name="n" * 64),),
    ),
    "as many calls and tools as OpenAI takes": request(
        ASKED,
        assistant(*[call(each) for each in MANY[1:]]),
        user(*[result(each) for each in MANY[1:]]),
        tools=tuple(ToolSpec(name=each) for each in MANY[1:]),
    ),
    "a required call": request(ASKED, tool_choice="required"),
    "no call wanted, and no tools": request(ASKED, tools=(), tool_choice="none"),
}


@pytest.mark.parametrize("valid", VALID.values(), ids=VALID)
def test_a_valid_request_breaks_no_rule(valid: ModelRequest) -> None:
    assert broken_rules(valid) == []


# Requests that break one rule of several providers, in the words of each.
UNANSWERED = request(ASKED, assistant(call()), user("Well?"))
ORPHAN = request(user(result()))
BEGINS_WITH_ASSISTANT = request(assistant("Hello."), ASKED)
ENDS_WITH_ASSISTANT = request(ASKED, assistant("2"))
REPEATED_ID = request(
    ASKED, assistant(call("c1")), user(result("c1")), assistant(call("c1")), user(result("c1"))
)
BAD_NAME = request(ASKED, assistant(call(name="ns.add")), user(result(name="ns.add")))
BAD_TOOL = request(ASKED, tools=(ADD, misnamed("my tool")))
THOUGHTS_ALONE = request(ASKED, assistant(SIGNED), user("Well?"))
THOUGHTS_LAST = request(ASKED, assistant("Wait.", SIGNED), user("Well?"))
UNSIGNED_THOUGHTS = request(ASKED, assistant(UNSIGNED, "2"), user("And now?"))
TEXT_BEFORE_RESULT = request(ASKED, assistant(call()), user("Here:", result()))
NOTHING_TO_CHOOSE = request(ASKED, tools=(), tool_choice="required")

CALLED = "a called name is 1 to 64 of letters, digits, _ and -"
DECLARED = "a tool's name is 1 to 64 of letters, digits, _ and -"
CHOICE = "a required call has tools to choose from"
IN_ORDER = "each call has one result, in order, in the next message"
SUITS = "a part suits the role of its message"
SAYS = "text is more than white space"

BROKEN = [
    # provider, rule, where, request
    (
        "any",
        "a system message stands first or nowhere",
        "messages[1]",
        request(ASKED, message("system", "Be brief."), user("Well?")),
    ),
    (
        "any",
        "a message is the system's, the user's or the assistant's",
        "messages[1]",
        request(ASKED, message("tool", "2"), user("Well?")),
    ),
    ("any", "a message has parts", "messages[1]", request(ASKED, user())),
    ("any", SUITS, "messages[0].parts[1]", request(user("Add.", SIGNED))),
    ("any", SUITS, "messages[1].parts[0]", request(ASKED, assistant(PICTURE, "See."), ASKED)),
    ("any", SUITS, "messages[0].parts[1]", request(message("system", "See:", PICTURE), ASKED)),
    (
        "any",
        IN_ORDER,
        "messages[1]",
        request(ASKED, assistant(call("c1"), call("c2")), user(result("c2"), result("c1"))),
    ),
    ("any", IN_ORDER, "messages[1]", UNANSWERED),
    ("any", IN_ORDER, "messages[1]", request(ASKED, assistant(call()), user(result(), result()))),
    ("any", IN_ORDER, "messages[1]", request(ASKED, assistant(call()))),
    ("any", IN_ORDER, "messages[0]", ORPHAN),
    ("anthropic", "the first message is the user's", "messages[0]", BEGINS_WITH_ASSISTANT),
    ("anthropic", "the last message is the user's", "messages[1]", ENDS_WITH_ASSISTANT),
    ("anthropic", SAYS, "messages[0].parts[1]", request(user("Add.", ""))),
    ("anthropic", SAYS, "messages[0].parts[0]", request(message("system", " "), ASKED)),
    (
        "anthropic",
        SAYS,
        "messages[2].parts[0]",
        request(ASKED, assistant(call()), user(result(text="\n\t"))),
    ),
    (
        "anthropic",
        "a tool_use has one tool_result in the next message",
        "messages[1].parts[0]",
        UNANSWERED,
    ),
    (
        "anthropic",
        "a tool_use has one tool_result in the next message",
        "messages[1].parts[0]",
        request(ASKED, assistant(call()), user(result(), result())),
    ),
    (
        "anthropic",
        "a tool_result has its tool_use in the message before",
        "messages[0].parts[0]",
        ORPHAN,
    ),
    (
        "anthropic",
        "tool_results stand first in their message",
        "messages[2].parts[1]",
        TEXT_BEFORE_RESULT,
    ),
    (
        "anthropic",
        "no text stands behind a tool_use",
        "messages[1].parts[1]",
        request(ASKED, assistant(call(), "Wait."), user(result())),
    ),
    ("anthropic", "tool_use ids are unique", "messages[3].parts[0]", REPEATED_ID),
    (
        "anthropic",
        "a tool_use id is of letters, digits, _ and -",
        "messages[1].parts[0]",
        request(ASKED, assistant(call("functions.add:0")), user(result("functions.add:0"))),
    ),
    ("anthropic", CALLED, "messages[1].parts[0]", BAD_NAME),
    ("anthropic", DECLARED, "tools[1]", BAD_TOOL),
    ("anthropic", "tools' names are unique", "tools[1]", request(ASKED, tools=(ADD, ADD))),
    ("anthropic", "thinking has its signature", "messages[1].parts[0]", UNSIGNED_THOUGHTS),
    (
        "anthropic",
        "an assistant message does not end in thinking",
        "messages[1].parts[1]",
        THOUGHTS_LAST,
    ),
    (
        "openai_chat",
        "tool messages answer each tool_call, before any other",
        "messages[1].parts[0]",
        TEXT_BEFORE_RESULT,
    ),
    (
        "openai_chat",
        "a tool message answers a tool_call of the message before",
        "messages[0].parts[0]",
        ORPHAN,
    ),
    (
        "openai_chat",
        "an assistant message has content or tool_calls",
        "messages[1]",
        THOUGHTS_ALONE,
    ),
    ("openai_chat", CALLED, "messages[1].parts[0]", BAD_NAME),
    ("openai_chat", DECLARED, "tools[1]", BAD_TOOL),
    (
        "openai_chat",
        "a tool_call id has 1 to 40 characters",
        "messages[1].parts[0]",
        request(ASKED, assistant(call("c" * 41)), user(result("c" * 41))),
    ),
    ("openai_chat", "tool_call ids are unique", "messages[3].parts[0]", REPEATED_ID),
    (
        "openai_chat",
        "a message has at most 128 tool_calls",
        "messages[1]",
        request(
            ASKED,
            assistant(*[call(each) for each in MANY]),
            user(*[result(each) for each in MANY]),
        ),
    ),
    (
        "openai_chat",
        "there are at most 128 tools",
        "tools",
        request(ASKED, tools=tuple(ToolSpec(name=each) for each in MANY)),
    ),
    ("openai_chat", CHOICE, "tool_choice", NOTHING_TO_CHOOSE),
    (
        "openai_responses",
        "a function_call has one function_call_output",
        "messages[1].parts[0]",
        UNANSWERED,
    ),
    (
        "openai_responses",
        "a function_call_output has its function_call",
        "messages[0].parts[0]",
        ORPHAN,
    ),
    (
        "openai_responses",
        "call_ids are unique",
        "messages[1].parts[1]",
        request(ASKED, assistant(call(), call()), user(result())),
    ),
    (
        "openai_responses",
        "a call_id has 1 to 64 characters",
        "messages[1].parts[0]",
        request(ASKED, assistant(call("c" * 65)), user(result("c" * 65))),
    ),
    ("openai_responses", CALLED, "messages[1].parts[0]", BAD_NAME),
    ("openai_responses", DECLARED, "tools[1]", BAD_TOOL),
    (
        "openai_responses",
        "a reasoning item has its encrypted content",
        "messages[1].parts[0]",
        UNSIGNED_THOUGHTS,
    ),
    (
        "openai_responses",
        "a reasoning item is followed by its item",
        "messages[1].parts[1]",
        THOUGHTS_LAST,
    ),
    ("openai_responses", CHOICE, "tool_choice", NOTHING_TO_CHOOSE),
    ("gemini", "contents begin with a user turn", "messages[0]", BEGINS_WITH_ASSISTANT),
    ("gemini", "contents end with a user turn", "messages[1]", ENDS_WITH_ASSISTANT),
    (
        "gemini",
        "there is one functionResponse for each functionCall",
        "messages[1]",
        request(ASKED, assistant(call("c1"), call("c2")), user(result("c1"))),
    ),
    (
        "gemini",
        "a functionResponse comes right after a functionCall turn",
        "messages[0].parts[0]",
        ORPHAN,
    ),
    (
        "gemini",
        "a functionResponse has its functionCall's name",
        "messages[2].parts[0]",
        request(ASKED, assistant(call()), user(result(name="sum"))),
    ),
    ("gemini", "a part holds something", "messages[0].parts[1]", request(user("Add.", ""))),
    ("gemini", "a content has parts besides thoughts", "messages[1]", THOUGHTS_ALONE),
    ("gemini", CALLED, "messages[1].parts[0]", BAD_NAME),
    (
        "gemini",
        "a tool's name begins with a letter or _ and has at most 64 characters",
        "tools[0]",
        request(ASKED, tools=(misnamed("9lives"),)),
    ),
    ("gemini", CHOICE, "tool_choice", NOTHING_TO_CHOOSE),
]


@pytest.mark.parametrize(("provider", "rule", "where", "bad"), BROKEN)
def test_a_provider_that_refuses_says_which_rule_and_where(
    provider: str, rule: str, where: str, bad: ModelRequest
) -> None:
    found = [broken for broken in broken_rules(bad) if broken.provider == provider]

    assert found == [Broken(provider=provider, rule=rule, where=where)]


def test_every_rule_has_a_request_that_breaks_it() -> None:
    rules = {
        (provider, rule)
        for provider, check in provider_rules._PROVIDERS.items()
        for rule, _ in check(request(ASKED))
    }

    assert rules == {(provider, rule) for provider, rule, _, _ in BROKEN}


@pytest.mark.parametrize(
    "bad",
    [
        request(ASKED, assistant(call(), "Wait."), user(result())),
        request(ASKED, assistant(call("functions.add:0")), user(result("functions.add:0"))),
        request(user("Add.", " ")),
        request(ASKED, tools=(ADD, ADD)),
    ],
)
def test_what_one_provider_refuses_may_suit_the_others(bad: ModelRequest) -> None:
    assert {broken.provider for broken in broken_rules(bad)} == {"anthropic"}


def test_a_request_without_messages_suits_no_provider_that_wants_one() -> None:
    assert [(broken.provider, broken.rule) for broken in broken_rules(request())] == [
        ("anthropic", "the first message is the user's"),
        ("anthropic", "the last message is the user's"),
        ("gemini", "contents begin with a user turn"),
        ("gemini", "contents end with a user turn"),
    ]


def test_several_mistakes_are_all_told() -> None:
    bad = request(ASKED, assistant(UNSIGNED), tools=(misnamed("my tool"),))

    assert {(broken.provider, broken.where) for broken in broken_rules(bad)} == {
        ("anthropic", "messages[1]"),
        ("anthropic", "messages[1].parts[0]"),
        ("anthropic", "tools[0]"),
        ("openai_chat", "messages[1]"),
        ("openai_chat", "tools[0]"),
        ("openai_responses", "messages[1].parts[0]"),
        ("openai_responses", "tools[0]"),
        ("gemini", "messages[1]"),
        ("gemini", "tools[0]"),
    }
