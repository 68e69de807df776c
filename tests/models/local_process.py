"""A worker of its own: `python -m tests.models.local_process STEP WAY ADDRESS FOLDER`.

begin    run a turn, say when words of it were shown, and hang there until somebody kills this process
finish   drive that turn to its end; run the same in another session; print both texts and what was used
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from tests.limits import HANGS_S
from tests.models.local_scene import STORY, answer, model_of, runtime, teller
from windlass.kernel.events import TextDelta

WORDS = 24


async def main(step: str, way: str, address: str, folder: str) -> None:
    agent = teller(model_of(way, address), WORDS)
    async with runtime(Path(folder), agent) as rt:
        if step == "begin":
            async with rt.session("s").stream(STORY, turn_id="t") as turn:
                shown = [event async for event in turn if _hang_at_words(event)]
                raise AssertionError(f"the turn ended, after {len(shown)} events")
        handle = rt.turn("s", "t")
        resumed = await handle.result(through_parks=["provider"], timeout=HANGS_S)
        whole = await answer(rt, "other", STORY, turn_id="t")
        history = await rt.session("s").history()
    said = [message.role for message in history]
    lost = resumed.usage.lost
    ended = [str(each.outcome) for each in (resumed, whole)]
    sys.stdout.write(json.dumps([resumed.text, whole.text, said, resumed.usage.calls, lost, ended]))


def _hang_at_words(event: object) -> bool:
    """Hang the whole process in the middle of the reply, where the test wants to kill it."""
    if isinstance(event, TextDelta) and event.text.strip():
        sys.stdout.write("shown\n")
        sys.stdout.flush()
        signal.pause()
    return True


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
