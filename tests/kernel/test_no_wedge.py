"""No session can wedge: whatever happens in a turn, every later request suits every provider.

Random sessions of several turns are cancelled, crash and are compacted at random places, while the
model, the tools and the plugins answer with anything their types allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.kernel import strategies as world
from tests.limits import times
from windlass.errors import InvalidInput
from windlass.kernel import (
    Action,
    Append,
    CallModel,
    CallTools,
    CheckpointPassed,
    CompletedToolCall,
    ConversationRecord,
    Driver,
    DriverView,
    Effect,
    EnvironmentSynced,
    Error,
    Message,
    ModelMessage,
    ModelReplied,
    ModelReply,
    PendingToolCall,
    Record,
    Response,
    RunCheckpoint,
    StandardDriver,
    StartModel,
    Stopped,
    SyncEnvironment,
    Text,
    ToolOutcome,
    ToolResult,
    ToolsReturned,
    TurnCause,
    TurnConfig,
    TurnMachine,
    TurnSnapshot,
    WaitingModel,
    canonical,
)
from windlass.testing import broken_rules

MAX_TURNS = 3
MAX_MODEL_CALLS = 5

REPLIES = st.one_of(*[world.model_replies()] * 19, world.model_failures())
DELIVERIES = world.deliveries()
ENVIRONMENTS = world.environments()
CAUSES = world.causes()
PROMPTS = world.prompts()
TOOL_SETS = world.tool_sets()
STOPS = st.sampled_from((None, None)) | st.integers(0, 15)
CRASHES = st.sets(st.integers(0, 20), max_size=2)
LIMITS = st.sampled_from((None, None, 1, 1, 2, 3, 4))
WINDOWS = st.sampled_from((None, 100))
OFFSETS = st.sampled_from((0, 0, 3))
COMPACTIONS = st.sampled_from((False, False, True))
PRUNES = st.sampled_from(("intact", "cleared", "summarized"))
FOREIGN = CompletedToolCall(call_id="of another turn", name="add", outcome=ToolOutcome(value=1))

Draw = Callable[[st.SearchStrategy[Any]], Any]


class Wedged(AssertionError):
    """The session cannot go on."""


def check_request(effect: Effect) -> None:
    if isinstance(effect, CallModel):
        broken = broken_rules(effect.request)
        if broken:
            raise Wedged(f"{broken}\nin {[*effect.request.messages]}")


class Session:
    """A history, and turns on it in which whatever is drawn happens."""

    def __init__(self, draw: Draw, driver: Driver) -> None:
        self.draw = draw
        self.driver = driver
        self.history: list[Message] = []

    def play(self) -> None:
        for number in range(self.draw(st.integers(1, MAX_TURNS))):
            self.history.append(self.draw(world.user_messages(f"u{number}")))
            self.run_turn(f"t{number}", self.draw(CAUSES))
            self.check_next_request()
            self.compact(number)
            self.check_next_request()

    def config(self, turn_id: str) -> TurnConfig:
        return TurnConfig(
            driver=self.driver,
            model="m",
            session_id=world.SESSION_ID,
            turn_id=turn_id,
            system_prompt=self.draw(PROMPTS),
            tools=self.draw(TOOL_SETS),
            max_iterations=self.draw(LIMITS),
            max_context_tokens=self.draw(WINDOWS),
            sync_environment=self.draw(st.booleans()),
        )

    def run_turn(self, turn_id: str, causes: Sequence[TurnCause]) -> None:
        config = self.config(turn_id)
        stop_at, crashes = self.draw(STOPS), self.draw(CRASHES)
        offset = self.draw(OFFSETS)
        machine = TurnMachine(config, self.history, causes=causes, iteration_offset=offset)
        n_effects = n_calls = 0
        while (effect := machine.poll()) is not None:
            check_request(effect)
            n_effects += 1
            n_calls += isinstance(effect, CallModel)
            if n_effects - 1 in crashes:
                machine = restored(machine, config)
            elif n_effects - 1 == stop_at or n_calls > MAX_MODEL_CALLS:
                self.stop(machine, effect)
            elif (response := self.answer(effect)) is not None:
                machine.respond(response)
        assert machine.is_done
        self.history += [
            record.message for record in machine.records if isinstance(record, ConversationRecord)
        ]

    def answer(self, effect: Effect) -> Response | None:
        match effect:
            case CallModel():
                streamed = self.draw(st.booleans())
                reply = self.draw(REPLIES)
                return ModelReplied(id=effect.id, result=reply, text_streamed=streamed)
            case CallTools():
                results = self.draw(world.all_completed(effect.calls))
                return ToolsReturned(id=effect.id, results=results)
            case RunCheckpoint():
                return CheckpointPassed(id=effect.id, delivery=self.draw(DELIVERIES))
            case SyncEnvironment():
                return EnvironmentSynced(id=effect.id, result=self.draw(ENVIRONMENTS))
            case _:
                return None

    def stop(self, machine: TurnMachine, effect: Effect) -> None:
        """End the turn from outside, with whatever part of the results had come back."""
        completed = [FOREIGN]
        if isinstance(effect, CallTools):
            ended = self.draw(world.all_completed(effect.calls))
            completed += ended[self.draw(st.integers(0, min(len(ended), 6))) :]
        if self.draw(st.booleans()):
            machine.finish(Stopped(reason="cancelled"), completed)
        else:
            machine.fail(Error(message="The worker is gone."), completed)

    def compact(self, number: int) -> None:
        """Clear old results; replace the beginning by a summary, never between call and result."""
        prune = self.draw(PRUNES)
        self.history = [msgspec.structs.replace(each, prune=prune) for each in self.history]
        if self.draw(COMPACTIONS):
            cuts = [at for at, each in enumerate(self.history) if not has_results(each)]
            cut = self.draw(st.sampled_from((*cuts, len(self.history))))
            parts = (Text(text="What was said before."),)
            summary = Message(id=f"summary{number}", role="system", parts=parts)
            self.history = [summary, *self.history[cut:]]

    def check_next_request(self) -> None:
        config = TurnConfig(
            driver=StandardDriver(),
            model="m",
            session_id=world.SESSION_ID,
            turn_id="next",
            system_prompt="You help.",
            tools=world.TOOLS,
        )
        words = Message(id="next", role="user", parts=(Text(text="Go on."),))
        try:
            machine = TurnMachine(config, [*self.history, words])
        except InvalidInput as refused:
            raise Wedged(f"{refused}\nin {self.history}") from refused
        asked = []
        while (effect := machine.poll()) is not None:
            check_request(effect)
            asked.append(effect)
        assert isinstance(asked[-1], CallModel)


def restored(machine: TurnMachine, config: TurnConfig) -> TurnMachine:
    kept = canonical.encode(machine.snapshot())
    return TurnMachine.restore(config, canonical.decode(kept, TurnSnapshot))


def has_results(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)


# Without Phase.explain, which would rerun a failure under a tracer for minutes.
@settings(
    max_examples=times(200),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_no_session_can_wedge(data: st.DataObject) -> None:
    Session(data.draw, StandardDriver()).play()


# --- the property can be red ---------------------------------------------------------------------


class DropsResults(StandardDriver):
    """Forgets the calls that are out when the turn is stopped."""

    def close(
        self,
        view: DriverView,
        calls: Sequence[PendingToolCall],
        completed: Sequence[CompletedToolCall],
    ) -> list[Action]:
        return []


def with_messages(
    actions: Sequence[Action], change: Callable[[Message], Message | None]
) -> list[Action]:
    """Return the actions with every message that they append changed, or left out for None."""
    return [
        Append(records=tuple(changed_records(action.records, change)))
        if isinstance(action, Append)
        else action
        for action in actions
    ]


def changed_records(
    records: Sequence[Record], change: Callable[[Message], Message | None]
) -> Iterator[Record]:
    for record in records:
        if not isinstance(record, ConversationRecord):
            yield record
        elif (message := change(record.message)) is not None:
            yield ConversationRecord(message=message)


class AnswersBackwards(StandardDriver):
    """Records results in the wrong order."""

    def on_tools(self, view: DriverView, completed: Sequence[CompletedToolCall]) -> list[Action]:
        return with_messages(
            super().on_tools(view, completed),
            lambda each: msgspec.structs.replace(each, parts=each.parts[::-1]),
        )


class KeepsNoRefusals(StandardDriver):
    """Records a reply of which no call may run, but not that they were refused."""

    def on_model(
        self, view: DriverView, waiting: WaitingModel, reply: ModelReply, text_streamed: bool
    ) -> list[Action]:
        return with_messages(
            super().on_model(view, waiting, reply, text_streamed),
            lambda each: None if has_results(each) else each,
        )


class RepeatsItself(StandardDriver):
    """Gives every reply the same id."""

    def on_model(
        self, view: DriverView, waiting: WaitingModel, reply: ModelReply, text_streamed: bool
    ) -> list[Action]:
        return with_messages(
            super().on_model(view, waiting, reply, text_streamed),
            lambda each: msgspec.structs.replace(each, id=f"m_{each.role}"),
        )


class AsksWith(StandardDriver):
    """Adds a message to every request."""

    def __init__(self, added: ModelMessage) -> None:
        self.added = added

    def prepare(self, view: DriverView) -> list[Action]:
        request = view.request()
        messages = (*request.messages, self.added)
        return [StartModel(request=msgspec.structs.replace(request, messages=messages))]


def says(role: Literal["system", "user", "assistant"], text: str) -> ModelMessage:
    return ModelMessage(role=role, parts=(Text(text=text),))


# Whichever comes first: a request of the same turn, or the history at the door of the next.
UNPAIRED = "each call has one result|not the results of|not first in a user"


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (DropsResults(), UNPAIRED),
        (AnswersBackwards(), UNPAIRED),
        (KeepsNoRefusals(), UNPAIRED),
        (RepeatsItself(), "a second time"),
        (AsksWith(says("user", "")), "text is more than white space"),
        (AsksWith(says("assistant", "Well,")), "the last message is the user's"),
        (AsksWith(says("system", "Be quick.")), "a system message stands first or nowhere"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, StandardDriver) else given,
)
def test_a_driver_that_wedges_sessions_is_caught(driver: Driver, reason: str) -> None:
    @settings(
        max_examples=300,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def play(data: st.DataObject) -> None:
        Session(data.draw, driver).play()

    with pytest.raises(Wedged, match=reason):
        play()
