"""The demo's table: lines from journal pages, each told once, and never wider than the terminal."""

from __future__ import annotations

import io

import pytest

from windlass.cli.demo_table import COLUMNS, Line, Story, Table
from windlass.journal import (
    CallDecided,
    CallReturned,
    Claimed,
    Contract,
    Entry,
    JournalPage,
    ModelAnswered,
    ModelCallCommand,
    Recorded,
    RequestSpec,
    ToolCallCommand,
    ToolContract,
    TurnStarted,
)
from windlass.kernel import ModelFailure, ModelReply, ToolCall, ToolOutcome
from windlass.ports import TurnView, Wait, WaitAnswer, WaitView

STARTED = TurnStarted(
    agent="a",
    model="demo",
    contracts=(
        ToolContract(tool="look_up", effect="pure"),
        ToolContract(tool="book", effect="keyed"),
        ToolContract(tool="again", effect="idempotent"),
        ToolContract(tool="notify", effect="once"),
    ),
)


def turn(*entries: Entry, waits: tuple[WaitView, ...] = ()) -> TurnView:
    """A turn whose journal has each entry on a page of its own, and each claim in a generation of its own."""
    generation, pages = 1, []
    for entry in entries:
        generation += isinstance(entry, Claimed)
        pages.append(JournalPage(format=1, generation=generation, entries=(entry,)))
    return TurnView(
        session_id="s",
        turn_id="t",
        agent="a",
        state="running",
        request=None,
        request_digest="d",
        pages=tuple(pages),
        waits=waits,
    )


def key(kind: str, effect_id: int, *call: object) -> str:
    return "/".join(map(str, ["s", "t", 0, 0, kind, effect_id, *call]))


def replied(effect_id: int, result: ModelReply | ModelFailure) -> Recorded:
    request = RequestSpec(model="demo", messages="m", message_count=effect_id + 1)
    return Recorded(
        key=key("model_call", effect_id),
        digest="d",
        outcome=ModelAnswered(result=result),
        command=ModelCallCommand(request=request),
    )


def command(name: str) -> ToolCallCommand:
    return ToolCallCommand(call_id="c", name=name, args={"city": "Lisbon", "nights": 2})


def claimed(name: str, effect_id: int = 2, contract: Contract = "once") -> Claimed:
    return Claimed(
        key=key("tool_call", effect_id, 0, "intent"),
        digest="d",
        command=command(name),
        contract=contract,
    )


def returned(
    outcome: ToolOutcome, effect_id: int = 2, ran: ToolCallCommand | None = None
) -> Recorded:
    return Recorded(
        key=key("tool_call", effect_id, 0, "result"),
        digest="d",
        outcome=CallReturned(outcome=outcome),
        command=ran,
    )


BOOKING = ModelReply(
    parts=(ToolCall(call_id="c", name="book", args={"city": "Lisbon", "nights": 2}),),
    terminal="tool_use",
)
ASKED = "'Lisbon', 2"


def told(story: Story, view: TurnView, *, killed: bool = False) -> list[Line]:
    return list(story.lines(view, killed=killed))


def recorded(story: Story, view: TurnView) -> list[str]:
    """What a process that resumes the turn is told to be recorded."""
    lines = story.lines(view, resumed=True)
    return [line.answered for line in lines if line.what == "journal"]


def test_a_reply_is_told_by_what_it_asks_for_or_as_words() -> None:
    lines = told(Story(), turn(STARTED, replied(1, BOOKING), replied(4, ModelReply(text="Done."))))

    assert lines == [
        Line("model", "2 messages", "book('Lisbon', 2)", "called", "cyan"),
        Line("model", "5 messages", "text, and no more calls", "called", "cyan"),
    ]


def test_a_reply_that_failed_is_not_counted_as_one() -> None:
    story = Story()

    failed = turn(STARTED, replied(1, ModelFailure(message="no")))
    (line,) = told(story, failed)

    assert (line.answered, line.how, line.color) == ("no", "failed", "red")
    assert recorded(story, failed) == []


def test_a_call_that_was_never_claimed_is_told_when_it_is_recorded() -> None:
    found = ToolOutcome(value={"hotel": "Casa"})

    lines = told(Story(), turn(STARTED, returned(found, ran=command("look_up"))))

    assert lines == [
        Line(what="look_up", asked=ASKED, answered='{"hotel":"Casa"}', how="pure: ran"),
    ]


def test_what_was_told_is_not_told_again() -> None:
    story = Story()
    first = turn(STARTED, replied(1, BOOKING))
    told(story, first)

    assert told(story, first) == []
    more = turn(STARTED, replied(1, BOOKING), claimed("book"), returned(ToolOutcome(value="yes")))
    assert [line.what for line in told(story, more)] == ["book"]


