"""A process of its own that drives a turn full of a provider's key: `python keyed_process.py FILE LOG [HALT]`.

Whatever is shown, logged or answered goes to its output. With HALT the second tool stops in the middle of its body,
where the process is killed from outside.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

from msgspec.structs import replace

from windlass import Agent, Runtime, tool
from windlass.models.credentials import key_for
from windlass.testing import ScriptedModel, call, say

KEY = "sk-canary-4711-aZ"
NAME = "OPENAI_API_KEY"
HALTS = "halts here"


def agent(log: Path, *, halts: bool) -> Agent[None, str]:
    """Return an agent whose tools return the key, are called with it, and raise it."""

    def note(what: str) -> None:
        with log.open("a") as file:
            file.write(f"{what}\n")

    @tool(effect="once")
    async def read_settings(path: str) -> dict[str, object]:
        """Read a file."""
        note(f"read {path}")
        return {"key": KEY, KEY: [f"Bearer {KEY}"], "long": f"{KEY} and so on " * 5_000}

    @tool(effect="idempotent")
    async def sign_in(key: str) -> str:
        """Sign in."""
        note(f"sign in with {key}")
        if halts:
            sys.stdout.write(f"{HALTS}\n")
            sys.stdout.flush()
            await asyncio.Event().wait()
        raise ValueError(f"{key} is not {KEY}")

    model = ScriptedModel(
        [
            replace(call("read_settings", path=f"/etc/{KEY}"), text=f"You said {KEY}."),
            call("sign_in", key=KEY),
            say(f"The key is {KEY}, and {KEY[:8]} is its beginning."),
        ],
        chunks=40,
    )
    return Agent("clerk", model=model, instructions=f"Keep {KEY}.", tools=[read_settings, sign_in])


async def main(file: str, log: str, *halt: str) -> None:
    logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
    key_for("openai", env={NAME: KEY})
    clerk = agent(Path(log), halts=bool(halt))
    async with Runtime(clerk, store=f"sqlite:///{file}") as rt:
        session = rt.session("s")
        async with session.stream(f"Use {KEY}.", turn_id="t", context={"k": KEY}) as turn:
            async for event in turn:
                sys.stdout.write(f"{event}\n")
            result = await turn.result()
        sys.stdout.write(f"{result.issues}\n{result.messages}\n{await session.history()}\n")
        sys.stdout.write(f"{result.outcome}\n")
        await session.run("And once more.", turn_id="t2", model=ScriptedModel([say(KEY)], name="n"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
