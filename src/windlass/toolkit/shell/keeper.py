"""The keeper of one command: it starts the command, watches it, and leaves no process of it behind.

It runs as a script, in a process of its own. Its standard input is the line to windlass: one line of JSON says what to
run, later lines are orders, and its end says that windlass is gone. Its standard output takes the report; what is its
standard error at the start is the pipe that the command writes to.

Law 1. The keeper is the subreaper of all that the command starts. So whatever loses its parent becomes its child, and
    as long as it has a child, it is not done.
Law 2. However the command ends, the keeper ends all that is left of it: it freezes every descendant before it kills the
    first, because what is frozen starts nothing.
Law 3. It acts without an order when windlass is killed, when its pipe is closed, and when the time is over.
Law 4. What reaches its input beside the known orders is ignored, and no pipe holds it up: the command can read and
    write there, too.
Law 5. It imports nothing but the standard library, and holds nothing of the environment of windlass.

Length: a script that runs isolated finds no file beside it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

_clock = time.monotonic  # noqa: TID251 - limits of a process; nothing stored depends on it

TICK_S: Final = 0.05
GRACE_S: Final = {"time": 2.0, "stop": 0.5, "orphan": 0.5, "exit": 0.5}
"""How long processes have between SIGTERM and SIGKILL, by why they are ended. For other reasons they have nothing."""
LINGER_S: Final = 0.2
"""How long what a command left running may take to end by itself, such as a filter that still writes."""
KILL_S: Final = 10.0
"""How long killing may take: a process that hangs in the kernel cannot be waited for without end."""
_MOST_SCANNING: Final = 10  # after a look at all processes, so many times as long without one
_ORDERS: Final = ("stop", "flood")
_LONGEST_ORDER: Final = 64
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_IGNORED: Final = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGTTIN", "SIGTTOU")
_OOM_FIRST: Final = 500
_FIRST_PID_NAMESPACE: Final = "pid:[4026531836]"
_THREADS_PER_PROCESS: Final = 8
_LEAST_THREADS: Final = 1_024
# A process that goes over to another program has no environment for so long at most, also on a busy machine.
_BETWEEN_PROGRAMS_S: Final = 1.0


# ---------------------------------------------------------------------------------- who is there


class Seen(NamedTuple):
    """A process as /proc shows it."""

    parent: int
    state: str
    group: int
    session: int
    n_pages: int
    n_threads: int
    started: int
    reserved: int
    """How many bytes of addresses it has: none for a thread of the kernel."""

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, or could: also if its first thread has ended, and another has not."""
        return self.state not in ("Z", "X") or self.n_threads > 1


