"""A secret shows itself to nobody but the call that asks; the redactor finds it in foreign text."""

from __future__ import annotations

import base64
import copy
import pickle
import traceback
import urllib.parse
from collections.abc import Callable

import pytest

from windlass.errors import ConfigError, InvalidInput
from windlass.guards import Redactor, Secret, register_secret
from windlass.guards.secret import REGISTERED, check_no_secret
from windlass.kernel import EndTurn, ToolOutcome, canonical, freeze

KEY = "sk-9f/8+aZ=q"


def secret(value: str = KEY, name: str = "API_KEY") -> Secret:
    return Secret(value, name=name)


# --- the secret --------------------------------------------------------------------------------


def test_a_secret_is_had_by_asking_for_it() -> None:
    assert secret().reveal() == KEY
    assert secret().name == "API_KEY"
    assert Secret(KEY).name == "secret"


@pytest.mark.parametrize(
    "show",
    [
        repr,
        str,
        lambda hidden: f"{hidden}",
        lambda hidden: f"{hidden!r:>40}",
        lambda hidden: "%s %r" % (hidden, hidden),  # noqa: UP031 - the old way must hide it too
        "{0}".format,
        lambda hidden: str([hidden, {"key": hidden}]),
        lambda hidden: str(ConfigError(f"bad {hidden}")),
    ],
)
def test_a_secret_does_not_show_itself(show: Callable[[Secret], str]) -> None:
    shown = show(secret())

    assert KEY not in shown
    assert "Secret(API_KEY)" in shown


def test_a_secret_is_not_in_the_traceback_of_an_error_about_it() -> None:
    try:
        pickle.dumps(secret())
    except TypeError:
        shown = traceback.format_exc()

    assert KEY not in shown


@pytest.mark.parametrize(
    "copy_out",
    [
        pickle.dumps,
        lambda hidden: pickle.dumps({"key": [hidden]}),
        copy.copy,
        copy.deepcopy,
    ],
    ids=["pickle", "pickle-inside", "copy", "deepcopy"],
)
def test_a_secret_cannot_be_copied_into_bytes(copy_out: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=r"^Secret\(API_KEY\) cannot be copied into bytes$"):
        copy_out(secret())


def test_secrets_are_equal_by_value_and_never_equal_to_text() -> None:
    assert secret() == Secret(KEY, name="another name")
    assert secret() != secret(KEY + "x")
    assert secret() != KEY
    assert (secret() == KEY) is False
    assert secret("päss-wörd") == secret("päss-wörd")


def test_equal_secrets_are_one_key_and_not_the_key_of_their_text() -> None:
    assert len({secret(), Secret(KEY, name="other")}) == 1
    assert len({secret(), secret(KEY + "x")}) == 2
    assert hash(secret()) != hash(KEY)


@pytest.mark.parametrize("value", ["", "x", "12345", None, 123456, b"123456"], ids=repr)
def test_what_is_too_short_or_no_text_is_refused_without_being_shown(value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        Secret(value, name="API_KEY")  # type: ignore[arg-type] # what is tried
    assert str(refused.value) == "API_KEY: a secret is text of at least 6 characters"
    assert (refused.value.field, refused.value.wanted) == ("API_KEY", "at least 6 characters")


def test_six_characters_are_enough() -> None:
    assert Secret("123456").reveal() == "123456"


def test_a_secret_has_no_room_for_anything_else() -> None:
    with pytest.raises(AttributeError):
        secret().note = "x"  # type: ignore[attr-defined] # what is tried


@pytest.mark.parametrize(
    "put_in",
    [
        canonical.encode,
        canonical.digest,
        freeze,
        lambda hidden: canonical.encode({"key": hidden}),
        lambda hidden: canonical.encode([hidden]),
        lambda hidden: ToolOutcome(value={"key": hidden}),
        lambda hidden: EndTurn(value=hidden),
    ],
)
def test_no_encoder_takes_a_secret_and_the_refusal_does_not_show_it(
    put_in: Callable[[object], object],
) -> None:
    with pytest.raises(InvalidInput) as refused:
        put_in(secret())
    assert "Secret" in str(refused.value)
    assert KEY not in str(refused.value)
    assert KEY not in repr(refused.value.found)


# --- the redactor ------------------------------------------------------------------------------


def clean(text: str, *secrets: Secret) -> str:
    return Redactor(secrets or [secret()]).clean(text)


def test_plain_text_is_redacted_wherever_it_stands() -> None:
    assert clean(KEY) == "[API_KEY]"
    assert clean(f"bad key {KEY}!") == "bad key [API_KEY]!"
    assert clean(f"{KEY}{KEY} and {KEY}") == "[API_KEY][API_KEY] and [API_KEY]"


@pytest.mark.parametrize("text", ["", "nothing here", KEY[:-1], KEY.upper(), "sk-"])
def test_text_without_a_secret_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("sk-9f/8+aZ=q", "sk-9f%2F8%2BaZ%3Dq"),
        ("two words &more", "two%20words%20%26more"),
        ("two words &more", "two+words+%26more"),
        ("pässwort", "p%C3%A4sswort"),
    ],
)
def test_a_secret_in_a_url_is_redacted(value: str, encoded: str) -> None:
    assert clean(f"GET /v1?key={encoded}&x=1", secret(value)) == "GET /v1?key=[API_KEY]&x=1"


