"""The sandbox: Python code in Monty, an interpreter in a worker process of its own that has no way out.

Law 1. The code reaches no file, no network, no environment and no other process; what it gets are its inputs.
Law 2. Its time is always limited, inside the worker. Some built-in functions never look at that limit, so the kernel
    limits the worker's processor time, too: a worker whose host is killed is gone soon after.
Law 3. Whatever the code does, `run` returns and says what happened: a crashed worker is an answer, too.
Law 4. Only the synchronous client is used, which blocks its thread; the asynchronous one may abort the process at exit.
Law 5. The library is imported when code runs first, and looked for when a `Monty` is made.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from windlass.errors import ConfigError
from windlass.release import DISTRIBUTION, install_hint

Ending: TypeAlias = Literal["done", "raised", "refused", "time", "memory", "flood", "crashed"]

_EXTRA: Final = "code"
_LIBRARY: Final = "pydantic_monty"
_MIB: Final = 1024 * 1024
_LONGEST_S: Final = 600.0
_WATCHDOG_S: Final = 5.0
_SPARE_S: Final = 2  # the host, if there is one, ends a worker a second after its time


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What became of code.

    Attributes:
        output: What it printed, as far as it was kept.
        value: The value of its last expression, with shared parts shared: it may be far larger than it looks.
        ending: How it ended: `done`; `raised` an exception; `refused` before its first line; over its `time`, `memory` or
            output (`flood`); `crashed` with its worker.
        error: What the sandbox says about it, with the lines of the source; None if it is done.
    """

    output: str = ""
    value: object = None
    ending: Ending = "done"
    error: str | None = None


class Monty:
    """Runs code, each piece in a new worker process that ends with it. May be used from several threads.

    Args:
        timeout: Seconds of running that a piece of code has.
        memory_bytes: How much memory its values may take.
        output_bytes: How much it may print.
        recursion: How deep its functions may call each other.

    Raises:
        ConfigError: an argument is out of range, or the package is not installed.
    """

    def __init__(
        self,
        *,
        timeout: float = 10.0,
        memory_bytes: int = 64 * _MIB,
        output_bytes: int = 256 * 1024,
        recursion: int = 200,
    ) -> None:
        self.timeout_s = _seconds(timeout)
        self.memory_bytes = _count(memory_bytes, "memory_bytes", _MIB, 4_096 * _MIB)
        self.output_bytes = _count(output_bytes, "output_bytes", 1, 64 * _MIB)
        self._recursion = _count(recursion, "recursion", 1, 1_000)
        check_installed()

    def run(self, code: str, inputs: Mapping[str, Any] | None = None) -> Ran:
        """Run code and return what became of it. Blocks the thread.

        Args:
            code: The source.
            inputs: Values that the code finds under their names.
        """
        import pydantic_monty  # noqa: PLC0415 - loaded when code runs first

        printed = pydantic_monty.CollectString(max_bytes=self.output_bytes)
        try:
            value = self._feed(code, dict(inputs or {}), printed)
        except (KeyboardInterrupt, SystemExit):
            raise
        except pydantic_monty.MontyCrashedError as error:
            ending: Ending = "time" if error.timed_out else "crashed"
            return Ran(output=printed.output, ending=ending, error=_words(error))
        except pydantic_monty.MontyRuntimeError as error:
            ending, said = self._ending(error), error.display()
            return Ran(output=printed.output, ending=ending, error=said)
        except pydantic_monty.MontySyntaxError as error:
            return Ran(output=printed.output, ending="refused", error=error.display())
        except BaseException as error:  # noqa: BLE001 - a panic of the library is none of Exception's
            return Ran(output=printed.output, ending="crashed", error=_words(error))
        return Ran(output=printed.output, value=value)

    def _feed(self, code: str, inputs: dict[str, Any], printed: Any) -> object:  # noqa: ANN401 - a type of the library
        import pydantic_monty  # noqa: PLC0415 - see above

        limits: pydantic_monty.ResourceLimits = {
            "max_feed_duration_secs": self.timeout_s,
            "max_memory": self.memory_bytes,
            "max_recursion_depth": self._recursion,
        }
        seconds = math.ceil(self.timeout_s) + _SPARE_S
        with _launcher(seconds) as launcher:
            # A pool for each piece of code costs milliseconds, and keeps no worker that waits.
            workers = pydantic_monty.Monty(
                binary_path=launcher,
                min_processes=0,
                max_processes=1,
                request_timeout=self.timeout_s + _WATCHDOG_S,
            )
            with workers, workers.checkout(limits=limits, os_policy={"sleep": "zero"}) as session:
                _limit_processor_time(session.worker_pid, seconds)
                return session.feed_run(code, inputs=inputs, print_callback=printed)

    def _ending(self, error: Any) -> Ending:  # noqa: ANN401 - a type of the library
        """Return what ended code: limits leave no traceback, or the limit stands in the words."""
        said = error.display("type-msg")
        if said.startswith("NotImplementedError: The monty syntax parser"):
            return "refused"
        if said.startswith("MemoryError: "):
            # Who allocates is not always named: the limit of what is printed is told by its number.
            is_flood = f"> {self.output_bytes} bytes" in said and not error.traceback()
            return "flood" if is_flood else "memory"
        if said.startswith("TimeoutError: ") and not error.traceback():
            return "time"
        return "raised"