def everybody() -> dict[int, Seen]:
    """Return all processes of this machine."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is needed
        if name.isdigit() and (seen := _seen(name)) is not None:
            found[int(name)] = seen
    return found


def _seen(name: str) -> Seen | None:
    try:
        with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - pathlib would be half of the start-up
            told = file.read()
    except OSError:
        return None
    # The name of the program stands in brackets, and may contain any.
    rest = told[told.rfind(b")") + 2 :].split()
    if not rest:
        return None
    parent, group, session = map(int, rest[1:4])
    n_threads, started, reserved, n_pages = (int(rest[at]) for at in (17, 19, 20, 21))
    return Seen(parent, rest[0].decode(), group, session, n_pages, n_threads, started, reserved)


def descendants(of: int, seen: dict[int, Seen] | None = None) -> set[int]:
    """Return the processes alive that descend from one."""
    seen = everybody() if seen is None else seen
    return {pid for pid in _below(of, seen) if seen[pid].is_alive}


def _below(of: int, seen: dict[int, Seen]) -> set[int]:
    children = defaultdict[int, list[int]](list)
    for pid, one in seen.items():
        children[one.parent].append(pid)
    found, left = set[int](), [of]
    while left:
        below = children.pop(left.pop(), [])
        found.update(below)
        left.extend(below)
    return found


def newcomers(
    of: int, known: Iterable[int], session: int, mark: bytes, unmarked: set[int]
) -> Iterator[tuple[int, Seen]]:
    """Yield living processes below one, or of a session, or with a mark in their environment, that are not known yet.

    Each is told as it is found, the lowest number first: what they start meanwhile mostly stands further on. Processes
    that have no environment now, and may have the mark in a moment, are added to `unmarked`.
    """
    ours = {of, *known}
    with os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdigit() or (pid := int(entry.name)) in ours or pid == os.getpid():
                continue
            seen = _seen(entry.name)
            if seen is None or not seen.is_alive:
                continue
            is_ours = seen.parent in ours or seen.session == session
            if not is_ours and mark:
                environment = _environment(pid)
                is_ours = mark in environment.split(b"\0")
                if not environment and seen.reserved:
                    unmarked.add(pid)
            if is_ours:
                ours.add(pid)
                yield pid, seen


def freeze_and_kill(of: int, *, until: float, session: int = -1, mark: bytes = b"") -> None:
    """End all descendants of a process: first none of them can start anything, then they are killed.

    Args:
        of: The process.
        until: When to give up, by the clock of this process.
        session: A session whose processes are ended, too.
        mark: What the environment of other processes has that are ended, too, as `NAME=value`.
    """
    sure_at = _clock() + _BETWEEN_PROGRAMS_S
    while True:
        frozen, unmarked = dict[int, Seen](), set[int]()
        is_new = True
        while is_new and _clock() < until:
            is_new, told = False, set[int]()
            for pid, seen in newcomers(of, frozen, session, mark, unmarked):
                tell((pid,), signal.SIGSTOP)
                # A process that forks and exits is gone when its number is known. Its group stands still as a whole,
                # because no fork slips through a signal to a group; and what is in it was started by the command.
                if _is_ours(seen.group) and seen.group not in told:
                    tell((-seen.group,), signal.SIGSTOP)
                    told.add(seen.group)
                frozen[pid] = seen
                is_new = True
        _kill(frozen)
        if frozen:
            sure_at = _clock() + _BETWEEN_PROGRAMS_S
        elif not unmarked or _clock() >= sure_at:
            return
        if _clock() >= until:
            return
        select.select((), (), (), 0.002)


def _is_ours(group: int) -> bool:
    return group > 1 and group != os.getpgrp()


def _kill(frozen: dict[int, Seen]) -> None:
    """Kill processes and their groups. What was gone before it stood still may have left its number to others."""
    there = set[int]()
    for pid, then in frozen.items():
        now = _seen(str(pid))
        if now is not None and now.started == then.started:
            there.update((pid, -now.group) if _is_ours(now.group) else (pid,))
    tell(there, signal.SIGKILL)


def tell(pids: Iterable[int], number: int) -> None:
    """Send a signal to each process, or to a group by its negative number, that takes one from us."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _environment(pid: int) -> bytes:
    """Return the environment of a process: nothing while it goes over to another program, a blank if it is hidden."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123 - see above
            return file.read()
    except OSError:
        return b" "


def give_up_at(seconds: float) -> float:
    """Return the time in so many seconds, by the clock of this process."""
    return _clock() + seconds


# ---------------------------------------------------------------------------------- keeping


class Keeper:
    """Watches one command from its start until nothing is left of it."""

    def __init__(self, order: dict[str, Any], heard: bytes, report: int, output: int) -> None:
        self.order = order
        self.heard = heard
        self.report = report
        self.output = output
        self.parent: int = order["parent"]
        self.command = 0
        self.status: int | None = None
        self.has_children = True
        self.next_look = 0.0
        self.woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self.woken, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Start the command, wait for its end or end it, and report."""
        began = _clock()
        failed = self.start()
        if failed:
            self.say({"failed": failed})
            return
        self.say({"session": self.command})
        why = self.watch(began + self.order["timeout_s"])
        self.say({"ending": why})
        seconds = _clock() - began
        left, stuck = self.end(why)
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        self.say({"why": why, "code": code, "seconds": seconds, "left": left, "stuck": stuck})

    def say(self, told: dict[str, Any]) -> None:
        """Report to windlass, if it is there."""
        with suppress(OSError):
            os.write(self.report, json.dumps(told).encode() + b"\n")  # noqa: TID251 - imports no windlass

    def start(self) -> str:
        """Start the command; return what failed, in a word."""
        me = os.getpid()
        try:
            told, tell_us = os.pipe()
            self.command = os.fork()
        except OSError:
            return "fork"
        if self.command == 0:
            os.close(told)
            _become(self.order, self.output, tell_us, me)
        os.close(tell_us)
        with open(told, "rb") as file:  # noqa: PTH123 - a pipe
            failed = file.read().decode()
        # Only the command writes there now, so its end is seen as soon as nothing is left of it.
        os.close(self.output)
        if failed:
            os.waitpid(self.command, 0)
        return failed

    def watch(self, until: float) -> str:
        """Return why it is over, when it is."""
        while True:
            self.reap()
            if self.status is not None:
                return "exit"
            if os.getppid() != self.parent:
                return "orphan"
            now = _clock()
            if now >= until:
                return "time"
            if (why := self.look(now)) or (why := self.wait(min(TICK_S, until - now))):
                return why

    def wait(self, seconds: float) -> str:
        """Wait for news, for so long at most; return an order if there is one."""
        if b"\n" not in self.heard:
            ready, _, _ = select.select((0, self.woken), (), (), seconds)
            if self.woken in ready:
                with suppress(BlockingIOError):
                    os.read(self.woken, 4_096)
            if 0 not in ready:
                return ""
            with suppress(BlockingIOError):
                told = os.read(0, 4_096)
                if not told:
                    return "orphan"
                self.heard += told
        word, ends, rest = self.heard.partition(b"\n")
        self.heard = rest if ends else self.heard[-_LONGEST_ORDER:]
        order = word.decode(errors="replace") if ends else ""
        return order if order in _ORDERS else ""

    def reap(self) -> None:
        """Take note of every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.has_children = False
                return
            if pid == 0:
                self.has_children = True
                return
            # Its number may be used again by another child.
            if pid == self.command and self.status is None:
                self.status = status

    def look(self, now: float) -> str:
        """Return which limit all processes of the command together are over, looking from time to time."""
        if now < self.next_look:
            return ""
        seen = everybody()
        me = os.getpid()
        ours = _below(me, seen)
        took = _clock() - now
        self.next_look = now + max(TICK_S * 0.9, took * _MOST_SCANNING)
        # What has ended and is not waited for has a number of the machine, too. Our own children are about to be reaped.
        n_there = sum(seen[pid].is_alive or seen[pid].parent != me for pid in ours)
        if n_there > self.order["max_processes"]:
            return "processes"
        page, most = os.sysconf("SC_PAGE_SIZE"), self.order["memory_bytes"]
        # Pages that several processes share count in each: only if that is too much, it is worth to look closer.
        if sum(seen[pid].n_pages for pid in ours) * page <= most:
            return ""
        used = sum(_own_share(pid, seen[pid].n_pages * page) for pid in ours)
        return "memory" if used > most else ""

    def end(self, why: str) -> tuple[int, int]:
        """End what is left; return how many processes the command had left running, and how many would not end."""
        me, left = os.getpid(), 0
        if why == "exit":
            if self.is_alone(LINGER_S):
                return 0, 0
            left = self.n_left()
        if grace := GRACE_S.get(why):
            tell(ours := descendants(me), signal.SIGTERM)
            tell(ours, signal.SIGCONT)
            if self.is_alone(grace):
                return left, 0
        until = _clock() + KILL_S
        while self.has_children and _clock() < until:
            freeze_and_kill(me, until=until)
            if self.is_alone(TICK_S):
                break
        self.reap()
        return left, self.n_left()

    def n_left(self) -> int:
        """Return how many processes are left; one at least if there is a child, also where /proc is covered."""
        return max(len(descendants(os.getpid())), int(self.has_children))

    def is_alone(self, seconds: float) -> bool:
        """Wait for so long at most until no child is left."""
        until = _clock() + seconds
        while True:
            self.reap()
            left = until - _clock()
            if not self.has_children or left <= 0:
                return not self.has_children
            if self.look(_clock()) == "processes":
                return False
            # Orders come too late now; a closed pipe would wake us without end.
            ready, _, _ = select.select((self.woken,), (), (), min(TICK_S, left))
            if ready:
                with suppress(BlockingIOError):
                    os.read(self.woken, 4_096)


def _own_share(pid: int, resident: int) -> int:
    """Return how much memory a process uses, with its share of what it has in common with others; all if it hides that."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123 - see above
            rows = dict(row.split(b":", 1) for row in file.read().splitlines()[1:])
    except PermissionError:
        return resident
    except OSError:
        return 0
    # Pages of plain files can be dropped at any time.
    shares = (rows.get(b"Pss_Anon"), rows.get(b"Pss_Shmem"))
    return sum(int(share.split()[0]) * 1024 for share in shares if share)


