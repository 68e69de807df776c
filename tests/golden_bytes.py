"""Golden bytes of a package: what is in its files, what its values are, and what is left out."""

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from scripts import golden
from windlass.kernel import Value
from windlass.kernel.value import JsonValue


class Golden:
    """The golden values of one package, by group, and their entries in its folder of files."""

    def __init__(
        self, package: str, groups: Mapping[str, Mapping[str, Value]], folder: Path
    ) -> None:
        self.package = package
        self.groups = groups
        self.folder = folder
        self.values = {name: value for group in groups.values() for name, value in group.items()}
        self.entries = {
            name: entry
            for path in sorted(folder.glob("*.json"))
            for name, entry in golden.read(path).items()
        }

    def value_classes(self) -> set[type[Value]]:
        """Return every value class that the package defines for others to see."""
        module = importlib.import_module(self.package)
        for inner in pkgutil.iter_modules(module.__path__, f"{self.package}."):
            importlib.import_module(inner.name)
        return {
            kind
            for kind in _subclasses(Value)
            if kind.__module__.startswith(f"{self.package}.")
            and not kind.__name__.startswith("_")
            and kind is not JsonValue
        }

    def without_golden(self, kinds: set[type[Value]]) -> list[str]:
        """Return the classes of which no golden value is."""
        return sorted(kind.__name__ for kind in kinds - {type(one) for one in self.values.values()})

    def never_set(self, kinds: set[type[Value]]) -> list[str]:
        """Return the fields that hold their default in every golden value."""
        fields = {f"{kind.__name__}.{field}" for kind in kinds for field in kind.__struct_fields__}
        for name, entry in self.entries.items():
            kind = type(self.values[name])
            fields -= {f"{kind.__name__}.{field}" for field in json.loads(entry.bytes)}
        return sorted(fields)


def _subclasses(kind: type[Value]) -> Iterator[type[Value]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)
