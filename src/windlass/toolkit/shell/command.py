"""One command, run by a keeper: from its start until nothing is left of it.

Law 1. A command runs in a thread and may be stopped from any other; it needs no event loop and no child watcher.
Law 2. What it prints takes bounded memory: the beginning and the end are kept, and what is between is counted.
Law 3. A keeper that is gone, does not answer or says what no keeper says is replaced by a search: every process of the command's session, or with
    its mark in the environment, is ended, and the outcome is uncertain.
Law 4. When `run` returns, the keeper is reaped and its pipes are closed.
Law 5. Nothing that the command does to the keeper's pipes blocks windlass.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from windlass.errors import ToolError, ToolUncertain
from windlass.toolkit.shell import keeper as keeping
from windlass.toolkit.shell.transcript import Transcript

if TYPE_CHECKING:
    import subprocess

_clock = time.monotonic  # noqa: TID251 - limits of a process; nothing stored depends on it

Why: TypeAlias = Literal["exit", "time", "stop", "orphan", "flood", "processes", "memory"]
MARK: Final = "WINDLASS_COMMAND"
"""The variable by which processes of a command are found when their keeper is gone."""
SHELLS: Final = ("/bin/bash", "/bin/sh")
_PATIENCE_S: Final = 5.0  # how late a keeper may be on a machine under load
_PROGRESS_S: Final = 0.5
_CHUNK: Final = 64 * 1024
_LONGEST_REPORT: Final = 4_096
_FAILURES: Final = {
    "fork": "the system has no room for another process",
    "keeper": "its limits could not be set",
    "shell": "the shell could not be run",
    "subreaper": "this system does not let its processes be watched",
}
"""What the words of the keeper mean that say what failed before the command began."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may use."""

    timeout_s: float
    output_bytes: int
    memory_bytes: int
    processes: int
    file_bytes: int

    @property
    def longest_s(self) -> float:
        """How long it may take until a command is over and cleared away, whatever it does."""
        return self.timeout_s + self.ending_s

    @property
    def ending_s(self) -> float:
        """How long it may take to clear it away."""
        return keeping.GRACE_S["time"] + keeping.KILL_S + _PATIENCE_S


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended.

    Attributes:
        why: What ended it; `exit` if it did so itself.
        code: Its exit code; negative is a signal; None if it was not reaped.
        seconds: How long it ran.
        left: How many processes it had left running. They were ended.
        stuck: How many of its processes could not be ended.
    """

    why: Why
    code: int | None
    seconds: float
    left: int
    stuck: int


class _Report(msgspec.Struct, kw_only=True):
    """A line of the keeper: that the command has started, that it could not, why it is being ended, or how it ended."""

    session: int | None = None
    failed: str | None = None
    ending: Why | None = None
    why: Why | None = None
    code: int | None = None
    seconds: float = 0.0
    left: int = 0
    stuck: int = 0


_REPORTS: Final = msgspec.json.Decoder(_Report)


class _ForeignError(Exception):
    """Something else than the keeper wrote into its pipe."""


class Command:
    """A command line with what it may use.

    Args:
        line: What the shell is to run.
        folder: Where.
        env: All that its environment holds.
        bounds: What it may use.
        on_output: Told the newest output from time to time, in the thread that runs the command.
    """

    def __init__(
        self,
        line: str,
        *,
        folder: Path,
        env: Mapping[str, str],
        bounds: Bounds,
        on_output: Callable[[str], None],
    ) -> None:
        self.transcript = Transcript()
        self._line = line
        self._folder = folder
        self._mark = secrets.token_hex(8)
        self._env = {**env, MARK: self._mark}
        self._bounds = bounds
        self._on_output = on_output
        self._lock = threading.Lock()
        self._orders: int | None = None
        self._is_stopped = False
        self._ordered_at: float | None = None
        self._repeat_at = 0.0
        self._session = -1
        self.is_over = threading.Event()

    def stop(self) -> None:
        """End it, from any thread. `run` returns when it is gone."""
        with self._lock:
            self._is_stopped = True
            self._tell("stop")

    def run(self) -> Ended:
        """Run it and return when nothing of it is left.

        Raises:
            ToolError: it could not be started; nothing was done.
            ToolUncertain: its keeper was lost, or windlass failed; what was found of it was ended.
        """
        try:
            if self._is_stopped:
                raise ToolError("The command was stopped before it began.", not_started=True)
            with self._started() as keeper:
                return self._watched(keeper)
        finally:
            self.is_over.set()

    # ------------------------------------------------------------------------------------ its parts

    def _started(self) -> subprocess.Popen[bytes]:
        import subprocess  # noqa: PLC0415 - only what runs a command needs it

        script = [sys.executable, "-I", "-S", keeping.__file__]
        # Where some installations of Python find their own library. Nothing else of the environment is handed on.
        libraries = os.environ.get("LD_LIBRARY_PATH")  # noqa: TID251 - see above
        try:
            return subprocess.Popen(  # noqa: S603 - this very program
                script,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self._folder,
                env={"LD_LIBRARY_PATH": libraries} if libraries else {},
                start_new_session=True,
            )
        except OSError as error:
            if not self._folder.is_dir():
                told = "The folder in which commands run is gone. Nothing was run; tell the person you work for."
            else:
                told = f"The command could not be started ({error.strerror}). Nothing was run."
            raise ToolError(told, not_started=True) from None

    def _order(self) -> bytes:
        bounds = self._bounds
        shell = next((each for each in SHELLS if Path(each).exists()), SHELLS[-1])
        order = {
            "parent": os.getpid(),
            "shell": shell,
            "line": self._line,
            "env": self._env,
            "timeout_s": bounds.timeout_s,
            "memory_bytes": bounds.memory_bytes,
            "max_file_bytes": bounds.file_bytes,
            "max_processes": bounds.processes,
        }
        return msgspec.json.encode(order) + b"\n"

    def _watched(self, keeper: subprocess.Popen[bytes]) -> Ended:
        try:
            try:
                return self._follow(keeper)
            finally:
                self._let_go(keeper)
        except ToolError:
            raise
        except Exception as error:
            # The command may have acted. As a known error this would let a model run it again.
            raise ToolUncertain(
                f"windlass failed while the command ran ({type(error).__name__}). What was found of the command was "
                f"ended, but it is not known how far it came. Its last output:\n{self.transcript.newest()}"
            ) from error

    def _tell(self, word: str) -> None:
        if self._orders is not None:
            with contextlib.suppress(OSError):
                # The command can reach this pipe, too: what stands before an order must not become a part of it.
                os.write(self._orders, b"\n" + word.encode() + b"\n")

    def _follow(self, keeper: subprocess.Popen[bytes]) -> Ended:
        assert keeper.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(BrokenPipeError):
            keeper.stdin.write(self._order())
        # The command can fill this pipe, and stop who empties it.
        os.set_blocking(keeper.stdin.fileno(), False)
        with self._lock:
            self._orders = keeper.stdin.fileno()
            if self._is_stopped:
                self._tell("stop")
        try:
            report = self._listen(keeper)
        except _ForeignError:
            report = _Report()
            # It may be foreign, too, and name a session of others. The mark finds what the keeper does not.
            self._session = -1
        if (report.why or report.failed) is None or not _has_ended_well(keeper):
            self._search(keeper)
            raise ToolUncertain(
                "The process that watches over the command was killed or disturbed. What was found of the command was "
                "ended, but it is not known how far it came. Its last output:\n"
                f"{self.transcript.newest()}"
            )
        if report.why is None:
            failed = _FAILURES.get(report.failed or "", report.failed)
            told = f"The command could not be started: {failed}. Nothing was run."
            raise ToolError(told, not_started=True)
        return Ended(
            why=report.why,
            code=report.code,
            seconds=report.seconds,
            left=report.left,
            stuck=report.stuck,
        )

    def _listen(self, keeper: subprocess.Popen[bytes]) -> _Report:
        """Read the output and the report until both have ended; return the last report, as far as there is one."""
        import selectors  # noqa: PLC0415 - only what runs a command needs it

        assert keeper.stdout is not None  # noqa: S101 - it is a pipe
        assert keeper.stderr is not None  # noqa: S101 - it is a pipe
        last, told, shown_at = _Report(), b"", _clock()
        until = _clock() + self._bounds.longest_s
        reports, output = keeper.stdout.fileno(), keeper.stderr.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(reports, selectors.EVENT_READ)
            selector.register(output, selectors.EVENT_READ)
            while selector.get_map():
                left = self._give_up_at(until, last) - _clock()
                # What lies in the pipes when the time is over counts, too: windlass itself may have been stopped.
                for key, _ in selector.select(min(max(left, 0), _PROGRESS_S)):
                    data = os.read(key.fd, _CHUNK)
                    if not data:
                        selector.unregister(key.fd)
                        if key.fd == output:
                            continue  # a command may close it long before it ends
                        if last.why is None:
                            return last  # the keeper is gone, and others may hold the pipe
                        # What is stuck in the kernel may hold the other pipe for ever.
                        until = min(until, _clock() + _PATIENCE_S)
                    elif key.fd == reports:
                        told = self._read(told + data, last)
                    else:
                        self.transcript.add(data)
                if left <= 0 and self._give_up_at(until, last) <= _clock():
                    break
                if last.ending is not None:
                    until = min(until, _clock() + self._bounds.ending_s)
                else:
                    self._repeat_order()
                if _clock() - shown_at >= _PROGRESS_S and self.transcript.has_news:
                    shown_at = _clock()
                    self._on_output(self.transcript.newest())
        return last

    def _repeat_order(self) -> None:
        """Tell the keeper what it is to do, again and again: the command can take an order away before it is read."""
        is_flood, now = self.transcript.n_bytes > self._bounds.output_bytes, _clock()
        if not (self._is_stopped or is_flood) or now < self._repeat_at:
            return
        self._repeat_at = now + _PROGRESS_S
        if self._ordered_at is None:
            self._ordered_at = now
        with self._lock:
            self._tell("stop" if self._is_stopped else "flood")

    def _give_up_at(self, until: float, last: _Report) -> float:
        """Return when the keeper is given up: soon, if it does not even say that it obeys an order."""
        if self._ordered_at is None or last.ending is not None:
            return until
        return min(until, self._ordered_at + _PATIENCE_S)

    def _read(self, told: bytes, last: _Report) -> bytes:
        """Take over what the whole lines of a report say; return the rest.

        Raises:
            _ForeignError: a line is no report of the keeper, or comes out of order. The keeper writes that it started the
                command or could not; then why it ends it; at last how the command ended, and nothing after that.
        """
        *lines, rest = told.split(b"\n")
        if len(rest) > _LONGEST_REPORT:
            raise _ForeignError
        for line in lines:
            try:
                said = _REPORTS.decode(line)
            except (ValueError, RecursionError):  # no JSON, no UTF-8, nested without end
                raise _ForeignError from None
            is_start = said.session is not None or said.failed is not None
            is_end = said.why is not None or said.ending is not None
            has_begun = self._session != -1
            if last.why is not None or (is_start, is_end) != (not has_begun, has_begun):
                raise _ForeignError
            if said.session is not None:
                self._session = said.session
            last.ending = said.ending or said.why
            for name in ("failed", "why", "code", "seconds", "left", "stuck"):
                setattr(last, name, getattr(said, name))
        return rest

    def _search(self, keeper: subprocess.Popen[bytes]) -> None:
        """End what is left of a command whose keeper is gone or does not answer."""
        mark = f"{MARK}={self._mark}".encode()
        keeping.tell((keeper.pid,), signal.SIGSTOP)
        until = keeping.give_up_at(_PATIENCE_S)
        try:
            keeping.freeze_and_kill(keeper.pid, until=until, session=self._session, mark=mark)
        finally:
            keeper.kill()
        assert keeper.stderr is not None  # noqa: S101 - it is a pipe
        output = keeper.stderr.fileno()
        while select.select((output,), (), (), 0)[0] and (data := os.read(output, _CHUNK)):
            self.transcript.add(data)

    def _let_go(self, keeper: subprocess.Popen[bytes]) -> None:
        """Close the pipes; the end of its line alone tells a keeper to end everything."""
        import subprocess  # noqa: PLC0415 - see above

        with self._lock:
            self._orders = None
            assert keeper.stdin is not None  # noqa: S101 - it is a pipe
            keeper.stdin.close()
        try:
            keeper.wait(timeout=self._bounds.ending_s)
        except subprocess.TimeoutExpired:
            self._search(keeper)


def _has_ended_well(keeper: subprocess.Popen[bytes]) -> bool:
    """Whether a keeper that has reported ends by itself soon. Others can write a report; only a keeper that is done exits with 0.

    It is not reaped here, so that its number is not free when the search sends it signals.
    """
    unreaped, until = os.WEXITED | os.WNOHANG | os.WNOWAIT, _clock() + _PATIENCE_S
    try:
        while (ended := os.waitid(os.P_PID, keeper.pid, unreaped)) is None:
            if _clock() >= until:
                return False
            select.select((), (), (), 0.002)
    except ChildProcessError:  # another part of this program reaped it, and its exit code is lost
        return True
    return ended.si_status == 0  # of a killed one this is the signal
