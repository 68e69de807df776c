"""Descriptions from docstrings, in the three styles that people write."""

from __future__ import annotations

import pytest

from windlass.tools.docstring import Docstring, parse

GOOGLE = """Send a mail.

    It goes out at once,
    and cannot be called back.

    Args:
        to: Who gets it.
        subject (str, optional): What it is about;
            one line.
        body: The text: all of it.

        *rest: More.

    Returns:
        The id.

    Raises:
        ToolError: no such person.
    """

NUMPY = """Send a mail.

    It goes out at once,
    and cannot be called back.

    Parameters
    ----------
    to : str
        Who gets it.
    subject : str, optional
        What it is about;
        one line.
    body
        The text: all of it.
    x, y : int
        A place.

    Returns
    -------
    str
        The id.
    """

SPHINX = """Send a mail.

    It goes out at once,
    and cannot be called back.

    :param to: Who gets it.
    :param str subject: What it is about;
        one line.
    :type body: str
    :param body: The text: all of it.
    :returns: The id.
    :raises ToolError: no such person.
    """

DESCRIPTION = "Send a mail.\n\nIt goes out at once,\nand cannot be called back."
PARAMETERS = {
    "to": "Who gets it.",
    "subject": "What it is about; one line.",
    "body": "The text: all of it.",
}


@pytest.mark.parametrize(
    ("text", "more"),
    [
        pytest.param(GOOGLE, {"rest": "More."}, id="google"),
        pytest.param(NUMPY, {"x": "A place.", "y": "A place."}, id="numpy"),
        pytest.param(SPHINX, {}, id="sphinx"),
    ],
)
def test_each_style_gives_the_same_description_and_parameters(
    text: str, more: dict[str, str]
) -> None:
    assert parse(text) == Docstring(DESCRIPTION, PARAMETERS | more)


@pytest.mark.parametrize(
    ("text", "description", "parameters"),
    [
        (None, "", {}),
        ("", "", {}),
        ("One line.", "One line.", {}),
        ("Args:\n    a: first", "", {"a": "first"}),
        ("Sum.\n\nArguments:\n    a:\n        first\n        of two", "Sum.", {"a": "first of two"}),
        ("Sum.\n\nReturns:\n    a: not a parameter", "Sum.", {}),
        ("Sum.\n\nArgs:\n    a: first\n\nLater words.", "Sum.", {"a": "first"}),
        ("Notes on Args: they are words.", "Notes on Args: they are words.", {}),
        ("Do.\n\nUse this:\n    like so", "Do.\n\nUse this:\n    like so", {}),
        ("Sum.\n\nArgs:\n    just prose", "Sum.", {}),
        ("Sum.\n:param a: first", "Sum.", {"a": "first"}),
        ("Sum.\n\nParameters\n----------\n", "Sum.", {}),
        ("Sum.\n\nReturns\n-------\nint\n\nParameters\n---------\na : int\n    first", "Sum.", {"a": "first"}),
        ("A :param is no field here", "A :param is no field here", {}),
        ("Sum.\n\nArgs:\n    a (Callable[[int], str]): first\n    b (dict): of k: v", "Sum.",
         {"a": "first", "b": "of k: v"}),
    ],
)  # fmt: skip
def test_odd_docstrings_are_read_as_far_as_they_go(
    text: str | None, description: str, parameters: dict[str, str]
) -> None:
    assert parse(text) == Docstring(description, parameters)
