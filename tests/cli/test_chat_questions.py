"""A question in a conversation: all that would run is on the screen, and a wrong edit uses nothing up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.started import Begin, lines


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ('{"cents": 45000', "edit: not valid JSON"),
        ("[1]", "edit: found list, wanted a JSON object"),
        ('{"cents": "lots", "to": "landlord"}', "edit.cents: found str, wanted int"),
        ('{"cents": 45000}', "edit.to: found nothing, wanted a value"),
    ],
)
def test_an_edit_that_cannot_run_is_refused_and_may_be_tried_again(
    begin: Begin, tmp_path: Path, typed: str, says: str
) -> None:
    chat = begin()

    chat.say("pay the rent")
    chat.until("[s]ession >")
    chat.answer("e")
    chat.until('arguments > {"cents":90000,"to":"landlord"}')
    chat.type("\x15")
    chat.answer(typed)
    chat.until(says)
    chat.until("[s]ession >", count=2)
    assert lines(tmp_path, "payments.txt") == []
    chat.answer("e")
    chat.until("arguments >", count=2)
    chat.type("\x15")
    chat.answer('{"cents": 45000, "to": "landlord"}')
    chat.until("✓ pay paid 45000 to landlord")

    assert lines(tmp_path, "payments.txt") == ["landlord 45000"]


def test_what_would_run_is_shown_whole_and_nothing_in_it_is_hidden(
    begin: Begin, tmp_path: Path
) -> None:
    chat = begin()

    chat.say("pay hostile")
    chat.until("[s]ession >")
    rows = [line[2:-2] for line in chat.screen.splitlines() if line.startswith("│ ")]
    shown = "\n".join(rows).replace("\n↪ ", "")
    assert "tidy up the folder " * 40 in shown
    assert r"\u202eeva\u2066\u009b2J\u2028\u3164\udb40\udc41\n" in shown
    assert 'to mallory"' in shown
    for hidden in "\u202e\u2066\x9b\u2028\u3164\U000e0041":
        assert hidden not in chat.raw
    chat.answer("n")
    chat.until("It ended: Denied")

    assert lines(tmp_path, "payments.txt") == []
