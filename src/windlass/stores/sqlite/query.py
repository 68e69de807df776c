"""Rows as plain tuples. apsw types every column as anything that SQLite can hold; the schema says which."""

from __future__ import annotations

from typing import Any

import apsw


def select(
    db: apsw.Connection, sql: str, values: tuple[Any, ...] | dict[str, Any] = ()
) -> list[Any]:
    """Return all rows of a query."""
    return db.execute(sql, values).fetchall()


def first(db: apsw.Connection, sql: str, values: tuple[Any, ...] = ()) -> Any:  # noqa: ANN401 - a row, or None
    """Return the first row of a query; None if there is none."""
    return db.execute(sql, values).fetchone()
