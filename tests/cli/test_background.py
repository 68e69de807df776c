"""Children, schedules and triggers from the command line, with `windlass work` of a whole module beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.started import COMMAND, clean_environment, values, windlass
from tests.cli.test_reading import documented
from tests.limits import HANGS_S

_PAY = 'pay {"to": "landlord"}'
_ASK_CLERK = f"ask_clerk {json.dumps({'task': _PAY})}"
ASK = f"ask_manager {json.dumps({'task': _ASK_CLERK})}"


class Worker:
    """`windlass work --json` with a whole module."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "work", *(words or ("-m", "office")), "--json"],
            cwd=folder,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            text=True,
        )

    def until(self, event: str, of: str = "") -> dict[str, Any]:
        """Read until an event of a turn whose id begins so."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            found: dict[str, Any] = json.loads(text)
            if found["event"] == event and found.get("turn", "").startswith(of):
                return found
        raise AssertionError(f"no {event}")


@contextmanager
def worker(folder: Path, *words: str) -> Iterator[Worker]:
    begun = Worker(folder, *words)
    try:
        yield begun
    finally:
        os.kill(begun.process.pid, signal.SIGTERM)
        begun.process.communicate(timeout=HANGS_S)


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """A folder with a turn three levels deep, whose leaf waits for an approval."""
    done = windlass(
        "run", ASK, "-m", "office:boss", "--session", "ada", "--turn", "t1", cwd=tmp_path
    )
    assert done.returncode == 3, done.stderr
    return tmp_path


def shown(folder: Path, *words: str) -> list[str]:
    """What a command prints for people, at 80 columns."""
    done = windlass(*words, cwd=folder, env=clean_environment(COLUMNS="80"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    return lines


# ---------------------------------------------------------------------- children


def test_children_are_a_tree_with_what_to_type_next(family: Path) -> None:
    lines = shown(family, "children", "ada")
    first, second = values(windlass("children", "ada", "--json", cwd=family))
    (wait,) = second["waits"]

    assert lines == [
        "ada",
        "└── ask_manager (manager)  parked",
        f"    {first['session']}",
        "    └── ask_clerk (clerk)  parked",
        f"        {second['session']}",
        "        └── waits (approval): Run pay?",
        f"            windlass approve {wait['key'][:14]}",
    ]
    assert set(first) == set(second) == documented("`children`")
    assert (first["parent"], first["depth"], first["agent"]) == ("ada", 1, "manager")
    assert (second["parent"], second["depth"], second["state"]) == (first["session"], 2, "parked")


def test_what_is_to_be_typed_next_lets_the_tree_end(family: Path) -> None:
    (command,) = [line.split() for line in shown(family, "children", "ada") if "approve" in line]
    assert windlass(*command[1:], cwd=family).returncode == 0
    with worker(family, "-m", "office:boss") as begun:
        begun.until("turn_ended", "t1")
    lines = shown(family, "children", "ada")
    first, second = values(windlass("children", "ada", "--json", cwd=family))

    assert (family / "paid.txt").read_text(encoding="utf-8") == "landlord\n"
    assert [line.split("  ")[-1] for line in lines if "(" in line] == ["finished", "finished"]
    assert "        └── pay answered paid landlord." in lines
    assert (first["state"], second["text"]) == ("idle", "pay answered paid landlord.")


def test_a_session_without_children_says_so_and_one_that_is_not_there_is_refused(
    tmp_path: Path,
) -> None:
    windlass("run", "1 + 1", "--model", "demo", "--session", "s", cwd=tmp_path)
    gone = windlass("children", "nobody", cwd=tmp_path)

    assert shown(tmp_path, "children", "s") == ["s has begun no sessions"]
    assert windlass("children", "s", "--json", cwd=tmp_path).stdout == ""
    assert (gone.returncode, gone.stderr.count("\n")) == (2, 1)


def test_a_turn_with_children_is_shown_as_a_tree(family: Path) -> None:
    lines = shown(family, "show", "ada", "--turn", "t1")
    (found,) = values(windlass("show", "ada", "--turn", "t1", "--json", cwd=family))
    (manager,) = found["children"]
    (clerk,) = manager["children"]
    (wait,) = clerk["waits"]

    assert lines[0] == "t1  parked, unfinished  boss"
    assert lines[-6:] == [
        "    └── ask_clerk (clerk)  parked",
        f"        {clerk['session']}",
        f"        ├── user {_PAY}",
        '        ├── assistant → pay(to="landlord")',
        "        └── waits (approval): Run pay?",
        f"            windlass approve {wait['key'][:14]}",
    ]
    assert set(manager) == set(clerk) == documented("`show --turn`")
    assert (manager["agent"], clerk["agent"], clerk["state"]) == ("manager", "clerk", "parked")
    told = "waits (child): ask_manager works  windlass children ada"
    assert shown(family, "show", "ada")[-1].endswith(told)


# ---------------------------------------------------------------------- processes


def test_a_process_that_sleeps_is_shown_step_by_step(tmp_path: Path) -> None:
    with worker(tmp_path, "-m", "office:rest") as begun:
        begun.until("worker_started")
        (started,) = values(windlass("process", "start", "rest", "--json", cwd=tmp_path))
        begun.until("turn_parked")
    place = ("show", started["session_id"], "--turn", "run")
    (found,) = values(windlass(*place, "--json", cwd=tmp_path))

    assert shown(tmp_path, *place) == [
        "run  parked, unfinished  process:rest",
        r'├── stage "\u001b[31mlooking"',
        "├── look ok: looked at the mail",
        "└── waits (timer): process:rest sleeps, in 1 d",
    ]
    assert found["events"] == [
        {"name": "stage", "value": "\x1b[31mlooking"},
        {"step": "look", "status": "ok", "value": "looked at the mail"},
    ]
    assert [(each["kind"], each["state"]) for each in found["waits"]] == [("timer", "open")]


# ---------------------------------------------------------------------- a worker


def test_a_worker_takes_all_that_a_module_has(tmp_path: Path) -> None:
    with worker(tmp_path) as begun:
        came = begun.until("worker_started")
        start = ("process", "start", "sign", "--as", "s-1", "--args", '{"name": "ann"}')
        assert windlass(*start, cwd=tmp_path).returncode == 0
        result = windlass("process", "result", "s-1", cwd=tmp_path)

    assert result.stdout == "signed by ann\n"
    assert came["agents"] == ["clerk", "manager", "boss"]
    assert (came["processes"], came["schedules"]) == (["rest", "sign"], ["digest", "tidy"])
    assert came["sources"] == ["orders"]


def test_a_module_without_anything_to_drive_is_refused(tmp_path: Path) -> None:
    done = windlass("work", "-m", "json", cwd=tmp_path)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "found the module json, wanted an Agent" in done.stderr
    assert "module:name" in windlass("run", "hello", "-m", "office", cwd=tmp_path).stderr


def test_people_read_what_is_at_work_before_its_id(tmp_path: Path) -> None:
    windlass("run", "1 + 1", "--model", "demo", "--session", "s", cwd=tmp_path)
    (started,) = values(windlass("process", "start", "rest", "--as", "r-1", "--json", cwd=tmp_path))
    with subprocess.Popen(
        [*COMMAND, "work", "-m", "office:rest"],
        cwd=tmp_path,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        told = [process.stdout.readline().partition("  ")[2] for _ in range(2)]
        process.terminate()
        process.communicate(timeout=HANGS_S)

    assert told == [
        f"process:rest r-1  started in {started['session_id']}\n",
        "process:rest r-1  waits (timer): process:rest sleeps, in 1 d\n",
    ]


# ---------------------------------------------------------------------- schedules


@pytest.fixture
def scheduled(tmp_path: Path) -> Path:
    """A folder with schedules that a worker has brought."""
    with worker(tmp_path) as begun:
        begun.until("worker_started")
    return tmp_path


def schedules(folder: Path) -> dict[str, Any]:
    return {one["name"]: one for one in values(windlass("schedules", "--json", cwd=folder))}


def test_schedules_are_listed(scheduled: Path) -> None:
    heads, digest, tidy = shown(scheduled, "schedules")
    found = schedules(scheduled)

    assert heads.split() == ["name", "when", "zone", "next", "last", "state", "missed"]
    assert digest.startswith("digest  0 7 * * 1-5  Europe/Berlin  20")
    assert (tidy.startswith("tidy    every 30 d "), tidy.split()[-1]) == (True, "waits")
    assert all(set(each) == documented("`schedules`, for each") for each in found.values())
    assert (found["digest"]["tz"], found["tidy"]["every_ms"]) == ("Europe/Berlin", 2_592_000_000)


def test_a_schedule_is_paused_resumed_run_and_removed(scheduled: Path) -> None:
    paused = shown(scheduled, "schedule", "pause", "tidy")
    assert paused == ["tidy: paused; to go on: windlass schedule resume tidy"]
    assert "paused" in shown(scheduled, "schedules")[2]
    assert (schedules(scheduled)["tidy"]["paused"], schedules(scheduled)["tidy"]["next_ms"]) == (
        True,
        None,
    )
    (resumed,) = values(windlass("schedule", "resume", "tidy", "--json", cwd=scheduled))
    assert resumed["next_ms"] == schedules(scheduled)["tidy"]["next_ms"] is not None

    (run,) = values(windlass("schedule", "run", "tidy", "--json", cwd=scheduled))
    assert set(run) == set(resumed) == documented("`schedule`")
    assert schedules(scheduled)["tidy"]["running"] == 1
    with worker(scheduled) as begun:
        ended = begun.until("turn_ended", run["turn"])
    assert (ended["session"], ended["outcome"]["value"]) == (run["session"], "tidied")
    assert (scheduled / "tidied.txt").read_text(encoding="utf-8") == "tidy\n"

    assert windlass("schedule", "remove", "tidy", cwd=scheduled).returncode == 0
    assert list(schedules(scheduled)) == ["digest"]


def test_a_store_without_schedules_and_events_says_so(tmp_path: Path) -> None:
    windlass("run", "1 + 1", "--model", "demo", "--session", "s", cwd=tmp_path)

    assert shown(tmp_path, "schedules") == ["no schedules"]
    assert shown(tmp_path, "triggers") == ["no events"]
    assert shown(tmp_path, "triggers", "orders") == ["no events of orders"]


# ---------------------------------------------------------------------- triggers


def emit(folder: Path, event: str, *words: str) -> Any:  # noqa: ANN401 - JSON
    (found,) = values(windlass("trigger", "emit", "orders", event, *words, "--json", cwd=folder))
    return found


def test_an_event_is_emitted_once_and_delivered_by_a_worker(scheduled: Path) -> None:
    large, small = '{"id": "o-1", "eur": 900}', '{"id": "o-2", "eur": 5}'
    first, again = (emit(scheduled, large, "--key", "evt-1") for _ in range(2))
    bad = emit(scheduled, '{"no": "order"}', "--key", "evt-2")
    assert (first["status"], again["status"], first["id"]) == ("accepted", "known", again["id"])
    assert set(first) == documented("`trigger`")
    (waiting,) = values(windlass("triggers", "--json", cwd=scheduled))
    assert (waiting["pending"], waiting["subscribers"]) == (2, [])

    with worker(scheduled) as begun:
        begun.until("turn_ended", bad["id"])
        last = emit(scheduled, small, "--key", "evt-3", "-m", "office:orders")
        begun.until("turn_ended", last["id"])
        # Deliveries are turns of their own, which end after the event is delivered.
        while len(shipped(scheduled)) < 2:
            assert begun.process.poll() is None
    found = values(windlass("triggers", "orders", "--json", cwd=scheduled))
    (source,) = values(windlass("triggers", "--json", cwd=scheduled))
    lines = shown(scheduled, "triggers", "orders")

    assert [(one["key"], sorted(one["delivered"])) for one in found] == [
        ("evt-3", ["ship"]), ("evt-2", []), ("evt-1", ["review", "ship"]),
    ]  # fmt: skip
    assert sorted(shipped(scheduled)) == ["o-1", "o-2"]
    assert all(set(one) == documented("`triggers SOURCE`") for one in found)
    assert set(source) == documented("`triggers`")
    assert (source["subscribers"], source["last"]["key"]) == (["review", "ship"], "evt-3")
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [
        "key", "evt-3", "evt-2", "evt-1",
    ]  # fmt: skip
    assert "source orders: event" in "\n".join(lines)


def shipped(folder: Path) -> list[str]:
    file = folder / "shipped.txt"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trigger", "emit", "orders", "{"), "event: not valid JSON"),
        (("trigger", "emit", "orders", '{"id": 1}', "-m", "office:orders"), "event.id: found int"),
        (("trigger", "emit", "orders", "{}", "-m", "office:boss"), "wanted a Source"),
        (("trigger", "emit", "no name", "{}"), "source"),
        (("trigger", "send", "orders", "{}"), "action"),
        (("triggers", "no name"), "source"),
        (("schedule", "pause", "nothing"), "wanted the name of a schedule"),
        (("schedule", "start", "tidy"), "action"),
    ],
)
def test_wrong_words_are_refused_in_one_line(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    windlass("run", "1 + 1", "--model", "demo", "--session", "s", cwd=tmp_path)
    done = windlass(*words, cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr.lower() or said in done.stderr
    assert windlass("triggers", "orders", "--json", cwd=tmp_path).stdout == ""
