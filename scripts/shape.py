"""The size budget: files with one noun, functions that fit a screen, no file that is only a sentence.

A file over 400 lines says why in its module docstring, on a line that starts with "Length:"; once
it has shrunk, the line has to go. Over 600 lines no reason helps. A function ends within 60 lines.
Names that fit any content (utils, helpers ...) are refused, for files and for packages.

A module of src under 80 lines that exactly one other module of src imports belongs to that importer.
Excepted are `__init__` and `__main__`; a module that only an `__init__` imports, because a package lists there
what it offers; a module imported inside a function, because it is loaded only when it is needed; everything
in ports/, which keeps one Protocol to a file; and a module whose dotted name stands in README.md or docs/,
because users import it. HOLDS_SMALL_ROOMS says whether this rule fails the check or only reports.

Usage: python scripts/shape.py [FOLDER ...]
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

EXPLAIN_ABOVE = 400
REFUSE_ABOVE = 600
FUNCTION_MAX = 60
ROOM_MIN = 80
HOLDS_SMALL_ROOMS = True
REASON = "Length:"
REFUSED_NAMES = frozenset({
    "base", "common", "data", "helper", "helpers", "info", "manager", "managers", "util", "utils",
})  # fmt: skip
FOLDERS = ("src", "tests", "bench", "evals", "scripts")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SOURCES = "src"
PORTS = "ports"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function or method, with its place and its length."""

    name: str
    line: int
    n_lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileShape:
    """What the budget needs to know about one file."""

    path: Path
    n_lines: int
    has_reason: bool
    functions: tuple[Function, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One rule broken at one place."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def measure(path: Path) -> FileShape:
    """Read one Python file. A file that does not parse is the linter's to report, not ours."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source, filename=str(path))
    docstring = ast.get_docstring(tree) or ""
    return FileShape(
        path=path,
        n_lines=len(source.splitlines()),
        has_reason=any(line.startswith(REASON) for line in docstring.splitlines()),
        functions=tuple(_functions(tree)),
    )


def _functions(tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            last = node.end_lineno or node.lineno
            yield Function(name=node.name, line=node.lineno, n_lines=last - node.lineno + 1)


def breaches(shape: FileShape) -> Iterator[Breach]:
    """Compare one file with the budget."""
    for part in (*shape.path.parts[:-1], shape.path.stem):
        if part in REFUSED_NAMES:
            yield Breach(
                path=shape.path, line=1, text=f"'{part}' could hold anything; name its one noun"
            )
    yield from _file_breaches(shape)
    for function in shape.functions:
        if function.n_lines > FUNCTION_MAX:
            text = f"{function.name}() has {function.n_lines} lines; {FUNCTION_MAX} is the limit"
            yield Breach(path=shape.path, line=function.line, text=text)


def _file_breaches(shape: FileShape) -> Iterator[Breach]:
    if shape.n_lines > REFUSE_ABOVE:
        text = f"{shape.n_lines} lines; over {REFUSE_ABOVE} no reason helps, split it"
        yield Breach(path=shape.path, line=1, text=text)
    elif shape.n_lines > EXPLAIN_ABOVE and not shape.has_reason:
        text = (
            f"{shape.n_lines} lines; over {EXPLAIN_ABOVE} the module docstring says why,"
            f' on a line that starts with "{REASON}"'
        )
        yield Breach(path=shape.path, line=1, text=text)
    elif shape.n_lines <= EXPLAIN_ABOVE and shape.has_reason:
        text = f'{shape.n_lines} lines; the "{REASON}" line has done its work, remove it'
        yield Breach(path=shape.path, line=1, text=text)


def small_rooms(sources: Path) -> Iterator[Breach]:
    """Name every module under the folder that is too small for a file of its own."""
    modules = {_dotted(path.relative_to(sources)): path for path in python_files([sources])}
    importers = _importers(modules)
    documented = _documented(sources.parent)
    for name, path in modules.items():
        n_lines = len(path.read_text(encoding="utf-8").splitlines())
        is_excepted = (
            path.stem in ("__init__", "__main__") or PORTS in path.parts or name in documented
        )
        if n_lines >= ROOM_MIN or is_excepted or len(importers[name]) != 1:
            continue
        ((importer, is_at_the_top),) = importers[name].items()
        if is_at_the_top and modules[importer].stem != "__init__":
            text = f"{n_lines} lines, and only {importer} imports it; it belongs there"
            yield Breach(path=path, line=1, text=text)


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _importers(modules: Mapping[str, Path]) -> defaultdict[str, dict[str, bool]]:
    """For each module, the others that import it, and whether they do so outside of a function."""
    found = defaultdict[str, dict[str, bool]](dict)
    for importer, path in modules.items():
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))))
        functions = [node for node in nodes if isinstance(node, FUNCTIONS)]
        within = {inner for function in functions for inner in ast.walk(function)}
        for node in nodes:
            for name in _imported(node, modules):
                if name != importer:
                    earlier = found[name].get(importer, False)
                    found[name][importer] = earlier or node not in within
    return found


def _imported(node: ast.AST, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules that a statement imports: of `from a import b`, a.b if that is a module, else a."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in modules else node.module


def _documented(root: Path) -> set[str]:
    """Every dotted name in the pages that users read."""
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    texts = (page.read_text(encoding="utf-8") for page in pages if page.is_file())
    return {name for text in texts for name in re.findall(r"\b\w+(?:\.\w+)+", text)}


def python_files(folders: Sequence[Path]) -> list[Path]:
    """List every Python file beneath the folders, in a stable order."""
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def report(shapes: Sequence[FileShape], found: Sequence[Breach]) -> str:
    """Put the breaches, then one line about the largest file and function, into words."""
    lines = [str(breach) for breach in found]
    if shapes:
        largest = max(shapes, key=lambda shape: shape.n_lines)
        longest = max(
            (
                (function.n_lines, shape, function)
                for shape in shapes
                for function in shape.functions
            ),
            key=lambda entry: entry[0],
            default=None,
        )
        summary = f"{len(shapes)} files; largest {largest.path} ({largest.n_lines} lines)"
        if longest is not None:
            n_lines, shape, function = longest
            summary += f"; longest {function.name}() in {shape.path} ({n_lines} lines)"
        lines.append(summary)
    verdict = f"{len(found)} over budget" if found else "within budget"
    return "\n".join([*lines, verdict])


def main(argv: Sequence[str] | None = None) -> int:
    """Check the folders named, or those of the project; 1 if anything is over budget."""
    parser = argparse.ArgumentParser(description="Check the size budget of Python files.")
    parser.add_argument("folders", nargs="*", type=Path)
    folders = parser.parse_args(argv).folders or [
        Path(name) for name in FOLDERS if Path(name).is_dir()
    ]
    shapes = [measure(path) for path in python_files(folders)]
    found = [breach for shape in shapes for breach in breaches(shape)]
    small = [room for folder in folders if folder.name == SOURCES for room in small_rooms(folder)]
    if HOLDS_SMALL_ROOMS:
        found += small
    elif small:
        print(
            "\n".join(["Too small for a file of their own (reported, not held):", *map(str, small)])
        )
    print(report(shapes, found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
