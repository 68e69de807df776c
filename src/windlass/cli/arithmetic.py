"""A calculator for models: numbers and operators, nothing that could run code or never end."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, Final

from windlass.errors import ToolError

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


def calculate(expression: str) -> int | float:
    """Return what an expression comes to.

    Raises:
        ToolError: it is none, or its result has no place.
    """
    if len(expression) > _MAX_CHARS:
        raise ToolError(f"the expression has {len(expression)} characters, wanted {_MAX_CHARS}")
    try:
        value = _value(ast.parse(expression.strip().replace("^", "**"), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise ToolError(f"cannot be calculated: {error}") from None
    except (ZeroDivisionError, OverflowError) as error:
        raise ToolError(f"has no result: {error}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolError("has no finite result")
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


def _small(value: Any) -> int | float:  # noqa: ANN401 - what an operator returned
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise OverflowError("the result is too large")
    if type(value) not in (int, float):
        raise TypeError("the result is no number")
    return value  # type: ignore[no-any-return]  # looked at above
