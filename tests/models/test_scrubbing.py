"""Scrubbing takes out secrets wherever a stream cuts them, and leaves every other byte as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.limits import times
from tests.models import wire_anthropic as claude
from tests.models import wire_google as gemini
from tests.models import wire_openai_chat as chat
from tests.models import wire_openai_responses as responses
from windlass.guards.secret import Redactor, Secret
from windlass.models.recording.json_leaves import leaves_of
from windlass.models.recording.scrubbing import Edit, Scrubber, applied, moved
from windlass.plugins.secret_patterns import KINDS, Patterns

KEY = "my-own-Secret-0123456789"
REDACTOR = Redactor((Secret(KEY, name="MY_KEY"),))


def scrubber(**options: Any) -> Scrubber:
    options.setdefault("swaps", {})
    return Scrubber(REDACTOR, Patterns(KINDS, {}), **options)


def scrubbed(value: object, **options: Any) -> Any:  # noqa: ANN401 - JSON
    return json.loads(scrubber(**options).text(json.dumps(value)))


PLAIN = {
    "anthropic": claude.answer(claude.text(0, "Grüße, ", '\u2028 \\ " 🙂'), claude.tool_use(1, "toolu_1", "add", '{"a": 1.0}')).body,
    "responses": responses.completed(responses.message("Hello.")).replace(b"resp_67c9", b"resp"),
    "chat": chat.whole(*chat.words("One, ", "two."), chat.calls(chat.piece(0, "call_1", "add", '{"a": [1e3]}'))),
    "google": gemini.stream(gemini.said({"text": "Hello.\r\n"}), gemini.ended()).body.replace(b"responseId", b"x"),
    "error": b'{"error": {"message": "Overloaded",\n  "code": 529}}',
    "comments": b": ping\r\n\r\nid: 7\r\nretry: 10\r\ndata: [DONE]\r\n\r\n",
    "page": b"<html><body>502 Bad Gateway</body></html>",
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_what_hides_nothing_stays_as_it_is_to_the_byte(name: str) -> None:
    text = PLAIN[name].decode().replace("resp_", "r")

    assert scrubber().edits(text) == []


@settings(max_examples=times(100), deadline=None)
@given(st.integers(0, len(KEY)), st.integers(0, len(KEY)), st.integers(1, 4))
def test_a_secret_in_pieces_is_a_mark_where_it_begins(one: int, two: int, between: int) -> None:
    first, second = sorted((one, two))
    pieces = ["It is ", KEY[:first], KEY[first:second], KEY[second:], " and that is " * between]
    body = claude.answer(claude.text(0, *pieces)).body.decode()
    events = [
        json.loads(line[6:]) for line in scrubber().text(body).splitlines() if line[:5] == "data:"
    ]
    said = "".join([event["delta"].get("text", "") for event in events if "delta" in event])

    assert said == "It is [MY_KEY]" + " and that is " * between


def test_texts_of_two_calls_are_not_mixed_up() -> None:
    """Pieces of parallel calls come by turns; each call's text is put together by its number."""
    one, two = KEY[:8], KEY[8:16]
    chunks = [
        chat.calls(
            chat.piece(0, "call_1", "a", '{"x": "'), chat.piece(1, "call_2", "b", f'{{"y": "{one}')
        ),
        chat.calls(chat.piece(1, arguments=two)),
        chat.calls(chat.piece(0, arguments="plain")),
        chat.calls(chat.piece(1, arguments=KEY[16:] + '"}')),
        chat.calls(chat.piece(0, arguments='"}')),
    ]
    text = scrubber().text(chat.whole(*chunks, finish="tool_calls").decode())
    written = {0: "", 1: ""}
    for line in text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                for each in choice["delta"].get("tool_calls", ()):
                    written[each["index"]] += each["function"].get("arguments", "")

    assert written == {0: '{"x": "plain"}', 1: '{"y": "[MY_KEY]"}'}


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"signature": "ab" * 20}, 32),
        ({"thoughtSignature": "ab" * 8}, 16),
        ({"encrypted_content": "ab" * 5000}, 1024),
        ({"some": {"new_field": "Ab0/" * 16}}, 64),
        ({"content": "ab" * 100}, None),
        ({"text": "ab" * 100}, None),
    ],
)
def test_a_blob_has_a_stand_in_of_its_size_class_and_words_have_none(
    value: dict[str, Any], left: int | None
) -> None:
    found = scrubbed(value)
    if left is None:
        assert found == value
    else:
        (stand_in,) = [leaf.value for leaf in leaves_of(json.dumps(found)) if leaf.kind == "string"]
        assert len(stand_in) == left
        assert "ab" * 8 not in stand_in


def test_the_same_blob_has_the_same_stand_in_and_another_another() -> None:
    one, two, three = scrubbed([{"signature": each * 10} for each in ("abcd", "efgh", "abcd")])

    assert one == three != two


