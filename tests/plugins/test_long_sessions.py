"""Long sessions: 500 turns of anything, and every request has room, is valid, and costs what the first ones cost.

Each turn follows from a seed: outputs of up to 1 MiB, pictures, parallel calls, approvals that stay open while others
talk, words on the way, cancels, and processes that die. What has to hold is in `long_sessions/judge.py`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.plugins.long_sessions.blocks import Block, block, check_flat
from tests.plugins.long_sessions.gauges import MeasuredStage
from tests.plugins.long_sessions.journey import Journey, Setting
from tests.plugins.long_sessions.office import plugins, window_of
from tests.plugins.long_sessions.tokenizer import Tokenizer
from tests.scenarios.stage import Stage
from windlass.kernel import HistoryView, ModelRequest, ToolResult
from windlass.kernel.tokens import tokens_of
from windlass.plugins import ContextWindow, Plugin, PluginTurn

TURNS = 500
BLOCK = 100
COUNTED = 10

# What the last turns may cost more than the first. The log is written in pages, of which a larger file has more layers.
MOST_ROW_BYTES = 1.1
MOST_LOG_BYTES = 1.25
MOST_INSTRUCTIONS = 1.15

# How often it has to have happened in 100 turns, at least.
OFTEN = {
    "requests": 250,
    "compactions": 10,
    "clear edge moved": 5,
    "requests with cleared": 40,
    "requests with cut": 40,
    "requests with shortened JSON": 5,
    "calls": 150,
    "plain": 40,
    "approval": 2,
    "queued": 4,
    "steered": 2,
    "cancelled": 2,
}


async def judged(journey: Journey, often: dict[str, int]) -> None:
    """Let a journey end, look at all that it left, and see that it was not about nothing."""
    await journey.arrive()
    nodes = await journey.session.nodes()
    history = await journey.session.history()
    journey.judge.look_at_history(nodes)
    counts = journey.ledger.counts
    assert journey.ledger.faults == []
    assert len(history) == sum(hasattr(node.body, "message") for node in nodes)
    assert await journey.rt.approvals() == ()
    seldom = {what: counts[what] for what, n in often.items() if counts[what] * 100 < n * journey.n}
    assert seldom == {}


def check_bytes(first: Block, last: Block) -> None:
    rows, more_rows = first.row_bytes_per_turn, last.row_bytes_per_turn
    check_flat("bytes in rows of a turn", rows, more_rows, MOST_ROW_BYTES)
    logged, more_logged = first.log_bytes_per_turn, last.log_bytes_per_turn
    check_flat("bytes in the log of a turn", logged, more_logged, MOST_LOG_BYTES)


def check_instructions(first: Block, last: Block) -> None:
    before, after = first.instructions_per_request, last.instructions_per_request
    check_flat("instructions of a request", before, after, MOST_INSTRUCTIONS)


def in_one_frame() -> list[Plugin]:
    """Return the plugins with a compaction that never comes: the window alone keeps the requests short."""
    return plugins(compact_at=1.0)


# --- the property ------------------------------------------------------------------------------


@pytest.mark.slow
async def test_in_500_turns_every_request_has_room_and_the_last_cost_what_the_first_did(
    tmp_path: Path,
) -> None:
    setting = Setting(seed="harbour", period=BLOCK)
    async with Journey(Stage("memory", tmp_path), setting) as journey:
        await journey.go(BLOCK // 2)
        first = await block(journey, BLOCK // 2, COUNTED)
        await journey.go(TURNS - BLOCK - BLOCK // 2)
        last = await block(journey, BLOCK // 2, COUNTED)
        await judged(journey, OFTEN)

    check_instructions(first, last)


@pytest.mark.slow
async def test_500_turns_in_a_file_write_no_more_at_the_end_than_at_the_beginning(
    tmp_path: Path,
) -> None:
    setting = Setting(seed="estuary", period=BLOCK)
    async with MeasuredStage(tmp_path) as stage, Journey(stage, setting) as journey:
        first = await block(journey, BLOCK)
        await journey.go(TURNS - 2 * BLOCK)
        last = await block(journey, BLOCK)
        await judged(journey, OFTEN)

    check_bytes(first, last)


async def test_a_frame_that_is_never_summed_up_costs_no_more_however_long_it_is(
    tmp_path: Path,
) -> None:
    setting = Setting(seed="canal", period=40, most_bytes=20_000, plugins=in_one_frame)
    async with MeasuredStage(tmp_path) as stage, Journey(stage, setting) as journey:
        await journey.go(40)
        first = await block(journey, 40, COUNTED)
        await journey.go(40)
        last = await block(journey, 40, COUNTED)
        often = {"requests": 250, "clear edge moved": 3, "drop edge moved": 3}
        await judged(journey, often)
        assert journey.ledger.counts["compactions"] == 0

    check_bytes(first, last)
    check_instructions(first, last)


COUNTS = {
    "far less than estimated": Tokenizer(0.7, 0.75),
    "far more than estimated": Tokenizer(1.25, 1.3),
    "words less, all else more": Tokenizer(0.7, 1.3, by_kind=True),
}


@pytest.mark.parametrize("counts", COUNTS)
async def test_however_a_provider_counts_every_request_has_room(
    counts: str, tmp_path: Path
) -> None:
    setting = Setting(seed=f"dock {counts}", tokenizer=COUNTS[counts])
    async with Journey(Stage("memory", tmp_path), setting) as journey:
        await journey.go(60)
        await judged(journey, {"requests": 250, "compactions": 5})


@pytest.mark.parametrize(("kind", "n_turns"), [("memory", 100), ("sqlite", 150)])
async def test_processes_that_die_on_the_way_change_none_of_it(
    kind: str, n_turns: int, tmp_path: Path
) -> None:
    setting = Setting(seed="storm", kill_every=20)
    async with Journey(Stage(kind, tmp_path), setting) as journey:
        await journey.go(n_turns)
        await judged(journey, {"kills": 5, "requests": 250, "compactions": 10, "approval": 2})


# --- the faults that turn it red ---------------------------------------------------------------


class Unclearing(ContextWindow):
    """Shows outputs that it said it would clear."""

    async def view(self, turn: PluginTurn) -> HistoryView | None:
        view = await super().view(turn)
        return None if view is None else msgspec.structs.replace(view, clear_before=None)


class Listing(ContextWindow):
    """Names every message that is not shown, instead of the first that is."""

    async def view(self, turn: PluginTurn) -> HistoryView | None:
        view = await super().view(turn)
        if view is None:
            return None
        ids = [message.id for message in turn.messages]
        hidden = ids[: ids.index(view.drop_before)] if view.drop_before else []
        return msgspec.structs.replace(view, drop_before=None, drop=tuple(hidden))


class Walking(ContextWindow):
    """Looks at all that ever was, each time."""

    async def view(self, turn: PluginTurn) -> HistoryView | None:
        sum(map(tokens_of, turn.messages))
        return await super().view(turn)


class Parting(Plugin):
    """Leaves out the results of a call."""

    async def before_model(self, turn: PluginTurn, request: ModelRequest) -> ModelRequest | None:
        kept = tuple(m for m in request.messages if not isinstance(m.parts[0], ToolResult))
        if len(kept) in (len(request.messages), 0) or kept[-1].role != "user":
            return None
        return msgspec.structs.replace(request, messages=kept)


async def fault_in(folder: Path, setting: Setting, n_turns: int) -> None:
    async with Journey(Stage("memory", folder), setting) as journey:
        await journey.go(n_turns)
        await judged(journey, {})


def with_window(kind: type[ContextWindow]) -> list[Plugin]:
    return plugins(compact_at=1.0, window=window_of(kind))


async def test_outputs_that_are_not_cleared_are_seen(tmp_path: Path) -> None:
    setting = Setting(seed="canal", plugins=lambda: with_window(Unclearing))
    with pytest.raises(AssertionError, match=r"tokens in 12000"):
        await fault_in(tmp_path, setting, 100)


async def test_a_call_without_its_result_is_seen(tmp_path: Path) -> None:
    setting = Setting(seed="canal", plugins=lambda: [*plugins(), Parting()])
    with pytest.raises(AssertionError, match="a tool_use has one tool_result in the next message"):
        await fault_in(tmp_path, setting, 50)


async def test_a_compaction_that_sweeps_an_approval_away_is_seen(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="its approval is lost"):
        await fault_in(tmp_path, Setting(seed="storm", sweeps=True), 60)


async def blocks_of(stage: Stage, window: type[ContextWindow], n_counted: int) -> list[Block]:
    """Return the second thirty turns, and the last of 150, of a frame that is never summed up."""
    setting = Setting(
        seed="canal", period=30, most_bytes=3_000, plugins=lambda: with_window(window)
    )
    async with Journey(stage, setting) as journey:
        await journey.go(30)
        first = await block(journey, 30, n_counted)
        await journey.go(60)
        return [first, await block(journey, 30, n_counted)]


async def test_a_view_that_names_every_hidden_message_is_seen(tmp_path: Path) -> None:
    async with MeasuredStage(tmp_path) as stage:
        first, last = await blocks_of(stage, Listing, 0)

    with pytest.raises(AssertionError, match="bytes in rows of a turn grew"):
        check_bytes(first, last)


async def test_a_walk_through_the_whole_frame_is_seen(tmp_path: Path) -> None:
    first, last = await blocks_of(Stage("memory", tmp_path), Walking, 5)

    with pytest.raises(AssertionError, match="instructions of a request grew"):
        check_instructions(first, last)
