"""Streaming: from the model's hand to the reader's, token by token, beside a bare queue."""

from __future__ import annotations

import asyncio
import statistics
from time import perf_counter_ns

from bench.progress import progress
from bench.samples import Figure, figure
from bench.store_file import measured_folder
from bench.workloads.windlass_turns import FILE
from windlass import Agent, Runtime
from windlass.kernel import ModelReply, ModelRequest, Text, Usage
from windlass.kernel.events import TextDelta
from windlass.ports.model import EmitModelEvent, TextChunk

TOKEN_BAR_MS = 2.0
TOKENS = 400
_PAUSE_S = 0.001


class StreamingModel:
    """Says its numbers one by one and remembers when."""

    name = "bench:streaming"

    def __init__(self) -> None:
        self.said_ns: list[int] = []

    async def complete(self, request: ModelRequest, emit: EmitModelEvent) -> ModelReply:
        """Count."""
        del request
        self.said_ns = []
        for at in range(TOKENS):
            self.said_ns.append(perf_counter_ns())
            emit(TextChunk(text=f"{at} "))
            await asyncio.sleep(_PAUSE_S)
        text = "".join(f"{at} " for at in range(TOKENS))
        return ModelReply(text=text, parts=(Text(text=text),), usage=Usage(output_tokens=TOKENS))


def measure_tokens(rounds: int) -> list[Figure]:
    """Stream some turns and take the 99th percentile of each."""
    return asyncio.run(_measure(rounds))


async def _measure(rounds: int) -> list[Figure]:
    model = StreamingModel()
    agent = Agent("bench", model=model)
    medians: list[float] = []
    slowest: list[float] = []
    with measured_folder() as folder:
        async with Runtime(agent, store=f"sqlite:///{folder / FILE}") as runtime:
            for at in progress("tokens", rounds):
                taken = await _stream(runtime, model, f"s{at}")
                assert len(taken) == TOKENS
                medians.append(statistics.median(taken))
                slowest.append(statistics.quantiles(taken, n=100)[98])
    return [
        figure("a token, from the model to a reader: median", "ms", medians),
        figure("  99th percentile", "ms", slowest, bar=TOKEN_BAR_MS),
    ]


async def _stream(runtime: Runtime[str], model: StreamingModel, session: str) -> list[float]:
    taken: list[float] = []
    async with runtime.session(session).stream("count") as turn:
        async for event in turn:
            if isinstance(event, TextDelta):
                now = perf_counter_ns()
                # A reader that was slow gets several at once.
                taken += [(now - model.said_ns[int(each)]) / 1e6 for each in event.text.split()]
    return taken