def test_who_asked_is_gone_near_the_top_and_kept_in_what_tools_are_given() -> None:
    value = {"user": "u-1", "id": "resp_0123456789abcdef", "call": {"input": {"user": "Ada"}}}

    assert scrubbed(value) == {
        "user": "id-1",
        "id": "resp_000000000002",
        "call": {"input": {"user": "Ada"}},
    }


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("of org-A1b2C3d4E5 on tokens", "of [org] on tokens"),
        ("see req_011CSHoEeqs5C35K2UUqR7Fy.", "see [req]."),
        ("for consumer 'project_number:123456789012'", "for consumer '[project]'"),
        ("mail ada@example.org or +49 170 5550123", "mail [email] or [phone]"),
        ("Bearer abcdefgh12345678ijkl", "Bearer [authorization]"),
        ("AIzaSyA1234567890123456789012345678901x", "[google-key]"),
        ("pay with 4111 1111 1111 1111", "pay with 1111 1111 1111 1111"),
    ],
)
def test_texts_that_give_somebody_away(text: str, clean: str) -> None:
    assert scrubbed({"message": text}) == {"message": clean}
    assert scrubber().text(text) == clean  # words that are not JSON


def test_a_number_stays_a_number() -> None:
    args = json.dumps({"card": 4111111111111111, "n": 12})

    assert scrubbed({"args": {"card": 4111111111111111}}) == {"args": {"card": 1111111111111111}}
    assert json.loads(scrubbed({"arguments": args})["arguments"]) == {"card": 1111111111111111, "n": 12}  # fmt: skip


def test_a_field_whose_name_says_so_is_gone() -> None:
    assert scrubbed({"args": {"password": "hunter2"}}) == {"args": {"password": "[password]"}}


@pytest.mark.parametrize("length", range(12, len(KEY)))
def test_an_answer_that_is_cut_off_in_a_secret_keeps_none_of_it(length: int) -> None:
    body = claude.answer(claude.text(0, KEY)).body.decode()
    cut = body[: body.index(KEY) + length]

    left = scrubber().text(cut)
    assert KEY[:12] not in left
    assert left.startswith(cut[: -length - 1])


def test_half_of_a_blob_is_gone_too() -> None:
    body = claude.answer(claude.thinking(0, "Hm.")).body.decode()
    cut = body[: body.index(claude.SIGNATURE) + 30]

    assert claude.SIGNATURE[:16] in cut
    assert claude.SIGNATURE[:16] not in scrubber().text(cut)
    assert claude.SIGNATURE[:16] in scrubber(keep_signatures=True).text(cut)


def test_texts_are_swapped_wherever_they_stand() -> None:
    found = scrubbed(
        {"at": "http://10.0.0.7:8080/v1/x"}, swaps={"http://10.0.0.7:8080": "http://r"}
    )

    assert found == {"at": "http://r/v1/x"}


def test_half_of_a_character_is_written_as_an_escape() -> None:
    text = '{"text": "\\ud83d ' + KEY + '"}'

    assert scrubber().text(text) == '{"text": "\\ud83d [MY_KEY]"}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def strings_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in (key, *strings_in(item))]
    return [text for item in value for text in strings_in(item)] if isinstance(value, list) else []


@settings(max_examples=times(100), deadline=None)
@given(JSON, st.booleans(), st.sampled_from([None, 2]))
def test_every_string_of_json_is_found(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    leaves = leaves_of(text)

    assert [leaf.value for leaf in leaves if leaf.kind in ("string", "key")] == strings_in(value)
    assert all(json.loads(f'"{text[leaf.start : leaf.end]}"') == leaf.value for leaf in leaves if leaf.kind == "string")  # fmt: skip


def test_json_that_is_nested_without_end_is_words() -> None:
    text = "[" * 100_000

    assert [(leaf.kind, leaf.value) for leaf in leaves_of(text)] == [("other", text)]


@settings(max_examples=times(100), deadline=None)
@given(st.text(max_size=30), st.data())
def test_places_move_with_the_text_around_them(text: str, data: st.DataObject) -> None:
    bounds = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edits = [Edit(start, end, "ß?") for start, end in zip(bounds[::2], bounds[1::2], strict=False) if start < end]  # fmt: skip
    places = sorted(data.draw(st.lists(st.integers(0, len(text.encode())), max_size=6)))
    whole = applied(text, edits).encode()
    found = moved(places, text, edits)

    assert found == sorted(found)
    assert all(0 <= place <= len(whole) for place in found)
    for old, new in zip(places, found, strict=True):
        outside = not any(len(text[: each.start].encode()) < old < len(text[: each.end].encode()) for each in edits)  # fmt: skip
        is_last = not edits or old >= len(text[: edits[-1].end].encode())
        if outside and is_last:  # what follows the last edit is as far from the end as it was
            assert len(whole) - new == len(text.encode()) - old
