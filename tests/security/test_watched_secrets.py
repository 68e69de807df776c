"""What plugins take out, and registered secrets, are never seen from another process, at any moment of a turn.

A slow plugin replaces secrets in what a person says, in replies and in results. Replies and results are recorded before
it has looked at them, and a turn may stand there for long, or die. The driving process is stopped before and after each
write and in the middle of each hook; meanwhile another process reads all there is to read.

Before facts were folded, views of a turn in flight and `windlass tail` showed the rows of its journal as they were: this
test was red from the first hook on. `windlass show --journal` still does, for an operator, and is not read here.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from tests.durability.soak.lives import ROOT, Nursery
from tests.limits import HANGS_S
from tests.security.stepped.agent import GONE, HOOKS, SECRETS
from tests.security.test_secrets_at_rest import traces

_MODULE = "tests.security.stepped.nursery"


class Seen(NamedTuple):
    """A secret that was seen: which, in which spelling, where the turn stood."""

    secret: str
    spelling: str
    where: str


def seen_in(text: bytes, where: str) -> set[Seen]:
    """Return the secrets that a text shows."""
    return {
        Seen(name, spelling, where)
        for name, secret in SECRETS.items()
        for spelling, trace in traces(secret).items()
        if trace in text
    }


class Driver:
    """The driving process, stopped again and again."""

    def __init__(self, file: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.security.stepped.driver", str(file), *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=HANGS_S)

    def stops(self) -> Iterator[str]:
        """Yield where it stands; it goes on when the next one is asked for."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        while where := self._process.stdout.readline().strip():
            yield where
            self._process.stdin.write("\n")
            self._process.stdin.flush()


class Reader:
    """Reads in a new process, as often as asked to."""

    def __init__(self, file: Path, fault: str = "") -> None:
        self._file = file
        self._out = file.with_name("read")
        self._log = file.with_name("reader.log")
        self._fault = fault
        self._nursery = Nursery(self._log, _MODULE)
        self.told = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._nursery.__exit__()

    def read(self, where: str) -> set[Seen]:
        """Read everything; return the secrets among it."""
        self._nursery.start("read", str(self._file), str(self._out), self._fault)
        code, self.told = self._nursery.ended(), self._out.read_bytes()
        assert code == 0, self._log.read_text() + self.told.decode()
        return seen_in(self.told, where)


class Watching:
    """A process that watches from before the turn until it has ended."""

    def __init__(self, file: Path) -> None:
        self._out = file.with_name("watched")
        self._nursery = Nursery(file.with_name("watching.log"), _MODULE)
        self._nursery.start("watch", str(file), str(self._out))
        deadline = time.monotonic() + HANGS_S
        while not all(what in self._told() for what in (b"the session\n", b"the store\n")):
            assert time.monotonic() < deadline, self._told()
            time.sleep(0.002)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._nursery.__exit__()

    def _told(self) -> bytes:
        return self._out.read_bytes() if self._out.exists() else b""

    def to_the_end(self) -> bytes:
        """Return all that it has seen."""
        assert self._nursery.ended() == 0, self._told()
        return self._told()


def missing_in(text: bytes) -> list[str]:
    """Return what should stand in the place of secrets, and does not."""
    return [name for name, word in GONE.items() if word.encode() not in text]


@pytest.mark.slow
def test_no_secret_is_seen_from_another_process_at_any_moment_of_a_turn(tmp_path: Path) -> None:
    file, stops, found = tmp_path / "w.db", list[str](), set[Seen]()
    with Watching(file) as watching, Reader(file) as reader:
        with Driver(file) as driver:
            for where in driver.stops():
                stops.append(where)
                found |= reader.read(f"{len(stops)}: {where}")
        watched = watching.to_the_end()

    assert found == set()
    assert seen_in(watched, "while it is watched") == set()
    assert {where for where in stops if where.startswith("in ")} == {f"in {hook}" for hook in HOOKS}
    assert stops[-1] == "over"
    assert len(stops) > 60
    # They did read: what was left in the place of each secret is there. No fact tells what a turn was asked.
    assert (missing_in(reader.told), missing_in(watched)) == ([], ["on_input"])


@pytest.mark.slow
def test_no_secret_is_seen_of_a_turn_whose_driver_died_in_a_hook(tmp_path: Path) -> None:
    """Each driver gets one hook further than the one before it, and is killed there."""
    file, died_in, found = tmp_path / "w.db", set[str](), set[Seen]()
    where = ""
    with Reader(file) as reader:
        while where != "over":
            with Driver(file) as driver:
                for where in driver.stops():
                    if where.startswith("in ") and where not in died_in:
                        break
            found |= reader.read(f"died {where}")
            died_in.add(where)

    assert found == set()
    assert died_in == {"over", *(f"in {hook}" for hook in HOOKS)}
    assert missing_in(reader.told) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "options", "secrets"),
    [
        ("tells_what_is_looked_at", [], {"after_model", "after_tool"}),
        ("tells_what_was_asked", [], {"on_input"}),
        ("", ["unregistered"], {"registered"}),
    ],
)
def test_a_secret_that_is_told_too_early_is_seen(
    tmp_path: Path, fault: str, options: list[str], secrets: set[str]
) -> None:
    """The red proof: what these tests look for can be found."""
    file, found = tmp_path / "w.db", set[Seen]()
    with Reader(file, fault) as reader, Driver(file, *options) as driver:
        for where in driver.stops():
            if where.startswith("in "):
                found |= reader.read(where)
    assert {seen.secret for seen in found} == secrets
