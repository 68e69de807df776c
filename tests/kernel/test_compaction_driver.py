"""A compaction asks for a summary of its frame, and opens the next one with it or changes nothing."""

from __future__ import annotations

import pytest

from tests.kernel.builders import (
    ask,
    assistant,
    config,
    drain,
    only,
    reply_to,
)
from tests.kernel.compactions import (
    HISTORY,
    LONG,
    compacting,
    finished,
    nodes_of,
    said,
    texts,
)
from windlass.journal import FrameOpened
from windlass.kernel import (
    Attachment,
    Code,
    CodeOutput,
    Error,
    ErrorText,
    Finish,
    Finished,
    Json,
    Message,
    ModelReplied,
    ModelReply,
    Stopped,
    Text,
    TurnMachine,
    check_history,
    freeze,
)
from windlass.kernel.chain import Chain
from windlass.kernel.compaction import CompactionDriver, compaction_with
from windlass.kernel.summary import ASK, LEFT_OUT, UPDATE, is_seed
from windlass.testing.provider_rules import broken_rules

# ---------------------------------------------------------------------- asking


def test_the_history_is_told_in_words_and_the_wish_comes_last() -> None:
    request = ask(compacting()).request

    assert texts(request) == [
        "Be brief.",
        "Book a table for 4.",
        'I look.|[called find: {"n":4}]|[called weather: {}]',
        f"[find answered: {LONG}]|[weather answered, unknown: ?]",
        "Done: Luigi, 8 pm.",
        "Thanks. And a taxi?",
        "Ordered.",
        ASK,
    ]
    assert (request.tools, request.tool_choice) == ((), "none")
    assert broken_rules(request) == []


def test_instructions_are_added_to_the_wish() -> None:
    request = ask(compacting(instructions="Keep all prices.")).request

    assert texts(request)[-1] == f"{ASK}\nBesides: Keep all prices."


def test_a_frame_that_began_with_a_summary_has_it_brought_up_to_date() -> None:
    history = (finished(turn="t0"), said("More.", "u3"), assistant("Fine.", "a4"))
    request = ask(compacting(history)).request

    assert texts(request)[1].startswith("[summary of the conversation so far]\n")
    assert texts(request)[-1] == ASK + UPDATE


@pytest.mark.parametrize("history", [(), (finished(turn="t0"),)], ids=["nothing", "only a summary"])
def test_where_there_is_nothing_to_sum_up_no_model_is_asked(history: tuple[Message, ...]) -> None:
    machine = compacting(history)
    drain(machine)

    assert machine.outcome == Finished(text="")
    assert nodes_of(machine, history) == ()


def test_a_wish_for_a_frame_that_is_over_does_nothing() -> None:
    done, due = compacting(frame="m_older"), compacting(frame="u1")

    drain(done)
    assert done.outcome == Finished(text="")
    assert ask(due).request.messages


# ---------------------------------------------------------------------- too long


def test_a_history_that_did_not_fit_is_told_shorter_until_it_does() -> None:
    machine = compacting()
    sizes = []
    for _ in range(5):
        asked = ask(machine)
        assert broken_rules(asked.request) == []
        sizes.append(sum(map(len, texts(asked.request))))
        machine.respond(ModelReplied(id=asked.id, result=ModelReply(terminal="context_overflow")))
    effects = drain(machine)

    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1] + 1_900  # the long result went first
    assert machine.outcome == Stopped(
        reason="provider_error",
        detail="The conversation does not fit the model's context window, however shortened.",
    )
    assert [error.code for error in only(Error, effects)] == ["summary_invalid"]
    assert nodes_of(machine) == ()


def test_with_a_known_window_what_cannot_fit_is_not_sent() -> None:
    room, no_room = compacting(window=2_000), compacting(window=900)  # 6,000 and 2,700 characters

    assert LONG in "".join(texts(ask(room).request))
    assert LONG not in "".join(texts(ask(no_room).request))


def test_what_is_left_out_is_the_oldest_and_never_the_earlier_summary() -> None:
    talk = tuple(
        one
        for at in range(40)
        for one in (said(f"question {at} {LONG}", f"u{at}"), assistant(f"answer {at}", f"b{at}"))
    )
    machine = compacting((finished(turn="t0"), *talk), window=1_000)
    told = texts(ask(machine).request)

    assert told[1].startswith("[summary of the conversation so far]\n")
    assert told[2] == LEFT_OUT
    assert [one[:9] for one in told[3:-1:2]] == ["question "] * 5
    assert told[-2] == "answer 39"


def test_files_are_named_where_there_is_no_room_for_them() -> None:
    photo = Attachment(ref="r1", media_type="image/png", name="menu.png")
    shown = Message(id="u1", role="user", parts=(Text(text="Look."), photo))
    history = (shown, assistant("I see.", "a1"))
    whole = ask(compacting(history)).request
    machine = compacting(history)
    reply_to(machine, ModelReply(terminal="context_overflow"))
    shorter = machine.snapshot().state.request  # type: ignore[union-attr]  # it waits for the model

    assert whole.messages[1].parts == (Text(text="Look."), photo)
    assert texts(shorter)[1] == "Look.|[attachment menu.png]"


