"""The real local model through the public API, by each wire format of its server and in this process.

The server is another process; nothing here needs a key or a network.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.limits import HANGS_S
from tests.models.local_scene import (
    STORY,
    WIRES,
    Station,
    answer,
    forecaster,
    model_of,
    runtime,
    teller,
)
from tests.models.local_server import local_server
from tests.scenarios.stage import until
from windlass import Generation
from windlass.kernel.events import Retracted, TextDelta
from windlass.kernel.outcomes import Stopped
from windlass.ports import Model

ROOT = Path(__file__).parents[2]
WAYS = (*WIRES, "local")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with local_server() as found:
        yield found


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def model(way: str, address: str) -> AsyncIterator[Model]:
    made = model_of(way, address)
    yield made
    await made.aclose()  # type: ignore[attr-defined]  # adapters have it, the port has not


async def test_a_streamed_turn_shows_the_words_of_its_result(model: Model, tmp_path: Path) -> None:
    async with (
        runtime(tmp_path, teller(model, 16)) as rt,
        rt.session("s").stream("Say hello.") as turn,
    ):
        shown = [event.text async for event in turn if isinstance(event, TextDelta)]
        result = await turn.result(timeout=HANGS_S)

    assert len(shown) > 2
    assert "".join(shown) == result.text
    assert 0 < result.usage.output_tokens <= 16
    assert result.usage.input_tokens + result.usage.cached_input_tokens > 5
    assert (result.usage.calls, result.usage.lost) == (1, 0)


async def test_three_wire_formats_carry_the_same_words(address: str, tmp_path: Path) -> None:
    said = set()
    for way in WIRES:
        model = model_of(way, address)
        async with runtime(tmp_path, teller(model, 16)) as rt:
            said.add((await answer(rt, way, "Say hello.")).text)
        await model.aclose()  # type: ignore[attr-defined]  # adapters have it, the port has not
    assert len(said) == 1


async def test_a_tool_is_called_with_arguments_of_its_schema(model: Model, tmp_path: Path) -> None:
    station = Station()
    async with runtime(tmp_path, forecaster(model, station)) as rt:
        result = await answer(rt, "s", "Write <tool_call> for the weather in Paris.")

    (called,) = result.tool_calls
    assert (called.name, called.outcome.status) == ("weather", "ok")
    city, days = called.args["city"], called.args["days"]
    assert city in ("Paris", "Rome")
    assert type(days) is int
    assert station.asked == [(city, days)]
    assert result.usage.calls == 2  # the second was told the result, and ended the turn


async def test_a_cancelled_turn_stops_the_model_and_the_session_goes_on(
    model: Model, way: str, address: str, tmp_path: Path
) -> None:
    async with runtime(tmp_path, teller(model, 400)) as rt:
        seen = []
        async with rt.session("s").stream(STORY) as turn:
            async for event in turn:
                seen.append(event)
                if isinstance(event, TextDelta):
                    await turn.handle.cancel("enough")
            result = await turn.result(timeout=HANGS_S)
        if way in WIRES:
            await until(lambda: not _is_busy(address))
        after = await answer(rt, "s", "Say hello.", generation=Generation(max_output_tokens=8))

    assert result.outcome == Stopped(reason="cancelled", detail="enough")
    assert any(isinstance(event, Retracted) for event in seen)
    assert result.text == ""
    assert after.text


def test_a_turn_killed_in_the_middle_of_a_reply_is_finished_by_another_process(
    way: str, address: str, tmp_path: Path
) -> None:
    with _process("begin", way, address, tmp_path) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "shown\n"
        worker.kill()
    with _process("finish", way, address, tmp_path) as other:
        told, _ = other.communicate(timeout=HANGS_S)

    assert other.returncode == 0
    resumed, whole, roles, calls, lost, ended = json.loads(told)
    assert resumed == whole != "", ended
    assert roles == ["user", "assistant"]
    assert (calls, lost) == (1, 0)


def _process(step: str, way: str, address: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.models.local_process", step, way, address, str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _is_busy(address: str) -> bool:
    with urllib.request.urlopen(f"{address}/slots") as answer:
        return any(slot["is_processing"] for slot in json.load(answer))
