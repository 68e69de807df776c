"""From a history to the next request: prompt first, a user message next and last, nothing empty."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.kernel.builders import (
    ADD,
    ask,
    asks,
    assistant,
    call,
    config,
    result,
    user,
    words,
)
from windlass.kernel import (
    Attachment,
    Chain,
    ChatProjector,
    Code,
    CodeOutput,
    ErrorText,
    Generation,
    InputOrigin,
    Message,
    ModelMessage,
    ModelRequest,
    Projector,
    ProjectorView,
    Reasoning,
    Text,
    ToolResult,
    TurnCause,
    TurnMachine,
)
from windlass.kernel.messages import Role

OPENING = "(the conversation goes on from here)"
CONTINUE = "(continue)"
PNG = Attachment(ref="b1", media_type="image/png", name="cat.png")
WAKE = TurnCause(id="w1", event_type="wake", origin=InputOrigin(turn_id="t0"), text="up")


def sent(role: Literal["system", "user", "assistant"], *parts: Any) -> ModelMessage:
    return ModelMessage(
        role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
    )


def message(role: Role, *parts: Any, **fields: Any) -> Message:
    return Message(id="x", role=role, parts=parts, **fields)


def project(*messages: Message, use_tools: bool = True, **changes: Any) -> ModelRequest:
    view = ProjectorView(config=config(**changes), messages=Chain(messages), use_tools=use_tools)
    return ChatProjector().project(view)


def rendered(*messages: Message, **changes: Any) -> list[ModelMessage]:
    return list(project(*messages, **changes).messages)


def test_a_request_has_the_prompt_the_history_and_what_the_turn_is_set_to() -> None:
    generation = Generation(temperature=0.5, stop=("END",))

    request = project(
        user("hi"),
        assistant("hello"),
        user("add", id="u2"),
        model="big",
        model_variant="fast",
        system_prompt="Be brief.",
        tools=(ADD,),
        generation=generation,
    )

    assert request == ModelRequest(
        model="big",
        messages=(
            sent("system", "Be brief."),
            sent("user", "hi"),
            sent("assistant", "hello"),
            sent("user", "add"),
        ),
        tools=(ADD,),
        tool_choice="auto",
        variant="fast",
        generation=generation,
        session_id="s1",
    )


def test_without_tools_none_are_offered_and_none_may_be_chosen() -> None:
    request = project(user("hi"), use_tools=False, tools=(ADD,))

    assert (request.tools, request.tool_choice) == ((), "none")


@pytest.mark.parametrize("prompt", ["", " ", "\n\t"])
def test_an_empty_prompt_is_left_out(prompt: str) -> None:
    assert rendered(user("hi"), system_prompt=prompt) == [sent("user", "hi")]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([], [sent("user", CONTINUE)], id="nothing"),
        pytest.param(
            [assistant("hello")],
            [sent("user", OPENING), sent("assistant", "hello"), sent("user", CONTINUE)],
            id="the-model-first-and-last",
        ),
        pytest.param(
            [assistant("hello"), user("hi")],
            [sent("user", OPENING), sent("assistant", "hello"), sent("user", "hi")],
            id="the-model-first",
        ),
        pytest.param(
            [user("hi"), assistant("hello")],
            [sent("user", "hi"), sent("assistant", "hello"), sent("user", CONTINUE)],
            id="the-model-last",
        ),
        pytest.param(
            [assistant("one", "1"), assistant("two", "2"), user("hi")],
            [
                sent("user", OPENING),
                sent("assistant", "one"),
                sent("assistant", "two"),
                sent("user", "hi"),
            ],
            id="one-opening",
        ),
        pytest.param([user(" \n")], [sent("user", CONTINUE)], id="blank"),
        pytest.param(
            [user(""), assistant("hello"), user("hi", "u2")],
            [sent("user", OPENING), sent("assistant", "hello"), sent("user", "hi")],
            id="blank-first",
        ),
    ],
)
@pytest.mark.parametrize("prompt", ["", "Be brief."])
def test_a_user_message_stands_first_and_last(
    messages: list[Message], expected: list[ModelMessage], prompt: str
) -> None:
    before = [sent("system", prompt)] if prompt else []

    assert rendered(*messages, system_prompt=prompt) == before + expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(message("user", Text(text="hi")), sent("user", "hi"), id="words"),
        pytest.param(
            message("user", Text(text=" "), Text(text="a"), Text(text="")),
            sent("user", "a"),
            id="blank-parts-left-out",
        ),
        pytest.param(
            message("system", Text(text="be kind")),
            sent("user", "[note from the system]\nbe kind"),
            id="a-note",
        ),
        pytest.param(
            message("event", Text(text="rain"), Text(text="snow")),
            sent("user", "[event]\nrain", "snow"),
            id="an-event",
        ),
        pytest.param(
            message("event", PNG, Text(text="see")),
            sent("user", "[event]\n", PNG, "see"),
            id="an-event-without-words-first",
        ),
        pytest.param(message("system", Text(text="")), None, id="an-empty-note"),
        pytest.param(message("user", PNG), sent("user", PNG), id="an-attachment"),
        pytest.param(
            message("assistant", PNG),
            sent("assistant", "[attachment cat.png]"),
            id="an-attachment-of-the-model",
        ),
        pytest.param(
            message("user", PNG, prune="cleared"),
            sent("user", "[attachment cat.png]"),
            id="a-cleared-attachment",
        ),
        pytest.param(
            message("user", Attachment(ref="b2"), prune="cleared"),
            sent("user", "[attachment b2]"),
            id="a-cleared-attachment-without-name",
        ),
        pytest.param(
            message("user", PNG, prune="summarized"), sent("user", PNG), id="a-summarized-one"
        ),
        pytest.param(
            message("assistant", Reasoning(text="hm", replay={"sig": 1}), Text(text="so")),
            sent("assistant", Reasoning(text="hm", replay={"sig": 1}), "so"),
            id="signed-thoughts",
        ),
        pytest.param(
            message("assistant", Reasoning(text="hm"), Text(text="so")),
            sent("assistant", "so"),
            id="unsigned-thoughts-left-out",
        ),
        pytest.param(message("assistant", Reasoning(text="hm")), None, id="only-unsigned"),
        pytest.param(
            message("assistant", Reasoning(text="hm", replay=1)), None, id="only-signed-thoughts"
        ),
        pytest.param(
            message(
                "assistant",
                Reasoning(text="a", replay=1),
                Text(text="so"),
                Reasoning(text="b", replay=1),
                Reasoning(text="c", replay=1),
            ),
            sent("assistant", Reasoning(text="a", replay=1), "so"),
            id="thoughts-at-the-end-left-out",
        ),
        pytest.param(
            message("assistant", Code(language="python", source="1 + 1")),
            sent("assistant", "```python\n1 + 1\n```"),
            id="code",
        ),
        pytest.param(
            message("user", CodeOutput(text="2")), sent("user", "[output]\n2"), id="output"
        ),
        pytest.param(
            message("user", CodeOutput(text="2", error="ZeroDivisionError")),
            sent("user", "[output]\n2\n[error] ZeroDivisionError"),
            id="output-with-error",
        ),
        pytest.param(
            message("user", ErrorText(text="no network")),
            sent("user", "[error] no network"),
            id="an-error",
        ),
        pytest.param(
            message("assistant", Text(text="cut o"), incomplete=True),
            sent("assistant", "cut o"),
            id="incomplete",
        ),
    ],
)
def test_a_message_is_rendered_on_its_own(given: Message, expected: ModelMessage | None) -> None:
    first = user("hi")

    shown = rendered(first, given, user("end", id="u9"))

    middle = [] if expected is None else [expected]
    assert shown == [sent("user", "hi"), *middle, sent("user", "end")]


def test_calls_and_results_are_sent_as_they_are() -> None:
    asked = asks(call("c1", a=1), call("c2"))
    answered = Message(
        id="r1", role="user", parts=(result("c1", "1"), result("c2", "2"), Text(text="and?"))
    )

    assert rendered(user("hi"), asked, answered) == [
        sent("user", "hi"),
        sent("assistant", *asked.parts),
        sent("user", *answered.parts),
    ]


def test_words_said_after_a_call_are_sent_before_it() -> None:
    signed = Reasoning(text="hm", replay=1)
    said = Message(
        id="a1",
        role="assistant",
        parts=(Text(text="one"), call("c1"), Text(text="two"), signed, call("c2")),
    )
    answered = Message(id="r1", role="user", parts=(result("c1", "1"), result("c2", "2")))

    assert rendered(user("hi"), said, answered)[1] == sent(
        "assistant", "one", "two", call("c1"), signed, call("c2")
    )


def test_a_cleared_result_keeps_its_place_and_loses_its_words() -> None:
    answered = Message(
        id="r1",
        role="user",
        parts=(result("c1", "a long page", status="error"), result("c2", "another")),
        prune="cleared",
    )

    shown = rendered(user("hi"), asks(call("c1"), call("c2")), answered)

    cleared = (Text(text="(cleared to save space)"),)
    assert shown[-1] == sent(
        "user",
        ToolResult(call_id="c1", name="add", content=cleared, status="error"),
        ToolResult(call_id="c2", name="add", content=cleared),
    )


def test_a_summarized_result_is_sent_as_it_is() -> None:
    answered = Message(id="r1", role="user", parts=(result("c1", "short"),), prune="summarized")

    assert rendered(user("hi"), asks(call("c1")), answered)[-1] == sent(
        "user", result("c1", "short")
    )


def test_causes_stand_last_also_where_the_history_ends_with_a_user_or_is_empty() -> None:
    view = ProjectorView(config=config(), messages=Chain([user("hi")]), causes=(WAKE,))
    empty = ProjectorView(config=config(), messages=Chain[Message]([]), causes=(WAKE,))
    woke = sent("user", "[what woke this turn]\n\n1. wake (w1), from input of turn t0:\nup")

    assert list(ChatProjector().project(view).messages) == [sent("user", "hi"), woke]
    assert list(ChatProjector().project(empty).messages) == [woke]


def test_only_events_are_hidden_behind_an_active_cause() -> None:
    history = Chain(
        [user("hi", id="w1"), Message(id="w2", role="event", parts=(Text(text="other"),))]
    )
    view = ProjectorView(config=config(), messages=history, causes=(WAKE,))

    request = ChatProjector().project(view)
    assert words(request.messages[:2]) == ["hi", "[event]\nother"]


# --- versions and caching ----------------------------------------------------------------------


def test_every_version_of_a_history_is_projected_as_itself_in_any_order() -> None:
    history = Chain([assistant("a", "1")])
    versions = [history]
    for at, text in enumerate("bcd", start=2):
        versions.append(versions[-1].append(user(text, str(at))))

    def sent_of(version: Chain[Message], prompt: str) -> list[str]:
        view = ProjectorView(config=config(system_prompt=prompt), messages=version)
        return words(ChatProjector().project(view).messages)

    for prompt in ("", "p", "q", "p", "r", "s", "t", ""):
        first = [prompt] if prompt else []
        for length in (4, 1, 3, 2):
            tail = [CONTINUE] if length == 1 else []
            expected = [*first, OPENING, *"abcd"[:length], *tail]
            assert sent_of(versions[length - 1], prompt) == expected


def test_a_request_is_not_changed_by_what_is_rendered_after_it() -> None:
    history = Chain([user("a", "1")])
    view = ProjectorView(config=config(), messages=history)
    first = ChatProjector().project(view)
    longer = ProjectorView(config=config(), messages=history.append(user("b", "2")))

    second = ChatProjector().project(longer)

    assert (len(first.messages), len(second.messages)) == (1, 2)


def test_a_new_request_shares_with_the_last_one_what_it_repeats() -> None:
    history = Chain([user("a", "1")])
    first = ChatProjector().project(ProjectorView(config=config(), messages=history))
    second = ChatProjector().project(
        ProjectorView(config=config(), messages=history.append(user("b", "2")))
    )

    assert first.messages[0] is second.messages[0]


def test_a_turn_may_bring_its_own_projector() -> None:
    class LastOnly:
        def project(self, view: ProjectorView) -> ModelRequest:
            seen.append((len(view.messages), view.iteration, view.use_tools, view.causes))
            return ModelRequest(model=view.config.model, messages=(sent("user", "last"),))

    seen: list[Any] = []
    projector: Projector = LastOnly()
    turn = TurnMachine(config(projector=projector), [user("hi")], causes=[WAKE], iteration_offset=2)

    assert list(ask(turn).request.messages) == [sent("user", "last")]
    assert seen == [(2, 2, True, (WAKE,))]
