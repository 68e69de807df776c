"""What stores keep of the values that they speak, one of each with everything set and one with the least."""

from __future__ import annotations

from pathlib import Path

from windlass.kernel import Text, Value
from windlass.ports import NewItem, TurnRequest, Wait, WaitAnswer

FOLDER = Path(__file__).parent / "golden"

GOLDEN: dict[str, dict[str, Value]] = {
    "stored": {
        "TurnRequest": TurnRequest(
            input=(Text(text="Grüße"), Text(text="2")),
            context={"customer": 42, "tags": ["a", None]},
            overrides={"model": "m-large"},
        ),
        "TurnRequest.least": TurnRequest(),
        "Wait": Wait(
            key="w_1",
            kind="unknown_outcome",
            session_id="s-1",
            turn_id="t-1",
            call_id="c-1",
            title="Was it sent?",
            detail={"to": "eva", "cents": 900},
            created_ms=1_700_000_000_000,
            expires_ms=1_700_000_600_000,
        ),
        "Wait.least": Wait(key="w_2", kind="timer", session_id="s-1", turn_id="t-1"),
        "WaitAnswer": WaitAnswer(
            status="rejected", value={"because": "no"}, by="eva", now_ms=1_700_000_000_001
        ),
        "WaitAnswer.least": WaitAnswer(),
        "NewItem": NewItem(item_id="i-1", kind="wake", when="next_turn", content={"text": "up"}),
        "NewItem.least": NewItem(item_id="i-2"),
    }
}
