"""Arithmetic: the value of an expression, and the expression that a sentence asks for.

Law 1. An expression is numbers, operators and a few functions; nothing in it can run code or run forever.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

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


# --- sums in sentences ---------------------------------------------------------------------------

_MAX_SENTENCE: Final = 200
_LEAD: Final = re.compile(
    r".*\b(?:what(?:'s| is| are)|how much (?:is|are)|calculate|compute|work out)\s+(?:the\s+)?",
    re.IGNORECASE | re.DOTALL,
)
_N: Final = r"\(?(-?\d+(?:\.\d+)?)\)?"
_PHRASES: Final = (
    (rf"{_N}\s*(?:%|per\s?cent)\s+of\s+{_N}", r"\2 * \1 / 100"),
    (rf"(?:add\s+|(?:sum|total)\s+of\s+){_N}\s+(?:and|to|,)\s+{_N}", r"\1 + \2"),
    (rf"(?:multiply\s+|product\s+of\s+){_N}\s+(?:and|by|with)\s+{_N}", r"\1 * \2"),
    (rf"subtract\s+{_N}\s+from\s+{_N}", r"\2 - \1"),
    (rf"divide\s+{_N}\s+by\s+{_N}", r"\1 / \2"),
    (rf"square\s+root\s+of\s+{_N}", r"sqrt(\1)"),
)
_WORDS: Final = (
    (r"\bplus\b", "+"), (r"\bminus\b", "-"), (r"\btimes\b|\bmultiplied\s+by\b|\u00d7", "*"),
    (r"(?<=\d)\s*x\s*(?=\d)", " * "), (r"\bdivided\s+by\b|\u00f7", "/"), (r"\bsquared\b", "** 2"),
)  # fmt: skip
_PLAIN: Final = re.compile(r"(?:sqrt\()?[-\d\s.()]*\d[\s)]*[-+*/^%][-+*/^%\d\s.()]*\d[\s)]*")


class Sum(msgspec.Struct, frozen=True):
    """A sum that somebody asked for: as it is shown to them, and as an expression that `evaluate` takes."""

    shown: str
    expression: str


def sum_in(sentence: str) -> Sum | None:
    """Return the sum that a sentence asks for, such as `What is 17 % of 2400?`; None if it is about something else."""
    if len(sentence) > _MAX_SENTENCE:
        return None
    asked = _LEAD.sub("", sentence.strip(), count=1).rstrip("?!.= ").removesuffix(", please")
    expression = _as_expression(re.sub(r"(?<=\d),(?=\d{3}\b)", "", asked).strip())
    if expression is None:
        return None
    try:
        evaluate(expression)
    except ToolError:
        return None
    return Sum(asked if " of " in asked else expression, expression)


def _as_expression(words: str) -> str | None:
    for phrase, form in _PHRASES:
        found = re.fullmatch(phrase, words, re.IGNORECASE)
        if found is not None:
            return found.expand(form)
    for word, sign in _WORDS:
        words = re.sub(word, sign, words, flags=re.IGNORECASE)
    return words if _PLAIN.fullmatch(words) else None


def number_text(value: float) -> str:
    """Return a number as people write it: `408`, not `408.0` or `408.00000000000006`."""
    return str(value) if isinstance(value, int) else f"{value:.12g}"
