"""The compaction plugin asks for a new frame when a request was near the window, and knows when to stop asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.plugins.fake_turn import FakeHost, FakeTurn
from windlass.errors import ConfigError
from windlass.journal import UsageLine
from windlass.kernel import (
    Finished,
    Message,
    ModelFailure,
    ModelReply,
    Stopped,
    Text,
    Usage,
)
from windlass.kernel.outcomes import Outcome, StopReason
from windlass.plugins.compaction import CONTINUE, Compaction
from windlass.ports.directives import Finale
from windlass.ports.plugin import Trouble

DONE = Finished(text="ok")
FULL = Stopped(reason="provider_error", detail="The request no longer fits.")
OVERFLOW = ModelReply(terminal="context_overflow")


class Talk:
    """A session of turns made by hand; each turn is seen by a plugin of its own, as after a restart."""

    def __init__(self, **settings: Any) -> None:
        self.settings = {"window": 1_000, **settings}
        self.host = FakeHost()
        self.frame = "m1"
        self.length = 2

    async def turn(
        self, *replies: ModelReply, outcome: Outcome = DONE, longer: int = 2
    ) -> Finale | None:
        """Play one turn; `longer` is how many messages it adds."""
        self.host.states.clear()
        self.length += longer
        self.host.messages = _messages(self.frame, self.length)
        self.host.turn_messages = self.host.messages[-longer:]
        for reply in replies:
            turn = FakeTurn(Compaction.name, self.host)
            await self.plugin.after_model(turn, reply)
            turn.settle()
        total = sum((reply.usage for reply in replies), Usage())
        self.host.usage = (UsageLine(source="turn", model="m", calls=1, usage=total),)
        return await self.end(outcome)

    async def compaction(self, said: ModelReply | ModelFailure) -> None:
        """Play a compaction turn in which the model says this."""
        self.host.states.clear()
        self.host.turn_messages = ()
        turn = FakeTurn(Compaction.name, self.host)
        if isinstance(said, ModelReply):
            await self.plugin.after_model(turn, said)
        else:
            await self.plugin.on_error(turn, Trouble(kind="model", failure=said))
        turn.settle()

    async def end(self, outcome: Outcome = DONE) -> Finale | None:
        turn = FakeTurn(Compaction.name, self.host)
        finale = await self.plugin.after_turn(turn, outcome)
        turn.settle()
        return finale

    def compacted(self) -> None:
        """Let the wish have been granted."""
        self.frame = f"{self.frame}x"
        self.length = 1

    @property
    def plugin(self) -> Compaction:
        return Compaction(**self.settings)


def _messages(first: str, n: int, text: str = "word") -> Sequence[Message]:
    ids = [first, *(f"{first}.{at}" for at in range(1, n))]
    return [Message(id=one, role="user", parts=(Text(text=text),)) for one in ids]


def used(prompt: int, output: int = 0, **fields: Any) -> ModelReply:
    return ModelReply(text="ok", usage=Usage(input_tokens=prompt, output_tokens=output), **fields)


def asked(finale: Finale | None) -> bool:
    return finale is not None and bool(finale.compact)


# ---------------------------------------------------------------------- when


@pytest.mark.parametrize(
    ("prompt", "output", "wanted"),
    [(700, 99, False), (700, 100, True), (800, 0, True), (0, 0, False)],
)
async def test_a_frame_is_asked_for_when_request_and_reply_fill_the_share(
    prompt: int, output: int, wanted: bool
) -> None:
    assert asked(await Talk().turn(used(prompt, output))) is wanted


async def test_cached_tokens_fill_the_window_too() -> None:
    cached = Usage(input_tokens=100, cached_input_tokens=600, cache_write_tokens=100)

    assert asked(await Talk().turn(ModelReply(text="ok", usage=cached)))


async def test_the_last_request_of_a_turn_counts_and_not_all_of_them_together() -> None:
    talk = Talk()

    assert not asked(await talk.turn(used(500), used(500), used(500)))
    assert not asked(await talk.turn(used(900), used(300)))  # a view has trimmed it since
    assert asked(await talk.turn(used(300), used(900)))


async def test_without_a_count_the_history_is_estimated() -> None:
    talk = Talk(window=10_000)
    assert not asked(await talk.turn(ModelReply(text="ok")))

    talk.host.messages = _messages("m1", 3, "some words " * 4_000)
    assert asked(await talk.end())


async def test_the_wish_says_how_and_for_which_frame() -> None:
    finale = await Talk(keep=3, instructions="Keep all prices.").turn(used(900))

    assert finale == Finale(
        compact={"frame": "m1", "instructions": "Keep all prices.", "keep": 3, "window": 1_000}
    )


async def test_a_turn_without_any_message_asks_for_nothing() -> None:
    talk = Talk()
    talk.host.states[Compaction.name] = {"tokens": 999}

    assert await talk.end() is None


async def test_a_turn_far_from_the_window_leaves_no_trace() -> None:
    talk = Talk()
    await talk.turn(used(100))

    assert talk.host.states.get(Compaction.name) is None
    assert talk.host.memories == {}


# ---------------------------------------------------------------------- over the window


async def test_a_turn_that_ran_over_the_window_is_gone_on_with() -> None:
    finale = await Talk().turn(OVERFLOW, outcome=FULL)

    assert asked(finale)
    assert finale is not None
    assert list(finale.messages) == [CONTINUE]


async def test_a_reply_without_a_token_at_a_full_window_ran_over_it() -> None:
    cut = used(960, terminal="output_limit")
    finale = await Talk().turn(cut, outcome=Stopped(reason="incomplete"))

    assert finale is not None
    assert list(finale.messages) == [CONTINUE]


async def test_a_request_that_was_refused_as_too_long_ran_over_it() -> None:
    talk = Talk()
    talk.host.messages = _messages("m1", 3)
    talk.host.turn_messages = talk.host.messages[-1:]
    turn = FakeTurn(Compaction.name, talk.host)
    failure = ModelFailure(message="too long", terminal="context_overflow")
    await talk.plugin.on_error(turn, Trouble(kind="model", failure=failure))
    turn.settle()
    finale = await talk.end(FULL)

    assert asked(finale)
    assert finale is not None
    assert list(finale.messages) == [CONTINUE]


async def test_an_overflow_that_another_model_had_room_for_is_none() -> None:
    assert await Talk().turn(OVERFLOW, used(100)) is None
    assert asked(finale := await Talk().turn(OVERFLOW, used(900)))
    assert finale is not None
    assert list(finale.messages) == []


@pytest.mark.parametrize("reason", ["limit", "refused", "max_iterations"])
async def test_work_that_something_else_ended_is_not_gone_on_with(reason: StopReason) -> None:
    finale = await Talk().turn(OVERFLOW, outcome=Stopped(reason=reason))

    assert finale is None or list(finale.messages) == []


async def test_a_cancelled_turn_asks_for_nothing() -> None:
    cancelled = Stopped(reason="cancelled")

    assert await Talk().turn(OVERFLOW, outcome=cancelled) is None
    assert await Talk().turn(used(900), outcome=cancelled) is None


async def test_other_errors_are_none_of_its_business() -> None:
    talk = Talk()
    talk.host.messages = _messages("m1", 3)
    turn = FakeTurn(Compaction.name, talk.host)
    await talk.plugin.on_error(turn, Trouble(kind="model", failure=ModelFailure(message="down")))
    turn.settle()

    assert await talk.end(FULL) is None


async def test_work_that_runs_over_every_new_frame_is_not_gone_on_with_forever() -> None:
    talk = Talk()
    finales = []
    for _ in range(4):
        finale = await talk.turn(OVERFLOW, outcome=FULL)
        assert finale is not None
        finales.append(finale)
        talk.compacted()

    assert [len(one.messages) for one in finales] == [1, 1, 0, 0]
    assert all(asked(one) for one in finales)
    assert [list(one.issues) for one in finales[2:]] == [
        [
            "compaction: the window was full 3 times in a row; the work is not continued",
        ]
    ] * 2


async def test_a_turn_that_fits_again_makes_the_next_overflow_a_first_one() -> None:
    talk = Talk()
    for _ in range(2):
        await talk.turn(OVERFLOW, outcome=FULL)
        talk.compacted()
    await talk.turn(used(100))
    finale = await talk.turn(OVERFLOW, outcome=FULL)

    assert finale is not None
    assert list(finale.messages) == [CONTINUE]


# ---------------------------------------------------------------------- when it does not help


async def test_after_two_wishes_without_a_new_frame_the_third_waits_until_there_is_more() -> None:
    talk = Talk()
    talk.length = 10

    assert [asked(await talk.turn(used(900), longer=1)) for _ in range(2)] == [True, True]
    told = await talk.turn(used(900), longer=1)
    assert told == Finale(
        issues=[
            (
                "compaction: 2 in a row opened no new frame (the last was cancelled or has not run yet); "
                "the next waits until the history has grown"
            )
        ]
    )
    assert await talk.turn(used(900), longer=1) is None  # and is told once
    assert asked(await talk.turn(used(900), longer=2))  # 4 messages more than at the last try
    assert asked(await talk.turn(used(900), longer=1))
    assert not asked(await talk.turn(used(900), longer=1))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            ModelReply(text="<summary>So", terminal="output_limit"),
            "the summary was cut off at its output limit",
        ),
        (ModelReply(text="<summary> </summary>"), "the summary is empty"),
        (OVERFLOW, "the conversation does not fit the model's window"),
        (
            ModelFailure(message="no", code="rejected"),
            "the model could not be asked: rejected",
        ),
        (
            ModelFailure(message="no", terminal="context_overflow"),
            "the conversation does not fit the model's window",
        ),
    ],
)
async def test_it_is_told_why_no_frame_was_opened(
    said: ModelReply | ModelFailure, why: str
) -> None:
    talk = Talk()
    talk.length = 10
    for _ in range(2):
        await talk.turn(used(900), longer=1)
        await talk.compaction(said)
    told = await talk.turn(used(900), longer=1)

    assert told == Finale(
        issues=[
            (
                f"compaction: 2 in a row opened no new frame ({why}); "
                "the next waits until the history has grown"
            )
        ]
    )


async def test_a_long_history_has_to_grow_by_a_quarter() -> None:
    talk = Talk()
    talk.length = 98
    for _ in range(2):
        await talk.turn(used(900), longer=1)
    assert not asked(await talk.turn(used(900), longer=24))

    assert asked(await talk.turn(used(900), longer=1))


async def test_a_new_frame_forgets_the_tries_of_the_old_one() -> None:
    talk = Talk()
    for _ in range(3):
        await talk.turn(used(900), longer=1)
    talk.compacted()

    assert asked(await talk.turn(used(900)))


async def test_failed_compactions_and_overflows_do_not_keep_each_other_going() -> None:
    """Nothing is asked any more, and no turn begun: the third overflow is the last word."""
    talk = Talk()
    finales = [await talk.turn(OVERFLOW, outcome=FULL, longer=1) for _ in range(3)]

    assert [asked(one) for one in finales] == [True, True, False]
    assert [len(one.messages) for one in finales if one is not None] == [1, 1, 0]


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("window", 0),
        ("window", -5),
        ("window", 1.5),
        ("window", True),
        ("window", "100"),
        ("at", 0),
        ("at", 1.01),
        ("at", float("nan")),
        ("at", True),
        ("at", "0.8"),
        ("keep", -1),
        ("keep", 0.5),
        ("instructions", None),
        ("instructions", "\x00"),
    ],
)
def test_bad_options_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        Compaction(**{"window": 1_000, field: value})  # type: ignore[arg-type]  # that is the point

    assert refused.value.field == f"Compaction.{field}"
    assert str(refused.value).startswith(f"Compaction.{field}: found ")


def test_the_window_has_to_be_named() -> None:
    with pytest.raises(TypeError, match="window"):
        Compaction()  # type: ignore[call-arg]  # that is the point
