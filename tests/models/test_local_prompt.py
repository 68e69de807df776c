from __future__ import annotations

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
from windlass.kernel.model_call import RequestPart, ToolChoice
from windlass.kernel.value import Json
from windlass.models.local.prompt import messages_of, schema_of

ADD = ToolSpec(
    name="add",
    description="Add two numbers.\n\nMore than one line is too much.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "how": {"enum": ["fast", "slow"]}},
        "required": ["a"],
        "additionalProperties": False,
    },
)
PING = ToolSpec(name="ping", description="Ping.")
GUIDANCE = {"whitespace_flexible": False, "lenient": True}


def user(*parts: RequestPart) -> ModelMessage:
    return ModelMessage(role="user", parts=parts)


def assistant(*parts: RequestPart) -> ModelMessage:
    return ModelMessage(role="assistant", parts=parts)


def asked(
    *messages: ModelMessage,
    tools: tuple[ToolSpec, ...] = (ADD,),
    choice: ToolChoice = "auto",
    output: Json = None,
) -> ModelRequest:
    return ModelRequest(
        model="m", messages=messages, tools=tools, tool_choice=choice, output=output
    )


def callable_tools(request: ModelRequest) -> list[str]:
    fields = [choice["properties"] for choice in schema_of(request)["oneOf"]]
    return [each["tool"]["const"] if "tool" in each else "(answer)" for each in fields]


HELLO = user(Text(text="Hello."))


def test_without_tools_the_messages_are_the_words_alone_and_any_text_will_do() -> None:
    system = ModelMessage(role="system", parts=(Text(text="Be kind."),))
    request = asked(system, HELLO, assistant(Text(text="Hi.")), tools=())
    assert messages_of(request) == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hi."},
    ]
    assert schema_of(request) is None


def test_tools_that_may_not_be_called_are_not_told() -> None:
    request = asked(HELLO, choice="none")
    assert messages_of(request) == [{"role": "user", "content": "Hello."}]
    assert schema_of(request) is None


def test_tools_are_told_in_the_system_message() -> None:
    system = ModelMessage(role="system", parts=(Text(text="Be kind."),))
    told = (
        'Tools:\n- add(a: integer, how: "fast" or "slow"): Add two numbers.\n- ping(): Ping.\n'
        'Reply with one JSON object: {"tool": NAME, "arguments": {...}} calls a tool, '
        '{"answer": TEXT} answers the user.'
    )
    first, *_ = messages_of(asked(system, HELLO, tools=(ADD, PING)))
    assert first == {"role": "system", "content": f"Be kind.\n\n{told}"}
    assert messages_of(asked(HELLO, tools=(ADD, PING)))[0] == {"role": "system", "content": told}


def test_what_was_said_and_done_is_shown_as_the_model_would_write_it() -> None:
    request = asked(
        user(Text(text="Go."), Attachment(ref="r", name="a.png", media_type="image/png")),
        assistant(
            Reasoning(text="hm"),
            Text(text='Well, "yes".'),
            ToolCall(call_id="1", name="add", args={"a": 1}),
        ),
        user(
            ToolResult(call_id="1", name="add", content=(Text(text="2"),)),
            ToolResult(call_id="2", name="ping", content=(Text(text="no"),), status="denied"),
        ),
    )
    assert messages_of(request)[1:] == [
        {"role": "user", "content": "Go.\n[attachment a.png]"},
        {
            "role": "assistant",
            "content": '{"answer":"Well, \\"yes\\"."}\n{"tool":"add","arguments":{"a":1}}',
        },
        {"role": "user", "content": "Result of add: 2\nResult of ping (denied): no"},
    ]


def test_a_reply_answers_or_calls_one_of_the_tools() -> None:
    assert schema_of(asked(HELLO)) == {
        "x-guidance": GUIDANCE,
        "$defs": {"add": dict(ADD.parameters), "answer.": {"type": "string"}},
        "oneOf": [
            {
                "type": "object",
                "properties": {"answer": {"$ref": "#/$defs/answer."}},
                "required": ["answer"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"tool": {"const": "add"}, "arguments": {"$ref": "#/$defs/add"}},
                "required": ["tool", "arguments"],
                "additionalProperties": False,
            },
        ],
    }


def test_a_reply_that_has_to_call_cannot_answer() -> None:
    assert callable_tools(asked(HELLO, choice="required")) == ["add"]


def test_an_answer_of_a_shape_has_that_shape() -> None:
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert schema_of(asked(HELLO, tools=(), output=shape)) == {"x-guidance": GUIDANCE, **shape}
    assert schema_of(asked(HELLO, output=shape))["$defs"]["answer."] == shape


def test_a_schema_that_points_into_itself_still_does() -> None:
    tree = ToolSpec(
        name="tree",
        parameters={
            "$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}}}},
            "properties": {"top": {"$ref": "#/$defs/N"}, "all": {"items": {"$ref": "#"}}},
        },
    )
    home = schema_of(asked(HELLO, tools=(tree,)))["$defs"]["tree"]
    assert home["properties"]["top"] == {"$ref": "#/$defs/tree/$defs/N"}
    assert home["properties"]["all"] == {"items": {"$ref": "#/$defs/tree"}}
    assert home["$defs"]["N"]["properties"]["next"] == {"$ref": "#/$defs/tree/$defs/N"}


def test_a_tool_that_was_called_is_not_called_again_before_the_user_speaks() -> None:
    called = assistant(ToolCall(call_id="1", name="add", args={"a": 1}))
    result = user(ToolResult(call_id="1", name="add", content=(Text(text="2"),)))
    tools = (ADD, PING)
    assert callable_tools(asked(HELLO, called, result, tools=tools)) == ["(answer)", "ping"]
    assert callable_tools(asked(HELLO, called, result)) == ["(answer)"]
    assert callable_tools(asked(HELLO, called, result, HELLO)) == ["(answer)", "add"]
    assert callable_tools(asked(HELLO, called, result, choice="required")) == ["add"]
