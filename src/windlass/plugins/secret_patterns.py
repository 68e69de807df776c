"""What gives people and secrets away in a text: patterns, each with its kind.

Law 1. Every pattern takes time that grows with the text and no faster, whatever the text: it begins only where a token
    begins, takes the token without looking back, and everything else in it is of bounded length.
Law 2. What is easily mistaken is checked: cards by brand and check digit, IBANs by country, length and check digits.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

# From where a match begins and ends to where what is meant by it ends; None: it is something else.
Check: TypeAlias = Callable[[str, int, int], int | None]

_KEY_NAMES: Final = (
    r"(?:password|passwd|passphrase|pwd|secret(?:[_-]?access)?(?:[_-]?key)?|api[_-]?key|private[_-]?key"
    r"|(?:access|api|auth|bearer|bot|refresh|session)[_-]?token)"
)
# What stands there when there is none.
_NOT_NULL: Final = r"(?!(?:null|none|nil|undefined|true|false)(?:[\s\"',;&)\]}]|\Z))"
_BETWEEN: Final = r"(?:\\?[\"'])?\s{0,4}[=:]\s{0,4}"
# Names of keys that tell what stands under them.
_KEYS: Final = {
    "password": re.compile(rf"(?i){_KEY_NAMES}\Z"),
    "authorization": re.compile(r"(?i)authorization\Z"),
}
# By length: the countries.
_IBAN_COUNTRIES: Final = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
_IBAN_LENGTHS: Final = {
    country: n for n, countries in _IBAN_COUNTRIES.items() for country in countries.split()
}
_BRAND: Final = re.compile(
    r"(?:4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720)\d*(?<=\A\d{16})|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|35\d{14}|6(?:011|5\d\d|4[4-9]\d)\d{12}|62\d{14,17})\Z"
)


class Hit(NamedTuple):
    """A place in a text that is not to be read."""

    start: int
    end: int
    kind: str


class Pattern(NamedTuple):
    """What to look for. Of a pattern with groups only what the last of them took is meant.

    It is looked for only where one of `needs` stands, in small letters. What `gives_way` is left out where another
    pattern hit.
    """

    kind: str
    regex: re.Pattern[str]
    needs: tuple[str, ...] = ()
    check: Check | None = None
    gives_way: bool = False

    def hits(self, text: str) -> Iterator[Hit]:
        """Yield every place that it hits."""
        at = 0
        while (found := self.regex.search(text, at)) is not None:
            start, end = found.span(found.lastindex or 0)
            meant = end if self.check is None else self.check(text, start, end)
            if meant is None:
                at = found.start() + 1
                continue
            if meant > start:
                yield Hit(start, meant, self.kind)
            at = max(found.start() + 1, meant if self.check else found.end())


def _iban(text: str, start: int, _end: int) -> int | None:
    wanted, taken, at = _IBAN_LENGTHS.get(text[start : start + 2], 0), "", start
    while len(taken) < wanted and at < _end:
        if text[at] != " ":
            taken += text[at]
        at += 1
    if len(taken) != wanted or not wanted or text[at : at + 1].isalnum():
        return None
    turned = taken[4:] + taken[:4]
    return at if int("".join(str(int(char, 36)) for char in turned)) % 97 == 1 else None


def _card(text: str, start: int, end: int) -> int | None:
    digits = re.sub(r"[ -]", "", text[start:end])
    if _is_card(digits):
        return end
    # A security code may follow the sixteen digits.
    short = start + len(re.match(r"(?:\d[ -]?){15}\d|", text[start:end])[0])  # type: ignore[index]  # matches always
    is_shorter = start < short < end and not text[short].isdigit()
    return short if is_shorter and _is_card(digits[:16]) else None


def _is_card(digits: str) -> bool:
    if not _BRAND.match(digits):
        return False
    doubled = (2 * int(digit) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(n - 9 * (n > 9) for n in doubled)) % 10 == 0


def _phone(text: str, start: int, end: int) -> int | None:
    marks = re.sub(r"\d", "", text[start + 1 : end])
    return None if marks == "." else end  # +1.2345678 is a number


def _ipv6(text: str, start: int, end: int) -> int | None:
    import ipaddress  # noqa: PLC0415 - few look for addresses

    taken = text[start:end].rstrip(".:") if text[start:end].endswith(".") else text[start:end]
    try:
        ipaddress.IPv6Address(taken)
    except ValueError:
        return None
    return start + len(taken) if any(char.isdigit() for char in taken) else None


def _pattern(
    kind: str, regex: str, *needs: str, check: Check | None = None, gives_way: bool = False
) -> Pattern:
    return Pattern(kind, re.compile(regex), needs, check, gives_way)


_BYTE: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
# The order is the order of precedence: what two of them hit is called by the first.
_ALL: Final = (
    _pattern(
        "private-key",
        r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.*)",
        "private key",
    ),
    _pattern("jwt", r"(?a)(?<![\w-])eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]*+", "eyj"),
    _pattern("anthropic-key", r"(?a)(?<![\w-])sk-ant-[\w-]{16,}+", "sk-ant-"),
    _pattern("openai-key", r"(?a)(?<![\w-])sk-(?!ant-)(?=[A-Za-z_-]*+\d)[\w-]{20,}+", "sk-"),
    _pattern(
        "github-token",
        r"(?a)(?<!\w)(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_\w{22,255})(?!\w)",
        "gh",
        "github_pat_",
    ),
    _pattern("gitlab-token", r"(?a)(?<![\w-])glpat-[\w-]{20,}+", "glpat-"),
    _pattern("npm-token", r"(?a)(?<!\w)npm_[A-Za-z0-9]{36}(?!\w)", "npm_"),
    _pattern("huggingface-token", r"(?a)(?<!\w)hf_[A-Za-z0-9]{30,}+", "hf_"),
    _pattern(
        "stripe-key", r"(?a)(?<!\w)[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+", "k_live_", "k_test_"
    ),
    _pattern("sendgrid-key", r"(?a)(?<![\w-])SG\.[\w-]{16,}+\.[\w-]{16,}+", "sg."),
    _pattern(
        "slack-token", r"(?a)(?<![\w-])(?:xox[abceoprs]|xapp)-[A-Za-z0-9-]{10,}+", "xox", "xapp-"
    ),
    _pattern(
        "slack-webhook",
        r"(?a)(?<=hooks\.slack\.com/services/)T\w{1,20}/B\w{1,20}/\w{1,60}",
        "hooks.slack.com",
    ),
    _pattern(
        "aws-key",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
        "akia",
        "asia",
        "abia",
        "acca",
    ),
    _pattern(
        "google-key",
        r"(?a)(?<![\w-])(?:AIza[\w-]{35}(?![\w-])|ya29\.[\w-]{20,}+|GOCSPX-[\w-]{20,}+)",
        "aiza",
        "ya29.",
        "gocspx-",
    ),
    _pattern(
        "authorization",
        rf"(?i)authorization{_BETWEEN}(?:\\?[\"'])?(?:(?:bearer|basic|digest|token)\s{{1,4}})?([^\s\"',;\\]++)"
        r"|(?<!\w)bearer\s{1,4}(?=[^\s\d]{0,64}\d)([\w.~+/=-]{16,}+)",
        "authorization",
        "bearer",
    ),
    _pattern(
        "password",
        rf"(?i){_KEY_NAMES}{_BETWEEN}{_NOT_NULL}"
        r"(?:\\\"((?:(?!\\\")[^\n])++)|\"((?:[^\"\\\n]|\\.)++)|'((?:[^'\\\n]|\\.)++)|([^\s\"',;&]++))"
        r"|(?<=://)[^\s/:@]{0,64}:([^\s/@]{1,256})@",
        *("passw", "passphrase", "pwd", "secret", "key", "token", "://"),
    ),
    _pattern(
        "iban", r"(?<![A-Za-z0-9])[A-Z]{2}\d\d(?: ?[A-Z0-9]){11,30}+", *"0123456789", check=_iban
    ),
    _pattern(
        "card",
        r"(?<![\d.,+])(?=[2-6])(?:\d{4}[ -]\d{4}[ -]\d{4}[ -]\d{4}(?:[ -]\d{3})?|\d{4}[ -]\d{6}[ -]\d{4,5}|\d{13,19})(?!\d)",
        *"23456",
        check=_card,
    ),
    _pattern("phone", r"(?<![\w+])\+[1-9](?:[ ()./-]{0,2}\d){7,14}(?!\d)", "+", check=_phone),
    _pattern(
        "email",
        # git@ is how repositories are addressed.
        r"(?<![\w.%+-])(?!git@)[\w.%+-]++@(?:[\w-]++\.)+(?:[A-Za-z]{2,}+|[^\W\d_]{2,}+)",
        "@",
        gives_way=True,
    ),
    _pattern("ipv4", rf"(?<![\w.])(?:{_BYTE}\.){{3}}{_BYTE}(?!\w|\.\d)", "."),
    _pattern(
        "ipv6", r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:.]{3,45}+(?![\w:])", ":", check=_ipv6
    ),
)
KINDS: Final = tuple(pattern.kind for pattern in _ALL)
"""Every kind that is known, in the order of precedence."""
DEFAULTS: Final = tuple(kind for kind in KINDS if kind not in ("ipv4", "ipv6"))
"""What is looked for unless something else is asked for: all but addresses of machines."""
PERSONAL: Final = frozenset({"email", "iban", "ipv4", "ipv6", "phone"})
"""Kinds of which two may be told apart without giving either away."""


class Patterns:
    """Some of the patterns, and patterns of the user's own, which come first."""

    def __init__(self, kinds: Iterable[str], custom: Mapping[str, re.Pattern[str]]) -> None:
        chosen = frozenset(kinds)
        self._patterns = tuple(
            [Pattern(name, regex) for name, regex in custom.items()]
            + [pattern for pattern in _ALL if pattern.kind in chosen]
        )
        self._keys = [(kind, regex) for kind, regex in _KEYS.items() if kind in chosen]

    def hits(self, text: str) -> list[Hit]:
        """Return what is not to be read, from the left, none over another."""
        firm = _merged(text, [one for one in self._patterns if not one.gives_way])
        starts = [hit.start for hit in firm]
        found = list(firm)
        for hit in _merged(text, [one for one in self._patterns if one.gives_way]):
            at = bisect_left(starts, hit.end)
            if at == 0 or firm[at - 1].end <= hit.start:
                found.append(hit)
        return sorted(found)

    def kind_of_key(self, key: str) -> str | None:
        """Return what stands under a key of that name, if its name says so."""
        return next((kind for kind, regex in self._keys if regex.search(key)), None)


def _merged(text: str, patterns: Sequence[Pattern]) -> list[Hit]:
    """Return what the patterns hit; of hits that overlap one, called by the first pattern of them."""
    small = text.lower()
    patterns = [
        one for one in patterns if not one.needs or any(need in small for need in one.needs)
    ]
    found = sorted(
        (hit.start, rank, hit.end) for rank, one in enumerate(patterns) for hit in one.hits(text)
    )
    merged: list[list[int]] = []
    for start, rank, end in found:
        if merged and start < merged[-1][1]:
            last = merged[-1]
            last[1], last[2] = max(last[1], end), min(last[2], rank)
        else:
            merged.append([start, end, rank])
    return [Hit(start, end, patterns[rank].kind) for start, end, rank in merged]
