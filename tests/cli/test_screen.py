"""What a conversation shows of events, without a terminal: settled blocks, what is taken back, what stays."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from scripts.small_terminal import SmallTerminal
from windlass.cli import terminal
from windlass.cli.talk.prompt import Answer, ask, read_message
from windlass.cli.talk.screen import Screen, Streamed
from windlass.kernel import Citation, Json, ToolOutcome, events
from windlass.kernel.outcomes import Finished, Stopped
from windlass.ports import Wait


def shown(*given: events.Event, is_terminal: bool = True) -> str:
    stream = io.StringIO()
    screen = Screen(
        Console(file=stream, force_terminal=is_terminal, width=60, height=20, highlight=False)
    )
    for event in given:
        screen.show(event)
    small = SmallTerminal(60)
    small.feed(stream.getvalue().replace("\n", "\r\n"))
    return "\n".join(line for line in small.text.splitlines() if line.strip())


def delta(text: str, of: str = "m1") -> events.TextDelta:
    return events.TextDelta(text=text, correlation_id=of)


def finished(text: str, of: str = "m1") -> events.ModelFinished:
    return events.ModelFinished(iteration=1, text=text, correlation_id=of)


STARTED = events.ModelStarted(iteration=1, message_count=1)


def test_words_that_are_under_way_are_seen_and_then_replaced_by_the_fact() -> None:
    assert shown(STARTED, delta("Hel"), delta("lo")) == "Hello"
    assert shown(STARTED, delta("Hel"), finished("Hello there.")) == "Hello there."


def test_words_that_were_retracted_are_gone() -> None:
    gone = events.Retracted(correlation_ids=("m1",))

    assert (
        shown(STARTED, delta("I thin"), gone, delta("Here.", "m2"), finished("Here.", "m2"))
        == "Here."
    )


def test_a_settled_block_that_was_retracted_is_marked() -> None:
    gone = events.Retracted(correlation_ids=("m1",))

    assert (
        shown(STARTED, delta("One.\n\nTw"), gone)
        == "One.\n  ↩ taken back: the text above was not recorded"
    )


def test_a_reply_that_is_another_than_was_shown_is_marked_and_shown_whole() -> None:
    found = shown(STARTED, delta("One.\n\nTw"), finished("Other.\n\nTwo."))

    assert found == "One.\n  ↩ taken back: the text above was not recorded\nOther.\nTwo."


def test_a_block_that_settles_is_never_on_the_screen_twice() -> None:
    """Also in the moment between its place above and what is drawn below: the process may die there."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=60, height=20, highlight=False)
    screen = Screen(console)
    for event in (STARTED, delta("One"), delta(" two.\n\nThree")):
        screen.show(event, more=event is not STARTED)
    small = SmallTerminal(60)
    small.feed(stream.getvalue().replace("\n", "\r\n"))

    assert small.text.split() == ["One", "two.", "Three"]


def test_words_that_were_missed_are_shown_at_the_end_once() -> None:
    ended = events.TurnEnded(outcome=Finished(text="All of it."))

    assert shown(ended) == "All of it."
    assert shown(STARTED, finished("All of it."), ended) == "All of it."


def test_a_turn_that_stopped_says_why() -> None:
    ended = events.TurnEnded(outcome=Stopped(reason="limit", detail="too many tokens"))

    assert shown(STARTED, delta("So f"), ended) == "  ■ stopped: limit (too many tokens)"


def aside(text: str, of: str = "m1") -> events.TextDelta:
    return events.TextDelta(text=text, phase="commentary", correlation_id=of)


TOLD = events.ModelFinished(
    iteration=1,
    text="It rains.",
    correlation_id="m1",
    commentary="I look it up.",
    citations=(
        Citation(url="https://a.example/rain", title="Rain \x1b[31mnow"),
        Citation(url="https://b.example"),
    ),
    server_tools=("web_search: weather",),
)
PAGES = "[1] Rain \\u001b[31mnow https://a.example/rain\n[2] https://b.example"


def test_commentary_stands_before_the_answer_and_pages_below_it() -> None:
    found = shown(STARTED, aside("I look"), aside(" it up."), delta("It "), delta("rains."), TOLD)

    assert found == f"I look it up.\n  → web_search: weather\nIt rains.\n{PAGES}"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_commentary_that_was_missed_is_shown_with_the_fact(is_terminal: bool) -> None:
    found = shown(STARTED, TOLD, is_terminal=is_terminal)

    assert found == f"  → web_search: weather\nI look it up.\nIt rains.\n{PAGES}"


def test_commentary_under_way_is_seen_and_goes_with_its_retraction() -> None:
    gone = events.Retracted(correlation_ids=("m1",))

    assert shown(STARTED, aside("I look")) == "I look"
    assert (
        shown(STARTED, aside("I look"), gone, delta("Yes.", "m2"), finished("Yes.", "m2")) == "Yes."
    )
    taken = shown(STARTED, aside("I look"), delta("It"), gone)
    assert taken == "I look\n  ↩ taken back: the text above was not recorded"


