"""The tools of the default agent. They only look: at the clock, at numbers, at files below one folder.

Law 1. `calculate` takes numbers and operators; nothing in it can run code or run forever.
Law 2. Files are read below the current folder only: no hidden names, no links that lead out.
"""

from __future__ import annotations

import ast
import math
import operator
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from windlass import tool
from windlass.errors import ToolError
from windlass.runtime.system_clock import SystemClock

MAX_BYTES: Final = 64 * 1024
MAX_NAMES: Final = 200
_MAX_CHARS: Final = 500
_MAX_BITS: Final = 4_096

_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs, "round": round, "min": min, "max": max, "sqrt": math.sqrt, "log": math.log,
    "exp": math.exp, "sin": math.sin, "cos": math.cos, "tan": math.tan, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip
_CONSTANTS: Final = {"pi": math.pi, "e": math.e}


@tool(effect="pure")
def clock() -> str:
    """Return the date and the time here, with the offset from UTC."""
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, tz=UTC)
    return now.astimezone().isoformat(timespec="seconds")


@tool(effect="pure")
def calculate(expression: str) -> int | float:
    """Calculate, e.g. `(17 + 4) * 2 ** 0.5`. Knows sqrt, log, exp, sin, cos, tan, min, max, round."""
    return evaluate(expression)


@tool(effect="pure")
def read_file(path: str) -> str:
    """Read a text file below the current folder."""
    return Workspace(Path.cwd()).read(path)


@tool(effect="pure")
def list_files(folder: str = ".") -> list[str]:
    """List a folder below the current one."""
    return Workspace(Path.cwd()).names(folder)


# ---------------------------------------------------------------------- arithmetic


def evaluate(expression: str) -> int | float:
    """Return the value of an arithmetic expression.

    Raises:
        ToolError: it is not arithmetic, or has no finite result of a reasonable size.
    """
    if len(expression) > _MAX_CHARS:
        size = len(expression)
        raise ToolError(f"expression: found {size} characters, wanted at most {_MAX_CHARS}")
    try:
        value = _value(ast.parse(expression.strip().replace("^", "**"), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ToolError(f"expression: cannot be calculated: {error}") from None
    except (ZeroDivisionError, OverflowError) as error:
        raise ToolError(f"expression: has no result: {error}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolError("expression: has no finite result")
    return value


def _value(node: ast.expr) -> int | float:
    match node:
        case ast.Constant(value=value) if type(value) in (int, float):
            return _small(value)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _small(_UNARY[type(op)](_value(operand)))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _small(_BINARY[type(op)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _small(_FUNCTIONS[name](*map(_value, args)))
    known = ", ".join((*_FUNCTIONS, *_CONSTANTS))
    raise ValueError(f"wanted numbers, + - * / // % ** ( ), {known}")


def _power(left: float, right: float) -> int | float:
    if isinstance(left, int) and abs(right) * max(left.bit_length(), 1) > _MAX_BITS:
        raise OverflowError("the result is too large")
    value = left**right
    if isinstance(value, complex):
        raise ValueError("the result is not a real number")  # noqa: TRY004 - the types are right
    return _small(value)


def _small(value: Any) -> int | float:  # noqa: ANN401 - an operator's result
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise OverflowError("the result is too large")
    if type(value) not in (int, float):
        raise TypeError("the result is not a number")
    return value  # type: ignore[no-any-return]  # checked above


# ---------------------------------------------------------------------- files


class Workspace:
    """Reads text files below one folder; refuses links that lead out, hidden names and non-files."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def read(self, name: str) -> str:
        """Return the beginning of a text file.

        Raises:
            ToolError: it may not be read, or is not text.
        """
        path = self._place(name)
        try:
            # Non-blocking: a pipe in the folder must not hold up the turn.
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from None
        try:
            found = os.fstat(file)
            if not stat.S_ISREG(found.st_mode):
                raise ToolError(f"{name}: is not a regular file")
            with os.fdopen(file, "rb", closefd=False) as opened:
                data = opened.read(MAX_BYTES)
        finally:
            os.close(file)
        if b"\x00" in data:
            raise ToolError(f"{name}: is not a text file")
        text = data.decode("utf-8", errors="replace")
        left = found.st_size - len(data)
        return f"{text}\n[{left} more bytes]" if left > 0 else text

    def names(self, name: str = ".") -> list[str]:
        """Return the names in a folder, subfolders with a slash.

        Raises:
            ToolError: it may not be listed, or is not a folder.
        """
        path = self._place(name)
        try:
            found = sorted(path.iterdir())
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from None
        shown = [each for each in found if not each.name.startswith(".")]
        listed = [f"{each.name}/" if each.is_dir() else each.name for each in shown[:MAX_NAMES]]
        more = len(shown) - MAX_NAMES
        return [*listed, f"[{more} more]"] if more > 0 else listed

    def _place(self, name: str) -> Path:
        try:
            path = (self._root / name).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise ToolError(f"{name[:200]}: no such file") from None
        if not path.is_relative_to(self._root):
            raise ToolError(f"{name[:200]}: is outside of the folder that may be read")
        if any(part.startswith(".") for part in path.relative_to(self._root).parts):
            raise ToolError(f"{name[:200]}: is hidden; hidden files are not read")
        return path
