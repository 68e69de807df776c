"""Whatever was said and whatever the model answers, a compaction wedges no session: every provider takes every request."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernel import strategies as world
from tests.kernel.builders import SESSION, TURN, ask, config, drain
from tests.kernel.test_history_view_property import histories
from windlass.journal import FrameOpened
from windlass.kernel import (
    Chain,
    ConversationRecord,
    Finished,
    Message,
    ModelReplied,
    ModelReply,
    Text,
    ToolCall,
    ToolResult,
    TurnMachine,
    check_history,
)
from windlass.kernel.compaction import CompactionDriver, CompactionOptions
from windlass.runtime.ending import frame_nodes
from windlass.testing import broken_rules

SUMMARY = st.just(ModelReply(text="<summary>SUM</summary>"))
ANSWERS = SUMMARY | world.model_replies() | world.model_failures()
OPTIONS = st.builds(
    CompactionOptions,
    keep=st.integers(0, 3),
    window=st.none() | st.sampled_from((1, 400, 600, 100_000)),
    instructions=world.words(),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), options=OPTIONS, prompt=world.prompts(), data=st.data())
def test_every_request_of_a_compaction_and_after_it_suits_every_provider(
    history: tuple[Message, ...], options: CompactionOptions, prompt: str, data: st.DataObject
) -> None:
    setting = config(CompactionDriver(options), system_prompt=prompt)
    machine = TurnMachine(setting, history)
    for _ in range(6):
        asked = ask(machine)
        if machine.is_done:
            break
        assert broken_rules(asked.request) == []
        parts = [part for message in asked.request.messages for part in message.parts]
        assert not any(isinstance(part, (ToolCall, ToolResult)) for part in parts)
        machine.respond(ModelReplied(id=asked.id, result=data.draw(ANSWERS)))
    drain(machine)
    assert machine.is_done
    assert machine.outcome is not None
    nodes = frame_nodes((SESSION, TURN), history, (), machine.records, machine.outcome)
    if not isinstance(machine.outcome, Finished) or not machine.outcome.text:
        assert nodes == ()
        return
    frame, record = nodes
    assert isinstance(frame, FrameOpened)
    assert isinstance(record, ConversationRecord)
    said = Message(id="next", role="user", parts=(Text(text="And now?"),))
    check_history(Chain([*history, record.message, said]))  # no id comes twice in the session
    after = TurnMachine(config(system_prompt=prompt, turn_id="next"), [record.message, said])
    assert broken_rules(ask(after).request) == []