def test_without_a_terminal_only_facts_are_written() -> None:
    found = shown(STARTED, delta("One.\n\nTw"), finished("One.\n\nTwo."), is_terminal=False)

    assert found == "One.\nTwo."


def test_a_reply_taller_than_the_screen_is_shown_whole_once_it_is_settled() -> None:
    code = "```\n" + "\n".join(f"line {n}" for n in range(50)) + "\n```"

    found = shown(
        STARTED, *(delta(line) for line in code.splitlines(keepends=True)), finished(code)
    )

    assert [line.strip() for line in found.splitlines()] == [f"line {n}" for n in range(50)]


# ---------------------------------------------------------------------- streamed text


def test_a_blank_line_settles_what_is_before_it_but_not_in_code() -> None:
    reply = Streamed()

    assert reply.add("One") == ""
    assert reply.add(".\n\nTwo") == "One.\n\n"
    assert reply.add("\n```\ncode\n\n") == ""
    assert reply.add("more\n```\n\n") == "Two\n```\ncode\n\nmore\n```\n\n"
    assert reply.rest == ""


@given(st.lists(st.text("ab`\n ~", max_size=8), max_size=12))
def test_pieces_make_up_the_whole_however_they_are_cut(pieces: list[str]) -> None:
    reply, whole = Streamed(), "".join(pieces)

    settled = "".join(reply.add(piece) for piece in pieces)

    assert settled + reply.rest == whole
    assert reply.finish(whole) == reply.rest
    assert reply.finish(whole + "more") == reply.rest + "more"


def test_another_reply_than_the_settled_one_is_noticed() -> None:
    reply = Streamed()
    reply.add("One.\n\nTw")

    assert reply.finish("Uno.") is None
    assert reply.finish("One.\n\nThree.") == "Three."


# ---------------------------------------------------------------------- what is typed


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["hello"], "hello"),
        (["one\\", "two\\", "three"], "one\ntwo\nthree"),
        (['"""', "one", "", "two", '"""'], "one\n\ntwo"),
        (['"""one"""'], "one"),
        (['say """hi"""'], 'say """hi"""'),
        (["pasted\nlines"], "pasted\nlines"),
    ],
)
def test_lines_become_one_message(lines: list[str], message: str) -> None:
    left = list(lines)

    assert read_message(lambda _mark: left.pop(0)) == message
    assert left == []


def test_the_end_of_input_in_a_block_is_the_end() -> None:
    left = ['"""one']

    def read(_mark: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    with pytest.raises(EOFError):
        read_message(read)


# ---------------------------------------------------------------------- an approval


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        ('{"cents": 1', "edit: not valid JSON"),
        ("[1]", "edit: found list, wanted a JSON object"),
    ],
)
def test_an_edit_that_is_not_a_json_object_is_refused_and_the_question_asked_again(
    edit: str, complaint: str
) -> None:
    stream = io.StringIO()
    wait = Wait(key="w_1", kind="approval", session_id="s", turn_id="t", title="Run pay?")
    typed = iter(["e", edit, "n too much"])

    answer = ask(Screen(Console(file=stream, width=100)), wait, lambda _mark, _filled: next(typed))

    assert answer == Answer(kind="no", reason="too much")
    assert complaint in stream.getvalue()


def test_arguments_with_a_key_that_is_not_shown_are_not_edited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name that is shown in its place would run instead of the key."""
    monkeypatch.setenv("MY_SERVICE_TOKEN", "canary-value-123")
    stream = io.StringIO()
    detail: dict[str, Json] = {"tool": "run", "args": {"command": "echo canary-value-123"}}
    wait = Wait(key="w_1", kind="approval", session_id="s", turn_id="t", detail=detail)
    marks: list[tuple[str, str]] = []
    typed = iter(["e", "n without the key"])

    def read_line(mark: str, filled: str) -> str:
        marks.append((mark, filled))
        return next(typed)

    answer = ask(Screen(Console(file=stream, width=100)), wait, read_line)

    assert answer == Answer(kind="no", reason="without the key")
    assert marks == [("[y]es  [n]o  [e]dit  [s]ession > ", "")] * 2
    assert "edit: the arguments hold a key that is not shown" in stream.getvalue()
    assert "canary" not in stream.getvalue()


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"output": "tick 1\ntick 2\n\n"}, "tick 2"),
        ({"output": "\n"}, '{"output":"\\n"}'),
        ({"percent": 50}, '{"percent":50}'),
        ("half", "half"),
        (None, "null"),
    ],
)
def test_progress_is_shown_as_a_line(data: Json, shown: str) -> None:
    assert terminal.progress_line(data) == shown


def test_a_result_begins_with_how_it_ended_if_its_last_line_says_so() -> None:
    def line(value: Json) -> str:
        return terminal.result_line(ToolOutcome(value=value))

    assert line("one\ntwo\n[exit code 1, 0.2 s]") == "[exit code 1, 0.2 s] one two"
    assert line("[1, 2]") == "[1, 2]"
    assert line("one\ntwo") == "one two"