def _limit_processor_time(worker: int | None, seconds: int) -> None:
    """Set the limit of a worker that waits for its code, on Linux; elsewhere its launcher has set it."""
    resource = _resource()
    if resource is None or not hasattr(resource, "prlimit"):
        return
    # Where a container forbids this, the limit inside the worker is the only one.
    with suppress(OSError):
        _, most = resource.prlimit(worker, resource.RLIMIT_CPU)
        seconds = seconds if most == resource.RLIM_INFINITY else min(seconds, most)
        resource.prlimit(worker, resource.RLIMIT_CPU, (seconds, seconds))


@contextmanager
def _launcher(seconds: int) -> Iterator[str | None]:
    """Yield a script that starts a worker with the limit, where no other process can set it, as on macOS."""
    resource = _resource()
    if resource is None or hasattr(resource, "prlimit"):
        yield None
        return
    from pydantic_monty._binary import find_monty_binary  # noqa: PLC0415 - see above

    with tempfile.TemporaryDirectory(prefix="windlass-") as folder:
        script = Path(folder, "monty")
        start = f'exec {shlex.quote(find_monty_binary())} "$@"'
        script.write_text(f"#!/bin/sh\nulimit -t {seconds}\n{start}\n")
        script.chmod(0o700)
        yield str(script)


def _resource() -> Any:  # noqa: ANN401 - a module with other names on each platform
    """Return the module of limits; None on Windows, which has none."""
    return importlib.import_module("resource") if os.name == "posix" else None


def check_installed() -> None:
    """Look for the library.

    Raises:
        ConfigError: it is not there.
    """
    if importlib.util.find_spec(_LIBRARY) is None:
        told = f"sandbox: pydantic-monty is not installed: {install_hint(_EXTRA)}"
        raise ConfigError(told, field="sandbox", wanted=f"{DISTRIBUTION}[{_EXTRA}]")


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _seconds(timeout: float) -> float:
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if not is_number or not math.isfinite(timeout) or not 0 < timeout <= _LONGEST_S:
        found = timeout if is_number else type(timeout).__name__
        raise ConfigError.at("sandbox: timeout", found, f"seconds above 0, up to {_LONGEST_S:g}")
    return float(timeout)


def _count(found: int, name: str, least: int, most: int) -> int:
    if type(found) is not int or not least <= found <= most:
        shown = found if type(found) is int else type(found).__name__
        raise ConfigError.at(f"sandbox: {name}", shown, f"a whole number of {least:,} to {most:,}")
    return found