def test_code_and_errors_are_told_in_words_where_words_are_short() -> None:
    did = Message(
        id="a1",
        role="assistant",
        parts=(
            Code(language="python", source="1 / 0"),
            CodeOutput(text="so far", error="ZeroDivisionError"),
            ErrorText(text="It broke."),
        ),
    )
    machine = compacting((said("Go.", "u1"), did))
    for _ in range(2):  # the third telling is the first that shortens words
        overflow = ModelReply(terminal="context_overflow")
        machine.respond(ModelReplied(id=ask(machine).id, result=overflow))
    told = texts(ask(machine).request)

    assert told[2] == (
        "```python\n1 / 0\n```|[output]\nso far\nZeroDivisionError|[error] It broke."
    )


# ---------------------------------------------------------------------- opening the frame


def test_a_summary_opens_a_frame_with_one_message() -> None:
    machine = compacting()
    reply_to(machine, ModelReply(text="Well.\n<summary>\nAll is booked.\n</summary>"))
    frame, record = nodes_of(machine)

    assert machine.outcome == Finished(text="All is booked.")
    # printf s1/t1 | sha256sum | cut -c-16
    assert frame == FrameOpened(
        frame_id="f_3633887835d74bdc",
        reason="compaction",
        detail={"turns": 2, "messages": 6},
        carries=True,
    )
    seed = record.message
    assert (seed.id, seed.role) == ("m_3633887835d74bdc.0.summary", "user")
    assert seed.parts == (
        Text(
            text="[summary of the conversation so far]\n"
            "This stands for all messages before it. It was made of them; nobody said it.\n"
            "\n"
            "All is booked.\n"
            "\n"
            "[the last words before this point]\n"
            "user: Thanks. And a taxi?\n"
            "assistant: Ordered."
        ),
    )
    assert is_seed(seed)
    check_history(Chain([seed]))


def test_words_without_marks_are_a_summary_too() -> None:
    machine = compacting()
    reply_to(machine, ModelReply(text=" Booked. "))

    assert machine.outcome == Finished(text="Booked.")


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        (0, []),
        (1, ["user: Thanks. And a taxi?", "assistant: Ordered."]),
        (
            9,
            [
                "user: Book a table for 4.",
                "assistant: Done: Luigi, 8 pm.",
                "user: Thanks. And a taxi?",
                "assistant: Ordered.",
            ],
        ),
    ],
)
def test_the_last_exchanges_are_kept_in_words(keep: int, kept: list[str]) -> None:
    seed = finished(keep=keep)
    text = seed.parts[0].text  # type: ignore[union-attr]
    _, _, last = text.partition("[the last words before this point]\n")

    assert last.splitlines() == kept


def test_files_of_the_last_exchange_stay_in_sight() -> None:
    photo = Attachment(ref="r1", media_type="image/png", name="menu.png")
    shown = Message(id="u9", role="user", parts=(Text(text="Look."), photo))
    seed = finished((*HISTORY, shown))

    assert seed.parts[1:] == (photo,)


def test_of_an_earlier_summary_no_words_are_kept_beside_the_new_one() -> None:
    first = finished(turn="t0")
    second = finished((first, said("More.", "u3"), assistant("Fine.", "a4")), keep=5)
    text = second.parts[0].text  # type: ignore[union-attr]

    assert second.id != first.id
    assert text.count("[summary of the conversation so far]") == 1
    assert text.endswith("\nuser: More.\nassistant: Fine.")


def test_the_frame_says_which_summary_it_brought_up_to_date() -> None:
    first = finished(turn="t0")
    history = (first, said("More.", "u3"), assistant("Fine.", "a4"))
    machine = compacting(history)
    reply_to(machine, ModelReply(text="Booked, and more."))
    frame, _ = nodes_of(machine, history)

    assert frame.detail == {"turns": 1, "messages": 3, "updates": first.id}


# ---------------------------------------------------------------------- what is said about it


def test_what_was_said_about_a_compaction_is_read() -> None:
    machine = TurnMachine(
        config(compaction_with(freeze({"keep": 0, "instructions": "Be kind."}))), HISTORY
    )

    assert texts(ask(machine).request)[-1] == f"{ASK}\nBesides: Be kind."


@pytest.mark.parametrize(
    "said", [None, "keep", [], {"keep": -1}, {"keep": "all"}, {"instructions": 7}]
)
def test_what_makes_no_sense_was_not_said(said: Json) -> None:
    machine = TurnMachine(config(compaction_with(freeze(said))), HISTORY)

    assert texts(ask(machine).request)[-1] == ASK


@pytest.mark.parametrize("answer", ["on_tools", "on_code"])
def test_a_compaction_that_is_told_of_tools_ends(answer: str) -> None:
    (ends,) = getattr(CompactionDriver(), answer)(None, ())

    detail = "A compaction started no such thing."
    assert ends == Finish(outcome=Stopped(reason="runtime_error", detail=detail))


def test_a_compaction_has_no_call_to_close() -> None:
    assert CompactionDriver().close(None, (), ()) == []