def _become(order: dict[str, Any], output: int, tell_us: int, keeper: int) -> None:
    """Turn this forked child into the command; what fails is told in a word."""
    doing = "keeper"
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:  # it was gone before that
            os._exit(127)
        _prctl(_PR_SET_DUMPABLE, 1)
        with suppress(OSError), open("/proc/self/oom_score_adj", "r+") as file:  # noqa: PTH123 - see above
            if int(file.read()) < _OOM_FIRST:
                file.write(str(_OOM_FIRST))
        _limit(order)
        for name in (*_IGNORED, "SIGPIPE", "SIGXFSZ", "SIGCHLD"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        doing = "shell"
        argv = [os.path.basename(order["shell"]), b"-c", order["line"].encode()]  # noqa: PTH119 - see above
        env = {name.encode(): value.encode() for name, value in order["env"].items()}
        os.execve(order["shell"], argv, env)  # noqa: S606 - it is the shell
    except BaseException:  # noqa: BLE001 - nothing may go on in this copy of the keeper
        os.write(tell_us, doing.encode())
    finally:
        os._exit(127)


def _limit(order: dict[str, Any]) -> None:
    import resource  # noqa: PLC0415 - not there on every platform that can import this file

    # None for memory: the kernel counts what is reserved, and many programs reserve far more than they ever use.
    wanted = {
        resource.RLIMIT_FSIZE: order["max_file_bytes"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 4_096,
        # Real time is the keeper's to watch; this is for what might escape it.
        resource.RLIMIT_CPU: int(order["timeout_s"] + 10) * (os.cpu_count() or 1),
    }
    if not _is_in_a_container():
        # It counts all threads of the user and does not bind root: it only slows a fork bomb down until the next look.
        room = max(_LEAST_THREADS, _THREADS_PER_PROCESS * order["max_processes"])
        wanted[resource.RLIMIT_NPROC] = _n_threads_of_user() + room
    for which, most in wanted.items():
        soft, hard = resource.getrlimit(which)
        # A low soft limit of open files only protects programs that use `select`. Others are the operator's will.
        bounds = (most, hard) if which == resource.RLIMIT_NOFILE else (most, soft, hard)
        value = min(each for each in bounds if each != resource.RLIM_INFINITY)
        resource.setrlimit(which, (value, value))


def _is_in_a_container() -> bool:
    """Whether this user may have threads that are not seen from here. The kernel would count them, too."""
    try:
        return os.readlink("/proc/self/ns/pid") != _FIRST_PID_NAMESPACE  # noqa: PTH115 - see above
    except OSError:
        return True


def _n_threads_of_user() -> int:
    me, count = os.getuid(), 0
    for pid, one in everybody().items():
        with suppress(OSError):
            count += one.n_threads if os.stat(f"/proc/{pid}").st_uid == me else 0  # noqa: PTH116 - see above
    return count


def _hurry() -> None:
    """Run before all that this process starts, where it may: among a thousand others its turn would come too late."""
    with suppress(OSError, AttributeError):
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(1))


def _prctl(option: int, value: int) -> None:
    import ctypes  # noqa: PLC0415 - windlass imports this file too, and needs none of it

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def main() -> None:
    """Keep the command that standard input tells of."""
    for name in _IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    output = os.dup(2)
    report = os.dup(1)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1, inheritable=False)
    os.dup2(silent, 2, inheritable=False)
    os.set_inheritable(0, False)  # noqa: FBT003 - its only signature
    told = b""
    while b"\n" not in told:
        more = os.read(0, 65_536)
        if not more:
            return
        told += more
    line, _, heard = told.partition(b"\n")
    # The command can read away our orders, and fill our report: neither may hold us up.
    os.set_blocking(0, False)
    os.set_blocking(report, False)
    order = json.loads(line)  # noqa: TID251 - imports no windlass
    keeper = Keeper(order, heard, report, output)
    _hurry()
    try:
        # The command can stop us: when windlass is killed meanwhile, we go on and end all.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # What gets no privileges can be signalled by us, too.
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        # Only root can trace us and open our files. The other ends of our pipes are files of windlass: any command can
        # open those.
        _prctl(_PR_SET_DUMPABLE, 0)
    except OSError:
        keeper.say({"failed": "subreaper"})
        return
    keeper.run()


if __name__ == "__main__":
    main()
