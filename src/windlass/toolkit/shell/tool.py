"""The tool that runs a command: in one folder, for so long, and with nothing left of it afterwards.

Law 1. When the call has a result, no process of the command is left: not in the background, not after `setsid`, not a
    daemon, and not if windlass itself was killed. Code that is written to escape can (Law 4).
Law 2. A command that ran has a known outcome, also when it failed, was stopped or left something running: the result
    says which. Only a cancelled call, a crash, a lost keeper and an error of windlass leave it unknown.
Law 3. A command sees a minimal environment, and none of the variables of windlass.
Law 4. This is a fence against accidents, not a jail: a command can do what the user can who runs windlass.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from windlass.errors import ConfigError, InvalidInput, ToolError
from windlass.guards import Secret, check_text, register_secret
from windlass.guards.text import is_clean
from windlass.ports.tool import ToolContext
from windlass.toolkit.shell.command import Bounds, Command, Ended
from windlass.tools import FunctionTool, tool
from windlass.tools.threads import in_thread

AnyTool: TypeAlias = FunctionTool[Any, ..., Any]
Approval: TypeAlias = Literal["never", "ask"] | Callable[..., bool | Awaitable[bool]]

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_GIB: Final = 1024 * _MIB
# The kernel takes no argument and no variable of 128 KiB or more.
_MAX_LINE_BYTES: Final = 100 * _KIB
_MAX_VARIABLE_BYTES: Final = 128 * _KIB - 1
_MARGIN_S: Final = 10.0
_MIN_BYTES: Final = 64 * _MIB
_GONE_S: Final = 20.0


def shell(  # noqa: PLR0913 - each is a limit of its own
    root: str | os.PathLike[str],
    *,
    approval: Approval = "ask",
    timeout: float = 120.0,
    env: Mapping[str, str | Secret] | None = None,
    max_output_bytes: int = 16 * _MIB,
    memory_bytes: int = 4 * _GIB,
    max_processes: int = 256,
    max_file_bytes: int = _GIB,
) -> AnyTool:
    """Return a tool with which a model runs commands in a folder: `run_command(command, timeout)`.

    A command that has ended leaves nothing behind, whatever it started. It can do what the user can who runs windlass:
    use a container against commands that you do not trust.

    Args:
        root: The folder in which commands start. They can leave it.
        approval: `ask`, the default, puts each command to a person; `never`; or a function of the arguments.
        timeout: Seconds after which a command is stopped. A model may ask for less.
        env: Variables that commands see beside PATH, HOME, LANG and TERM. A `Secret` is registered.
        max_output_bytes: How much a command may print until it is stopped. 32 KiB of it are shown.
        memory_bytes: How much memory its processes may use together. With more, all are ended.
        max_processes: How many processes it may have at once, with those that have ended and are not waited for. With
            more, all are ended.
        max_file_bytes: How large a file it may write.

    Raises:
        ConfigError: an argument is out of range, or this platform cannot find the processes that a command leaves behind.
    """
    _check_platform()
    bounds = Bounds(
        timeout_s=_seconds(timeout),
        output_bytes=_count(max_output_bytes, "max_output_bytes", 1),
        memory_bytes=_count(memory_bytes, "memory_bytes", _MIN_BYTES),
        processes=_count(max_processes, "max_processes", 1),
        file_bytes=_count(max_file_bytes, "max_file_bytes", 0),
    )
    place = _Place(_folder(root), {**_minimal_environment(), **_checked_env(env or {})}, bounds)

    async def run_command(ctx: ToolContext[Any], command: str, timeout: float | None = None) -> str:  # noqa: ASYNC109, D417 - what a model is told
        """Run a command in a shell (bash if there is one, else sh) and return what it prints and its exit code.

        Each command starts anew in the same folder: `cd` and variables do not last. Standard input is empty, and there is
        no terminal. Processes that it leaves in the background are ended with it.

        Args:
            command: The command line.
            timeout: Seconds after which it is stopped, if fewer than usual are enough.
        """
        return await place.run(ctx, command, timeout)

    return tool(
        run_command,
        effect="once",
        approval=approval,
        risk="high",
        timeout=bounds.longest_s + _MARGIN_S,
        sequential=True,
    )


class _Place(NamedTuple):
    """Where commands run, what they see and what they may use."""

    folder: Path
    env: Mapping[str, str]
    bounds: Bounds

    async def run(self, ctx: ToolContext[Any], command: str, asked_s: float | None) -> str:
        seconds = _asked(asked_s, self.bounds.timeout_s)
        running = Command(
            _checked_line(command),
            folder=self.folder,
            env=self.env,
            bounds=msgspec.structs.replace(self.bounds, timeout_s=seconds),
            on_output=lambda text: ctx.progress({"output": text}),
        )

        def work() -> str:
            ended = running.run()
            return _told(ended, running.transcript.text(), seconds, self.bounds)

        try:
            told = await in_thread(work)
        except asyncio.CancelledError:
            running.stop()
            # A second cancel ends this wait, and not the end of the command: its thread sees to that.
            await in_thread(lambda: running.is_over.wait(_GONE_S))
            raise
        assert isinstance(told, str)  # noqa: S101 - what a thread returns has no type
        return told


# ---------------------------------------------------------------------------------- what is told


def _told(ended: Ended, output: str, limit_s: float, bounds: Bounds) -> str:
    said = output.removesuffix("\n") or "(no output)"
    notes = [_how(ended, limit_s, bounds)]
    if (n_ended := ended.left - ended.stuck) > 0:
        notes.insert(0, f"[{_processes(n_ended)} that the command left running, ended now]")
    if ended.stuck:
        notes.insert(0, f"[{_processes(ended.stuck)} of it could not be ended; tell a person]")
    return "\n".join([said, *notes])


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _how(ended: Ended, limit_s: float, bounds: Bounds) -> str:
    took = f"{ended.seconds:.1f} s"
    if ended.why == "exit":
        if ended.code is not None and ended.code < 0:
            return f"[ended by signal {-ended.code} ({_signal_name(-ended.code)}), {took}]"
        return f"[exit code {ended.code}, {took}]"
    if ended.why == "time":
        longest = (
            f"; `timeout` may be up to {bounds.timeout_s:g}" if limit_s < bounds.timeout_s else ""
        )
        return f"[stopped after {limit_s:g} s, the time limit; its work may be half done{longest}]"
    what = {
        "flood": f"it printed more than {_size(bounds.output_bytes)}; write long output to a file",
        "processes": f"it had more than {bounds.processes} processes at once",
        "memory": f"its processes used more than {_size(bounds.memory_bytes)} of memory",
    }.get(ended.why, "it was told to")
    return f"[stopped after {took}: {what}]"


def _size(count: int) -> str:
    for unit, name in ((_GIB, "GiB"), (_MIB, "MiB"), (_KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} bytes"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


# ---------------------------------------------------------------------------------- what is taken


def _asked(asked: float | None, most: float) -> float:
    if asked is None:
        return most
    if not (math.isfinite(asked) and 0 < asked <= most):
        told = f"timeout: found {asked:g}, wanted seconds above 0, up to {most:g}. Nothing was run."
        raise ToolError(told, not_started=True)
    return asked


def _checked_line(command: str) -> str:
    if not command.strip():
        told = "command: found no text, wanted a command line. Nothing was run."
        raise ToolError(told, not_started=True)
    try:
        size = len(check_text(command, field="command").encode())
    except InvalidInput as error:
        raise ToolError(f"{error}. Nothing was run.", not_started=True) from None
    if size > _MAX_LINE_BYTES:
        told = (
            f"command: found {size:,} bytes, wanted at most {_MAX_LINE_BYTES:,}. Nothing was run. Write a script into a "
            "file, in several calls if need be, and run that."
        )
        raise ToolError(told, not_started=True)
    return command


def _check_platform() -> None:
    if not sys.platform.startswith("linux") or not Path("/proc/self/stat").exists():
        raise ConfigError(
            f"shell: found {sys.platform}, wanted Linux with /proc: elsewhere the processes that a command leaves behind "
            "cannot be found. Run it in a container.",
            field="shell",
            found=sys.platform,
            wanted="Linux with /proc",
        )


def _folder(root: str | os.PathLike[str]) -> Path:
    if not isinstance(root, (str, os.PathLike)):
        raise ConfigError.at("shell: root", type(root).__name__, "a path")
    try:
        folder = Path(root).expanduser().resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a user that is not there, NUL
        folder = None
    if folder is None or not folder.is_dir():
        raise ConfigError.at("shell: root", "no folder there", "a folder that exists")
    return folder


def _seconds(timeout: float) -> float:
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not is_number or not math.isfinite(timeout) or not 0 < timeout <= 7 * 86_400:
        found = timeout if is_number else type(timeout).__name__
        raise ConfigError.at("shell: timeout", found, "seconds above 0, up to a week")
    return float(timeout)


def _count(found: int, name: str, least: int) -> int:
    if type(found) is not int or found < least or found >= 1 << 62:
        shown = found if type(found) is int else type(found).__name__
        raise ConfigError.at(f"shell: {name}", shown, f"a whole number, {least:,} or more")
    return found


def _minimal_environment() -> dict[str, str]:
    try:
        home = str(Path.home())
    except RuntimeError:  # the user has no name here, as in some containers
        home = "/"
    # What is no text cannot be handed on: folders whose names are not UTF-8.
    path = os.pathsep.join(filter(is_clean, os.get_exec_path()))
    return {
        "PATH": path or os.defpath,
        "HOME": home if is_clean(home) else "/",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
    }


def _checked_env(env: Mapping[str, str | Secret]) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise ConfigError.at("shell: env", type(env).__name__, "a mapping of names to texts")
    checked = {}
    for name, given in env.items():
        value = register_secret(given).reveal() if isinstance(given, Secret) else given
        for each in (name, value):
            try:
                check_text(each, field="shell: env")
            except InvalidInput as error:
                raise ConfigError(str(error), field="shell: env") from None
        if not name or "=" in name:
            raise ConfigError.at(
                "shell: env", "a name that is empty or has a `=`", "names such as CI"
            )
        if (size := len(f"{name}={value}".encode())) > _MAX_VARIABLE_BYTES:
            raise ConfigError.at(
                "shell: env",
                f"a variable of {size:,} bytes",
                f"at most {_MAX_VARIABLE_BYTES:,} for name, `=` and value",
            )
        checked[name] = value
    return checked
