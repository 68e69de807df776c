"""What of a history is shown, as golden values; the laws are those of golden_values.py."""

from __future__ import annotations

from windlass.kernel import (
    Environment,
    HistoryView,
    InputOrigin,
    MessageReplaced,
    Text,
    ToolResult,
    ToolSpec,
    Value,
)

message_replaced = MessageReplaced(
    id="m4",
    parts=(
        ToolResult(call_id="call_1", name="add", content=(Text(text="3…"),)),
        Text(text="shorter"),
    ),
)

VIEWS: dict[str, Value] = {
    "MessageReplaced": message_replaced,
    "HistoryView": HistoryView(
        drop_before="m2",
        clear_before="m3",
        drop=("m5", "m6"),
        replace=(message_replaced,),
        placeholder="({name} {call_id} cleared)",
    ),
    "HistoryView.least": HistoryView(),
    "Environment.view": Environment(
        system_prompt="Be kind.",
        tools=(ToolSpec(name="add"),),
        view=HistoryView(drop_before="m2"),
    ),
    "HistoryView.handed": HistoryView(words_before="m3", drop_before="m3", keep=("m1",)),
    "InputOrigin.handed": InputOrigin(turn_id="t-1", agent="triage"),
}