@pytest.mark.parametrize(
    "encoded", ["sk-9f/8%2BaZ%3Dq", "sk-9f%2f8%2baZ%3dq"], ids=["slash", "lower"]
)
def test_a_secret_in_a_url_is_redacted_however_the_url_was_written(encoded: str) -> None:
    assert clean(f"?key={encoded}") == "?key=[API_KEY]"


@pytest.mark.parametrize(
    ("text", "coded", "cleaned"),
    [
        # What is left beside the mark are characters that mix in bits of what stood around.
        ("abcdef", "YWJjZGVm", "[API_KEY]"),
        ("u:abcdef", "dTphYmNkZWY=", "dTp[API_KEY]Y="),
        ("us:abcdef", "dXM6YWJjZGVm", "dXM6[API_KEY]"),
        ("use:abcdef", "dXNlOmFiY2RlZg==", "dXNlOm[API_KEY]g=="),
        ("user:abcdef", "dXNlcjphYmNkZWY=", "dXNlcjp[API_KEY]Y="),
        ("abcdef:", "YWJjZGVmOg==", "[API_KEY]Og=="),
        ("user:abcdef:x", "dXNlcjphYmNkZWY6eA==", "dXNlcjp[API_KEY]Y6eA=="),
    ],
)
def test_a_secret_inside_base64_is_redacted_at_all_three_offsets(
    text: str, coded: str, cleaned: str
) -> None:
    assert base64.b64encode(text.encode()).decode() == coded

    assert clean(f"Basic {coded}.", secret("abcdef")) == f"Basic {cleaned}."


@pytest.mark.parametrize("value", [KEY, "abcdefg", "abcdefgh", "??>>~~??>>", "pässwort"])
@pytest.mark.parametrize("n_before", range(7))
@pytest.mark.parametrize("n_after", range(4))
@pytest.mark.parametrize("is_urlsafe", [False, True], ids=["plain", "urlsafe"])
def test_of_a_secret_inside_base64_only_its_edges_are_left(
    value: str, n_before: int, n_after: int, is_urlsafe: bool
) -> None:
    encode = base64.urlsafe_b64encode if is_urlsafe else base64.b64encode
    raw = value.encode()
    coded = encode(b"\xfb" * n_before + raw + b"\xfb" * n_after).decode()

    before, mark, after = clean(coded, secret(value)).partition("[API_KEY]")

    # Each character holds six bits: none that holds bits of the secret alone is left.
    assert mark
    assert coded.startswith(before)
    assert coded.endswith(after)
    assert len(before) * 6 - n_before * 8 < 6
    assert len(after.rstrip("=")) * 6 - n_after * 8 < 12


def test_a_secret_that_begins_another_does_not_leave_the_rest_of_it() -> None:
    short, long = secret("hunter22", "SHORT"), secret("hunter22-and-more", "LONG")

    for order in ([short, long], [long, short]):
        assert Redactor(order).clean("hunter22-and-more hunter22") == "[LONG] [SHORT]"


def test_many_secrets_are_redacted_each_by_its_name() -> None:
    one, two = secret("first-secret", "ONE"), secret("second-secret", "TWO")

    assert clean("first-secret second-secret", one, two) == "[ONE] [TWO]"


@pytest.mark.parametrize("name", ["hunter22", "my hunter22", "SECOND second-secret"])
def test_what_was_redacted_once_stays_so_also_when_a_name_holds_a_secret(name: str) -> None:
    redactor = Redactor([secret("hunter22", name), secret("second-secret", "TWO")])

    assert redactor.clean("a hunter22 b") == "a [...] b"
    assert redactor.clean("a [...] b second-secret") == "a [...] b [TWO]"


def test_a_redactor_without_secrets_changes_nothing() -> None:
    assert Redactor([]).clean(KEY) == KEY
    assert Redactor([]).clean_length(KEY) == len(KEY)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("", 0),
        ("hunter3", 7),
        ("a hunter2", 2),
        ("a hunterhunt", 8),
        ("s", 1),
        ("huhuhunter2", 4),
    ],
)
def test_an_end_that_may_begin_a_secret_is_not_surely_clean(text: str, length: int) -> None:
    assert Redactor([secret("hunter22")]).clean_length(text) == length


def test_the_longest_form_of_a_secret_is_known_and_none_without_one() -> None:
    """In JSON inside JSON each quotation mark is four characters."""
    two = (Secret("a" * 30), Secret('""""""""""'))

    assert Redactor([]).longest == 0
    assert Redactor(two).longest == 40


def test_an_end_that_may_begin_a_coded_secret_is_not_surely_clean() -> None:
    coded = base64.b64encode(KEY.encode()).decode()

    assert Redactor([secret()]).clean_length(f": {coded[:5]}") == 2


def test_text_that_was_cleaned_stays_as_it_is() -> None:
    once = clean(f"{KEY} {urllib.parse.quote(KEY, safe='')}")

    assert clean(once) == once


# --- what the process knows ----------------------------------------------------------------------


def test_a_registered_secret_is_known_to_the_whole_process_once() -> None:
    first = register_secret(secret())

    assert register_secret(secret()) == first
    assert REGISTERED.secrets == (first,)
    assert REGISTERED.clean(f"it is {KEY}") == "it is [API_KEY]"


def test_what_cannot_be_redacted_is_refused_without_being_shown() -> None:
    check_no_secret(KEY.encode(), field="data", wanted="bytes")
    register_secret(secret())
    check_no_secret(b"nothing here", field="data", wanted="bytes")

    with pytest.raises(InvalidInput, match="data: found a registered secret, wanted bytes"):
        check_no_secret(f"see {KEY}".encode(), field="data", wanted="bytes")
