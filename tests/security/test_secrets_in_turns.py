"""A registered secret is in no turn: what is used is what is recorded, so a turn that was killed goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.limits import HANGS_S
from tests.scenarios.stage import STORES, Desk, Stage
from tests.security.blabbing import everything, scenario
from tests.security.keyed_process import HALTS, KEY, NAME
from tests.security.test_secrets_at_rest import found_in
from windlass import Agent, Attachment, Runtime, ToolContext, tool
from windlass.errors import InvalidInput, Rejected
from windlass.guards import Secret, register_secret
from windlass.guards.secret import REGISTERED
from windlass.kernel import ModelReply
from windlass.kernel.messages import Reasoning
from windlass.kernel.outcomes import Stopped
from windlass.ports.plugin import CommittedTurn, Plugin
from windlass.testing import ScriptedModel, call, kill_everywhere, say

PROCESS = Path(__file__).with_name("keyed_process.py")
ENDS = f"The key is [{NAME}], and {KEY[:8]} is its beginning."


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, PROCESS, folder / "store" / "a.db", folder / "log", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=HANGS_S)
    assert process.returncode == 0, said
    return said


def killed_where_it_halts(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = ""
    while HALTS not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGKILL)
    more, _ = process.communicate(timeout=HANGS_S)
    return said + more


def test_a_key_that_everybody_says_is_nowhere(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()

    said = end(start(tmp_path))

    assert KEY not in said
    assert ENDS in said
    assert found_in(tmp_path / "store", KEY) == []
    ran = (tmp_path / "log").read_text().splitlines()
    assert ran == [f"read /etc/[{NAME}]", f"sign in with [{NAME}]"]


def test_a_turn_with_a_key_that_is_killed_goes_on_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()

    before = killed_where_it_halts(start(tmp_path, "halt"))
    at_rest = found_in(tmp_path / "store", KEY)
    after = end(start(tmp_path))

    assert KEY not in before + after
    assert at_rest == []
    assert found_in(tmp_path / "store", KEY) == []
    assert ENDS in after
    ran = (tmp_path / "log").read_text().splitlines()
    assert ran == [f"read /etc/[{NAME}]", *[f"sign in with [{NAME}]"] * 2]


# --- everybody says it ---------------------------------------------------------------------------


async def test_whoever_says_it_and_wherever_the_process_dies_it_is_nowhere_in_memory() -> None:
    report = await kill_everywhere(scenario)

    assert len(report.points) > 100
    assert report.missed == ()


async def test_whoever_says_it_and_wherever_the_process_dies_no_turn_waits_for_a_person() -> None:
    await kill_everywhere(scenario, store="sqlite", max_points=40)


# --- what people say -----------------------------------------------------------------------------


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return Stage(request.param, tmp_path)


@pytest.fixture
def key() -> Secret:
    return register_secret(Secret(KEY, name=NAME))


async def hand_in(rt: Runtime[Any]) -> None:
    await rt.session("s").submit(f"Use {KEY}.", turn_id="t", prompt=f"Keep {KEY}.")


async def enqueue(rt: Runtime[Any]) -> None:
    await rt.session("s").enqueue(f"Use {KEY}.", key="first")
    again = await rt.session("s").enqueue(f"Use {KEY}.", key="first")
    assert again.known


async def name_a_file(rt: Runtime[Any]) -> None:
    file = Attachment.from_bytes(b"a file", media_type="text/plain", name=f"{KEY}.txt")
    await rt.session("s").submit(["Read it.", file], turn_id="t")


async def cancel(rt: Runtime[Any]) -> None:
    await rt.session("s").submit("Go.", turn_id="t")
    await rt.cancel("s", "t", f"Enough of {KEY}.")
    result = await rt.turn("s", "t").result(timeout=HANGS_S)
    assert result.outcome == Stopped(reason="cancelled", detail=f"Enough of [{NAME}].")


async def deny(rt: Runtime[Any]) -> None:
    result = await rt.session("s").run("Ask.", turn_id="t")
    await rt.deny(result.waits[0].key, reason=f"not with {KEY}", by=f"ann {KEY}")
    assert f"not with [{NAME}]" in str((await rt.turn("s", "t").result(timeout=HANGS_S)).messages)


async def compact(rt: Runtime[Any]) -> None:
    result = await rt.session("s").run("Go.", turn_id="t")
    await rt.deny(result.waits[0].key)
    await rt.turn("s", "t").result(timeout=HANGS_S)
    await rt.session("s").compact(instructions=f"Keep {KEY}.", turn_id="c")


SAYINGS = [hand_in, enqueue, name_a_file, cancel, deny, compact]


@pytest.mark.parametrize("says", SAYINGS)
@pytest.mark.usefixtures("key")
async def test_what_people_say_is_clean_before_it_is_kept(
    stage: Stage, says: Callable[[Runtime[Any]], Awaitable[None]]
) -> None:
    @tool(effect="once", approval="ask")
    def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([call("pay"), *[say("Done.")] * 3])
    async with stage.runtime(Agent("clerk", model=model, tools=[pay])) as rt:
        await says(rt)
        kept = await everything(rt, "t", "c")

    assert KEY not in kept
    assert KEY not in str(model.requests)
    assert found_in(stage.path.parent, KEY) == []


@pytest.mark.usefixtures("key")
async def test_a_file_with_a_secret_is_refused(stage: Stage) -> None:
    agent = Agent("clerk", model=ScriptedModel([say("Done.")]))
    async with stage.runtime(agent) as rt:
        with pytest.raises(InvalidInput, match="a registered secret") as refusal:
            await rt.session("s").run([Attachment.from_bytes(f"a {KEY}".encode())])

    assert KEY not in str(refusal.value)


# --- what models say -----------------------------------------------------------------------------


@pytest.mark.usefixtures("key")
async def test_what_a_provider_signed_stays_unless_the_secret_is_in_it(stage: Stage) -> None:
    thoughts = (
        Reasoning(text="I have seen a key.", replay={"signature": "c2lnbmVk"}),
        Reasoning(text=f"It is {KEY}.", replay={"thinking": f"It is {KEY}.", "signature": "Zg=="}),
    )
    model = ScriptedModel([ModelReply(text=f"Not {KEY}.", parts=thoughts)])
    async with stage.runtime(Agent("clerk", model=model)) as rt:
        result = await rt.session("s").run("Go.")

    found = [part for part in result.messages[-1].parts if isinstance(part, Reasoning)]
    assert found == [thoughts[0], Reasoning(text=f"It is [{NAME}].")]
    assert result.text == f"Not [{NAME}]."


@pytest.mark.usefixtures("key")
async def test_what_a_model_fails_with_is_clean(stage: Stage) -> None:
    model = ScriptedModel([Rejected(f"{KEY} is not allowed")])
    async with stage.runtime(Agent("clerk", model=model)) as rt:
        turn = await rt.session("s").collect("Go.", turn_id="t")
        kept = await everything(rt, "t")

    assert f"[{NAME}] is not allowed" in str(turn)
    assert KEY not in f"{turn} {kept}"


# --- what is logged ------------------------------------------------------------------------------


@pytest.mark.usefixtures("key")
async def test_what_user_code_raises_is_logged_clean(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Plugin):
        name = "failing"

        async def after_commit(self, ended: CommittedTurn) -> None:
            raise ValueError(f"no {KEY} after {ended.turn_id}")

    agent = Agent("clerk", model=ScriptedModel([say("Done.")]), plugins=[Failing()])
    async with stage.runtime(agent) as rt:
        await rt.session("s").run("Go.", turn_id="t")

    assert f"ValueError: no [{NAME}] after t" in caplog.text
    assert KEY not in caplog.text


# --- who knows it, and when ----------------------------------------------------------------------


async def test_a_turn_that_was_accepted_where_nobody_knew_the_secret_is_clean_from_its_start(
    stage: Stage,
) -> None:
    """The request stays as it was kept. What the turn makes of it is clean, also after two kills."""
    desk = Desk(is_open=False)

    def clerk(desk: Desk) -> Agent[None, str]:
        @tool(effect="idempotent")
        async def work(ctx: ToolContext[None]) -> str:
            """Work."""
            await desk.work(str(ctx.messages))
            return KEY

        script = [call("work"), say(f"It is {KEY}."), call("work"), say("Done.")]
        return Agent("clerk", model=ScriptedModel(script), tools=[work])

    async with stage.runtime(clerk(Desk()), worker=False) as submitting:
        await submitting.session("s").submit(f"Use {KEY}.", turn_id="t")
    register_secret(Secret(KEY, name=NAME))
    async with stage.runtime(clerk(desk)) as first:
        await desk.entered.wait()
        stage.kill(first)
        async with stage.runtime(clerk(Desk())) as second:
            result = await second.turn("s", "t").result(timeout=HANGS_S)
            history = await second.session("s").history()
        desk.gate.set()

    assert KEY not in "".join(desk.runs)
    assert result.text == f"It is [{NAME}]."
    assert KEY not in f"{result.messages} {history}"


async def test_a_secret_that_another_process_does_not_know_stops_no_turn(stage: Stage) -> None:
    desk = Desk(is_open=False)
    register_secret(Secret(KEY, name=NAME))

    def clerk(desk: Desk) -> Agent[None, str]:
        @tool(effect="idempotent")
        async def work(about: str) -> str:
            """Work."""
            await desk.work(about)
            return "worked"

        return Agent(
            "clerk", model=ScriptedModel([call("work", about=KEY), say("Done.")]), tools=[work]
        )

    async with stage.runtime(clerk(desk)) as first:
        await first.session("s").submit(f"Use {KEY}.", turn_id="t")
        await desk.entered.wait()
        stage.kill(first)
        REGISTERED.know(())
        again = Desk()
        async with stage.runtime(clerk(again)) as second:
            result = await second.turn("s", "t").result(timeout=HANGS_S)
        desk.gate.set()

    assert result.text == "Done."
    assert desk.runs == again.runs == [f"[{NAME}]"]
