"""The comparison with peers: everybody has a line, and what cannot be installed says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.peers import catalogue, environments, process
from bench.peers.catalogue import EVERYBODY, FLOOR, HERE, MEMORY_LANGGRAPH, PINS, WINDLASS, Peer
from bench.peers.environments import CannotInstall
from bench.peers.results import Results, table, verdicts
from bench.workloads.script import loop, par

PEERS = Path(catalogue.__file__).parent
STRANDS = next(peer for peer in EVERYBODY if peer.environment == "strands")


def basics(w2_us: float) -> dict[str, Any]:
    gauges = {"wall_us": w2_us, "cpu_us": 1.0, "written": 1.0}
    return {"W1": gauges, "W2": gauges, "W3": gauges}


def test_every_peer_has_its_file_and_its_pins() -> None:
    for peer in EVERYBODY:
        assert (PEERS / f"{peer.module}.py").is_file()
        assert peer.environment == HERE or PINS[peer.environment][0].count("==") == 1


def test_the_durable_peers_are_there() -> None:
    labels = " ".join(peer.label for peer in EVERYBODY)

    for name in (
        "LangGraph",
        "Pydantic AI + DBOS",
        "DBOS, loop",
        "OpenAI",
        "Google ADK",
        "Strands",
    ):
        assert name in labels


def test_a_peer_that_cannot_be_installed_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setitem(PINS, "none", ("windlass-has-no-such-peer==1.0",))
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    with pytest.raises(CannotInstall, match="windlass-has-no-such-peer"):
        environments.python_of("none")

    assert not (tmp_path / "none" / "pins.txt").exists()


def test_what_went_wrong_stands_below_the_table_and_the_line_stays() -> None:
    results = Results()
    results.refused[STRANDS.label] = "ERROR: no such release"
    results.add(FLOOR, "many", {"error": "not done after 240 s"})

    lines = table(results, [FLOOR, STRANDS]).splitlines()
    assert lines[3].startswith(f"| {STRANDS.label}")
    assert results.errors() == [
        f"{STRANDS.label}: not installed: ERROR: no such release",
        f"{FLOOR.label}, many: not done after 240 s",
    ]


def test_a_ratio_is_to_the_floor_of_the_same_round() -> None:
    results = Results()
    for w2_us, floor_us in ((400.0, 100.0), (4_000.0, 1_000.0), (10.0, 1.0)):
        results.add(STRANDS, "basics", basics(w2_us), [{FLOOR.label: basics(floor_us)}] * 2)

    assert " 4.00 " in table(results, [STRANDS])


@pytest.mark.parametrize(("mine", "verdict"), [(1.0, "held"), (1.01, "MISSED")])
def test_the_best_peer_that_stores_each_step_is_the_bar(mine: float, verdict: str) -> None:
    results = Results()
    beside = [{WINDLASS.label: basics(mine)}]
    results.add(STRANDS, "basics", basics(4.0), beside)
    results.add(MEMORY_LANGGRAPH, "basics", basics(1.005), beside)
    not_durable = next(peer for peer in EVERYBODY if peer.label.endswith("end of run"))
    results.add(not_durable, "basics", basics(0.1), beside)

    assert [line.split(": ")[-1] for line in verdicts(results)] == [verdict, verdict]


def test_a_failed_neighbour_does_not_count() -> None:
    results = Results()
    around: list[dict[str, Any]] = [{FLOOR.label: {"error": "gone"}}, {FLOOR.label: basics(2.0)}]
    results.add(STRANDS, "basics", basics(6.0), around)

    assert " 3.00 " in table(results, [STRANDS])


CRASHES = [
    pytest.param(loop(10), 5, True, "yes 0/5, again, 0", id="at once"),
    pytest.param(par(20), 19, False, "yes 0/19, again, 0", id="of 20"),
]


@pytest.mark.parametrize(("plan", "hang_at", "at_once", "said"), CRASHES)
def test_a_killed_floor_runs_its_call_again(
    plan: str,
    hang_at: int,
    at_once: bool,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "FOLDER", tmp_path)
    results = Results()

    results.add(FLOOR, "crash", process.crash(FLOOR, plan, hang_at, at_once=at_once))

    assert results.worst_crash(FLOOR, "crash") == said


def test_one_that_keeps_nothing_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "FOLDER", tmp_path)
    forgetful = Peer("forgetful", HERE, "floor", "memory")
    results = Results()

    results.add(forgetful, "crash", process.crash(forgetful, loop(3), 1, at_once=True))

    assert results.worst_crash(forgetful, "crash") == "no"
