"""`windlass process` and `windlass processes`: background work from the command line, driven by `windlass work`."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.started import COMMAND, clean_environment, values, windlass
from tests.cli.test_reading import documented
from tests.limits import HANGS_S


@contextmanager
def worker(folder: Path) -> Iterator[None]:
    """A worker with the process, for as long as it is needed."""
    done = subprocess.Popen(
        [*COMMAND, "work", "-m", "jobs:order"],
        cwd=folder,
        env=clean_environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert done.stderr is not None
        assert "process order" in done.stderr.readline()
        yield
    finally:
        os.kill(done.pid, signal.SIGTERM)
        done.communicate(timeout=HANGS_S)


def one(folder: Path, *args: str) -> Any:  # noqa: ANN401 - JSON
    (found,) = values(windlass("process", *args, "--json", cwd=folder))
    return found


def test_a_process_is_started_signalled_and_awaited_while_a_worker_drives_it(
    tmp_path: Path,
) -> None:
    with worker(tmp_path):
        begun = windlass(
            "process",
            "start",
            "order",
            "--as",
            "o-1",
            "--args",
            '{"customer": "ann"}',
            cwd=tmp_path,
        )
        assert begun.stdout == "started o-1; a worker that has order drives it\n"
        late = windlass("process", "result", "o-1", "--timeout", "0", cwd=tmp_path)
        assert (late.returncode, "it goes on" in late.stdout) == (3, True)
        first = one(tmp_path, "signal", "o-1", "paid", "9", "--key", "evt-1")
        again = one(tmp_path, "signal", "o-1", "paid", "9", "--key", "evt-1")
        result = windlass("process", "result", "o-1", cwd=tmp_path)
        status = one(tmp_path, "status", "o-1")
        shown = windlass("process", "status", "o-1", cwd=tmp_path).stdout

    assert (first["status"], again["status"]) == ("accepted", "known")
    assert set(first) == documented("`process`, other actions")
    assert result.stdout == '{"customer":"ann","paid":9}\n'
    assert (status["state"], status["record"]) == ("done", {"ordered": "ann"})
    assert 'ordered: "ann"' in shown


def test_a_process_is_listed_handed_over_cancelled_and_deleted(tmp_path: Path) -> None:
    windlass("run", "hello", "--session", "chat", "--model", "demo", cwd=tmp_path)
    args = ("--args", '{"customer": "bob"}')
    windlass("process", "start", "order", "--as", "o-2", *args, cwd=tmp_path)
    conflict = windlass("process", "start", "order", "--as", "o-2", cwd=tmp_path)
    assert (conflict.returncode, "process o-2" in conflict.stderr) == (2, True)

    (listed,) = values(windlass("processes", "--json", cwd=tmp_path))
    assert (listed["id"], listed["name"], listed["state"]) == ("o-2", "order", "queued")
    assert set(listed) == documented("`processes`, `process status`")
    assert set(one(tmp_path, "start", "order", "--as", "o-2", *args)) == documented(
        "`process start`"
    )
    assert windlass("processes", "--session", "chat", cwd=tmp_path).stdout == "no processes\n"
    windlass("process", "transfer", "o-2", "chat", cwd=tmp_path)
    assert "o-2" in windlass("processes", "--session", "chat", cwd=tmp_path).stdout

    assert one(tmp_path, "cancel", "o-2", "--reason", "no stock")["status"] == "requested"
    with worker(tmp_path):
        failed = windlass("process", "result", "o-2", cwd=tmp_path)
        assert (failed.returncode, failed.stdout) == (1, "process o-2: cancelled: no stock\n")
        assert windlass("process", "delete", "o-2", cwd=tmp_path).returncode == 0
    gone = windlass("process", "status", "o-2", cwd=tmp_path)
    assert (gone.returncode, "process o-2: was deleted" in gone.stderr) == (2, True)


def test_wrong_words_say_what_was_wanted(tmp_path: Path) -> None:
    windlass("run", "hello", "--session", "chat", "--model", "demo", cwd=tmp_path)
    for words, said in (
        (("signal", "o"), "wanted the name of the signal, and JSON"),
        (("signal", "o", "paid", "{"), "payload: not valid JSON"),
        (("start", "order", "--args", "{"), "args: not valid JSON"),
        (("start", "order", "--args", "[1]"), "args: found list, wanted a JSON object"),
        (("status", "o", "more"), "wanted no more words"),
        (("status", "o"), "process o: is not known"),
        (("dance", "o"), "action"),
    ):
        done = windlass("process", *words, cwd=tmp_path)
        assert done.returncode == 2, words
        assert said.lower() in done.stderr.lower(), words
