"""Foreign JSON is read strictly: what is said twice, or cannot be said in JSON, is not guessed at."""

from __future__ import annotations

import pytest

from windlass.kernel import canonical


def test_plain_json_is_read() -> None:
    found = canonical.parse('{"a": [1, 2.5, null, true, "\\u00e9"], "b": {}}')

    assert found == {"a": [1, 2.5, None, True, "é"], "b": {}}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"a": 1, "a": 2}', id="a-name-twice"),
        pytest.param('{"a": {"b": 1, "b": 1}}', id="a-name-twice-inside"),
        pytest.param('{"a": NaN}', id="nan"),
        pytest.param('{"a": -Infinity}', id="infinity"),
        pytest.param('{"a": 1} {"a": 2}', id="two-documents"),
        pytest.param('{"a": ', id="cut"),
        pytest.param("", id="nothing"),
        pytest.param("[" * 100_000, id="too-deep"),
        pytest.param("1" * 5_000, id="too-many-digits"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical.parse(text)
