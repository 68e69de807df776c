"""Whatever a view says, the request suits every provider; and a view that says nothing changes nothing."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel import strategies as world
from tests.kernel.builders import config
from tests.limits import times
from windlass.kernel import (
    WHOLE,
    Attachment,
    Chain,
    ChatProjector,
    HistoryView,
    Message,
    MessageReplaced,
    ModelMessage,
    ModelRequest,
    ProjectorView,
    Text,
    ToolCall,
    ToolResult,
    check_history,
)
from windlass.kernel.messages import Prune, Role
from windlass.testing import broken_rules

IDS = st.sampled_from([f"m{at}" for at in range(12)] + ["absent"])
MARK = "message "
WORDS = st.builds(Text, text=world.words())
THOUGHTS = world.reasonings() | world.server_calls()


@st.composite
def histories(draw: st.DrawFn) -> tuple[Message, ...]:
    """A history as turns leave it: calls answered in the next message, each message marked by its place."""
    made: list[Message] = []
    open_calls: list[str] = []
    for at in range(draw(st.integers(1, 12))):
        mark = Text(text=f"{MARK}{at}")
        results = tuple(
            ToolResult(call_id=each, name="add", content=(draw(results_content()),))
            for each in open_calls
        )
        open_calls = []
        role: Role = draw(st.sampled_from(("user", "assistant", "assistant", "system", "event")))
        parts: tuple[Any, ...]
        if results:
            role, parts = "user", (*results, *draw(st.sampled_from(((), (mark,)))))
        elif role == "assistant" and at < 11:
            open_calls = [f"c{at}_{n}" for n in range(draw(st.integers(0, 2)))]
            calls = [ToolCall(call_id=each, name="add") for each in open_calls]
            parts = (*draw(st.lists(THOUGHTS, max_size=1)), mark, *calls)
        else:
            parts = (mark, *draw(st.lists(world.attachments(), max_size=1)))
        prune: Prune = draw(st.sampled_from(("intact", "intact", "cleared", "summarized")))
        made.append(Message(id=f"m{at}", role=role, parts=parts, prune=prune))
    if open_calls:
        made.pop()
    return tuple(made) or (Message(id="m0", role="user", parts=(Text(text=f"{MARK}0"),)),)


@st.composite
def results_content(draw: st.DrawFn) -> Text | Attachment:
    return draw(st.just(Text(text="output")) | world.attachments())


def replacements() -> st.SearchStrategy[MessageReplaced]:
    """Any parts at all for a message, among them results of its calls, of others and of none."""
    calls = st.sampled_from([f"c{at}_{n}" for at in range(12) for n in range(2)])
    part: st.SearchStrategy[Any] = st.one_of(
        WORDS,
        THOUGHTS,
        world.attachments(),
        st.builds(ToolCall, call_id=calls, name=st.just("add")),
        st.builds(
            ToolResult,
            call_id=calls,
            name=st.just("other"),
            content=st.lists(WORDS | world.attachments(), max_size=2).map(tuple),
        ),
    )
    return st.builds(MessageReplaced, id=IDS, parts=st.lists(part, max_size=3).map(tuple))


VIEWS = st.builds(
    HistoryView,
    drop_before=st.none() | IDS,
    clear_before=st.none() | IDS,
    drop=st.lists(IDS, max_size=4).map(tuple),
    replace=st.lists(replacements(), max_size=3).map(tuple),
    placeholder=st.sampled_from(("", " ", "({name} {call_id})")),
    words_before=st.none() | IDS,
    keep=st.lists(IDS, max_size=3).map(tuple),
)


def project(history: Chain[Message], view: HistoryView) -> ModelRequest:
    settings = config(system_prompt="You help.", tools=world.TOOLS, view=view)
    return ChatProjector().project(ProjectorView(config=settings, messages=history))


def marks(messages: tuple[ModelMessage, ...]) -> list[int]:
    """Return the places of the messages whose own words are shown."""
    return [
        int(part.text.rpartition(MARK)[2])
        for message in messages
        for part in message.parts
        if isinstance(part, Text) and MARK in part.text
    ]


@settings(max_examples=times(150), deadline=None)
@given(history=histories(), view=VIEWS, data=st.data())
def test_whatever_a_view_says_every_provider_takes_the_request(
    history: tuple[Message, ...], view: HistoryView, data: st.DataObject
) -> None:
    check_history(Chain(history))
    grown: Chain[Message] = Chain()
    ends = {at + 1 for at, each in enumerate(history) if not isinstance(each.parts[-1], ToolCall)}
    for at, message in enumerate(history, start=1):
        grown = grown.append(message)
        if at in ends and data.draw(st.booleans()):
            request = project(grown, view)
            assert broken_rules(request) == []
            assert request == project(Chain(history[:at]), view)
            assert set(marks(tuple(request.messages))) <= visible(history[:at], view)


def visible(history: tuple[Message, ...], view: HistoryView) -> set[int]:
    """Return the places whose words a view may show."""
    ids = [message.id for message in history]
    edge = ids.index(view.drop_before) if view.drop_before in ids else 0
    hidden = {*view.drop, *(one.id for one in view.replace)}
    first = history[0]
    stays = first.prune == "summarized" and first.role == "user"  # it stands for older messages
    kept = [at for at in range(edge) if ids[at] in view.keep or (at == 0 and stays)]
    return {at for at in (*kept, *range(edge, len(ids))) if ids[at] not in hidden}


@settings(max_examples=times(100), deadline=None)
@given(history=histories(), view=VIEWS)
def test_what_is_told_in_words_holds_no_call_no_result_and_no_thought(
    history: tuple[Message, ...], view: HistoryView
) -> None:
    last = Message(id="last", role="user", parts=(Text(text=f"{MARK}12"),))
    worded = msgspec.structs.replace(view, words_before="last")

    request = project(Chain([*history, last]), worded)

    kinds = {type(part) for message in request.messages for part in message.parts}
    assert kinds <= {Text, Attachment}
    assert broken_rules(request) == []


@settings(max_examples=times(100), deadline=None)
@given(history=histories(), view=VIEWS)
def test_what_no_view_hides_is_shown(history: tuple[Message, ...], view: HistoryView) -> None:
    request = project(Chain(history), view)

    whole = marks(tuple(project(Chain(history), WHOLE).messages))
    assert marks(tuple(request.messages)) == [at for at in whole if at in visible(history, view)]


@settings(max_examples=times(100), deadline=None)
@given(history=histories())
def test_a_view_that_touches_nothing_gives_the_request_of_the_whole(
    history: tuple[Message, ...],
) -> None:
    untouched = HistoryView(drop=("absent",), drop_before=history[0].id, clear_before="none")

    assert project(Chain(history), untouched) == project(Chain(history), WHOLE)
