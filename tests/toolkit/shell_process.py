"""A process that drives a turn with a command in it; run with `python -m`, and killed by the test.

Arguments: the folder, the command, and `fork` if a forked child is to hold all that this process has open. It prints the
status of the call's outcome, and the words that the model was told.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from windlass import Agent, Runtime
from windlass.kernel import ModelReply, ModelRequest
from windlass.testing import FunctionModel, call
from windlass.toolkit import shell


async def _fork_when_it_runs(folder: Path) -> None:
    while not (folder / "ran").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    pid = os.fork()
    if pid == 0:
        signal.pause()
    (folder / "half").write_text(str(pid))
    (folder / "half").rename(folder / "forked")


async def main(folder: Path, command: str, *, forks: bool) -> None:
    def reply(request: ModelRequest) -> ModelReply | str:
        return call("run_command", command=command) if len(request.messages) == 1 else "I see."

    # No time limit that could do what the test says that something else does.
    runner = shell(folder, approval="never", timeout=3_600)
    agent = Agent("a", model=FunctionModel(reply), tools=[runner])
    forking = asyncio.create_task(_fork_when_it_runs(folder)) if forks else None
    async with Runtime(agent, store=f"sqlite:///{folder}/a.db") as rt:
        result = await rt.session("s").run("Go.", turn_id="t")
        (one,) = result.tool_calls
        assert forking is None or forking.done()
        sys.stdout.write(f"{one.outcome.status}\n{one.outcome.value}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], forks="fork" in sys.argv[3:]))