def test_a_call_without_a_result_is_cut_off_by_a_kill_and_by_nothing_else() -> None:
    entries = (STARTED, replied(1, BOOKING), claimed("book", contract="keyed"))

    assert [line.what for line in told(Story(), turn(*entries))] == ["model"]
    assert told(Story(), turn(*entries), killed=True)[1:] == [
        Line(
            what="book",
            asked=ASKED,
            answered="KILLED (signal 9)",
            how="keyed: no result",
            color="red",
        ),
    ]


def after_a_kill(name: str, outcome: ToolOutcome) -> Line:
    """The line that tells how a call went on after its process was killed."""
    story = Story()
    told(story, turn(STARTED, claimed(name)), killed=True)
    (line,) = told(story, turn(STARTED, claimed(name), claimed(name), returned(outcome)))
    return line


def test_a_call_that_ran_again_says_how_it_may() -> None:
    booked = after_a_kill("book", ToolOutcome(value="RIO"))
    again = after_a_kill("again", ToolOutcome(value=3))

    assert (booked.answered, booked.how, booked.color) == (
        "RIO",
        "keyed: again, same key",
        "yellow",
    )
    assert (again.answered, again.how) == ("3", "idempotent: ran again")


def test_a_call_that_was_not_run_again_says_so() -> None:
    line = after_a_kill("notify", ToolOutcome(status="unknown"))

    assert (line.answered, line.how, line.color) == ("(unknown)", "once: not run again", "yellow")


def test_what_is_recorded_is_named_and_what_is_not_is_left_out() -> None:
    story = Story()
    view = turn(
        STARTED,
        replied(1, BOOKING),
        returned(ToolOutcome(value=1), ran=command("look_up")),
        replied(3, BOOKING),
        claimed("book", 4),
    )
    told(story, view)

    assert recorded(story, view) == ["2 replies, look_up"]


def test_decisions_are_no_lines() -> None:
    decided = Recorded(
        key=key("tool_call", 2, 0, "decide"),
        digest="d",
        outcome=CallDecided(verdict="ask"),
        command=command("pay"),
    )

    story = Story()
    assert told(story, turn(STARTED, decided), killed=True) == []


def test_a_wait_is_told_when_it_opens_and_when_it_is_answered() -> None:
    wait = Wait(key="w_1", kind="approval", session_id="s", turn_id="t", title="pay 23600")
    waiting = turn(STARTED, waits=(WaitView(wait=wait),))
    answer = WaitAnswer(by="eva")
    answered = turn(STARTED, waits=(WaitView(wait=wait, state="answered", answer=answer),))
    story = Story()

    (opened,) = told(story, waiting)
    assert told(story, waiting) == []
    (resolved,) = told(story, answered)

    assert (opened.what, opened.asked, opened.answered) == ("wait", "approval: pay 23600", "open")
    assert (resolved.answered, resolved.how) == ("answered by eva", "from outside")


# ---------------------------------------------------------------------- the terminal


ESCAPE = "\x1b"


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override] # of a stream in memory it is None
        return self._encoding

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        return self.getvalue().splitlines()


@pytest.mark.parametrize(
    ("env", "plain", "color"),
    [
        pytest.param({}, False, True, id="a-terminal"),
        pytest.param({}, True, False, id="plain"),
        pytest.param({"NO_COLOR": "1"}, False, False, id="NO_COLOR"),
        pytest.param({"NO_COLOR": ""}, False, True, id="empty-NO_COLOR"),
        pytest.param({"TERM": "dumb"}, False, False, id="dumb"),
    ],
)
def test_colors_are_for_terminals_that_want_them(
    env: dict[str, str], plain: bool, color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()

    Table(terminal, plain=plain).say("x", "red")

    assert (ESCAPE in terminal.getvalue()) is color


@pytest.mark.parametrize(
    ("encoding", "plain", "sign"),
    [("utf-8", False, "✗"), ("utf-8", True, "x"), ("latin-1", False, "x")],
)
def test_signs_are_for_terminals_that_can_show_them(encoding: str, plain: bool, sign: str) -> None:
    terminal = Terminal(encoding)

    Table(terminal, plain=plain).line(Line("book", answered="KILLED", color="red"))

    assert f"{sign} KILLED" in terminal.getvalue()


def test_a_cell_that_is_too_long_is_cut_where_one_can_see_it() -> None:
    terminal = Terminal()

    Table(terminal, plain=True).line(Line("book", "a" * 31, "b" * 37, "ran"))

    assert terminal.lines() == [f"book     {'a' * 27}... {'b' * 37} ran"]


def test_the_widest_line_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    table = Table(terminal)

    wide = "w" * 200
    table.line(Line(wide, wide, wide, wide))
    table.head()
    table.tell("Answer", "word " * 60)

    assert max(map(len, terminal.lines())) == COLUMNS == 100


def test_words_under_a_label_are_wrapped_beside_it() -> None:
    terminal = Terminal()

    Table(terminal, plain=True).tell("Answer", "word " * 20)

    first, second = terminal.lines()
    assert first == "Answer     " + " ".join(["word"] * 18)
    assert second == "           word word"
