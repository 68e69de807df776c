"""The tool that runs Python in a sandbox: to compute, to count, to reshape text; it reaches nothing.

Law 1. The tool is pure: code that ran twice has changed nothing twice.
Law 2. Whatever the code does is an answer that says what to do next: what it printed, its value, the traceback with its
    own source, or which limit it met.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from windlass.errors import InvalidInput, ToolError
from windlass.guards import check_text
from windlass.guards.text import visible
from windlass.sandbox import Monty, Ran, written
from windlass.toolkit.shell.transcript import Transcript
from windlass.tools import FunctionTool, tool

AnyTool: TypeAlias = FunctionTool[Any, ..., Any]

_MAX_CODE_BYTES: Final = 100 * 1024
_MAX_VALUE_CHARS: Final = 8_192
_MAX_ERROR_CHARS: Final = 4_096
_MARGIN_S: Final = 20.0
_MIB: Final = 1024 * 1024
_LACKS: Final = (
    "This Python has no inheritance (so no exceptions, enums or typed dicts of your own), @property, @staticmethod or "
    "@classmethod, yield, del, async with, async for, except* or re.sub with a function. Use plain functions, lists, dicts "
    "and dataclasses."
)
_MODULES: Final = (
    "Modules: asyncio, base64, bisect, collections, copy, csv, dataclasses, datetime, decimal, functools, hashlib, itertools, "
    "json, math, random, re, time, tomllib, typing, unicodedata. No other module can be imported or installed."
)
_REACHES: Final = (
    "This Python reaches no files, no network and no environment. Put the data into the code."
)


def python(*, timeout: float = 10.0, memory_bytes: int = 64 * _MIB) -> AnyTool:
    """Return a tool with which a model runs Python in a sandbox: `run_python(code)`.

    The code reaches no files, no network and no environment. It needs the extra `code`.

    Args:
        timeout: Seconds of running that code has.
        memory_bytes: How much memory its values may take.

    Raises:
        ConfigError: an argument is out of range, or the sandbox is not installed.
    """
    sandbox = Monty(timeout=timeout, memory_bytes=memory_bytes)

    def run_python(code: str) -> str:
        """Run Python in a sandbox; return what it prints, and the value of its last expression.

        For computing, counting and reshaping text. It starts anew with each call. There are no files, no network, no
        environment, and only a part of the standard library: asyncio, base64, bisect, collections, copy, csv, dataclasses,
        datetime, decimal, functools, hashlib, itertools, json, math, random, re, time, tomllib, typing, unicodedata.

        Args:
            code: The source. Print what you want to see, or end with an expression.
        """
        return _told(sandbox.run(_checked(code)), sandbox)

    return tool(run_python, effect="pure", timeout=sandbox.timeout_s + _MARGIN_S)


def _checked(code: str) -> str:
    if not code.strip():
        raise ToolError("code: found no text, wanted Python code", not_started=True)
    try:
        size = len(check_text(code, field="code").encode())
    except InvalidInput as error:
        raise ToolError(str(error), not_started=True) from None
    if size > _MAX_CODE_BYTES:
        told = f"code: found {size:,} bytes, wanted at most {_MAX_CODE_BYTES:,}"
        raise ToolError(told, not_started=True)
    return code


def _told(ran: Ran, sandbox: Monty) -> str:
    printed = Transcript()
    printed.add(ran.output.encode(errors="replace"))
    said = [text] if (text := printed.text().removesuffix("\n")) else []
    if ran.error is not None:
        said += _failure(ran, ran.error, sandbox)
    elif ran.value is not None:
        said.append(f"=> {visible(written(ran.value, most=_MAX_VALUE_CHARS))}")
    return (
        "\n".join(said)
        or "(It ran. Nothing was printed, and the last line is no expression with a value.)"
    )


def _failure(ran: Ran, error: str, sandbox: Monty) -> list[str]:
    if ran.ending == "time":
        return [f"[stopped after {sandbox.timeout_s:g} s of running: do less at once]"]
    if ran.ending == "flood":
        return [f"[stopped: it printed more than {sandbox.output_bytes:,} bytes: print less]"]
    if ran.ending == "crashed":
        return ["[the sandbox crashed on this code; nothing else was harmed: try another way]"]
    # Cut twice: looking at each character of a huge text takes long, and what is made visible is longer than before.
    shown = _cut(visible(_cut(error.removesuffix("\n")), keep="\n\t"))
    return [shown, *_hints(ran, error, sandbox)]


def _cut(text: str) -> str:
    half = _MAX_ERROR_CHARS // 2
    return text if len(text) <= _MAX_ERROR_CHARS else f"{text[:half]} … {text[-half:]}"


def _hints(ran: Ran, error: str, sandbox: Monty) -> list[str]:
    last = error.rstrip().rpartition("\n")[2]
    if ran.ending == "memory":
        return [
            f"[the limit is {sandbox.memory_bytes // _MIB} MiB of memory: work on less at once]"
        ]
    if last.startswith("NotImplementedError: The monty"):
        return [f"[{_LACKS}]"]
    if last.startswith("ModuleNotFoundError:"):
        return [f"[{_MODULES}]"]
    if last.startswith("PermissionError:") or "is not supported in this environment" in last:
        return [f"[{_REACHES}]"]
    return []
