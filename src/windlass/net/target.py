"""Where a request goes: a URL, read in the one way in which it can be read.

Law 1. What two readers could read differently is refused, not interpreted: numbers in odd spellings, backslashes,
    escapes in a host, characters that cannot be seen. So the host that is judged is the host that is called.
Law 2. A message names the host at most; never the path, the query or credentials, and nothing that could be a
    password where a URL is not written as it should be.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import quote

from windlass.errors import EgressDenied
from windlass.guards.text import is_hidden, visible
from windlass.net.addresses import address_of

PORTS: Final = {"http": 80, "https": 443}
_MAX_CHARS: Final = 8_192
_LIMIT: Final = f"the limit is {_MAX_CHARS:,}"
_SHAPE: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?:#.*)?",
    re.ASCII,
)
_AUTHORITY: Final = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{0,5}))?", re.ASCII
)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
# A host that ends like this is an IPv4 address to some readers, in one of its many spellings.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
# An at sign as it is, and what other readers take for one.
_AT: Final = re.compile("[@\ufe6b\uff20]|%40")
# Other schemes are not shown: in front of a colon may stand anything, also a password.
_SHOWN_SCHEMES: Final = frozenset({
    "about", "blob", "chrome", "data", "file", "ftp", "gopher", "javascript", "mailto", "sftp", "ssh", "tel", "ws", "wss",
})  # fmt: skip
# What may stand in a path or a query as it is; a percent sign is taken as written already.
_PLAIN: Final = "%/:@!$&'()*+,;=-._~?[]|^`{}\"<>"


class Target(NamedTuple):
    """A scheme, a host, a port, and the path with its query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """What has to be the same for a request to be to the same place."""
        return (self.scheme, self.host, self.port)

    @property
    def url(self) -> str:
        """The address in its one spelling."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if PORTS.get(self.scheme) == self.port else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.path}"


def target_of(url: str) -> Target:
    """Return where a URL leads.

    Raises:
        EgressDenied: it can be read in several ways, has credentials in it, or is not a URL at all.
    """
    match = _SHAPE.fullmatch(url) if _is_readable(url) else None
    if match is None or (match["authority"] is None and match["scheme"].lower() in PORTS):
        raise _not_a_url(url)
    scheme, authority = match["scheme"].lower(), match["authority"] or ""
    found = _AUTHORITY.fullmatch(authority)
    # A password with a slash or a # in it ends what looks like the host: the at sign comes later.
    if _AT.search(authority) or (found is None and "@" in url):
        told = "a name or password stands in front of the host; leave it out"
        raise EgressDenied(f"url: refused by the rule credentials: {told}", rule="credentials")
    if scheme not in PORTS:
        shown = scheme if scheme in _SHOWN_SCHEMES else "url"
        told = f"{shown}: refused by the rule scheme: wanted an address with https:// or http://"
        raise EgressDenied(told, rule="scheme")
    if found is None:
        raise bad_host(authority)
    port = int(found["port"] or PORTS[scheme])
    path = quote((match["path"] or "/") + (match["query"] or ""), safe=_PLAIN)
    target = Target(scheme, host_of(found["host"]), port, path)
    if len(target.url) > _MAX_CHARS:
        raise _refused(f"{len(target.url):,} characters once it is written in ASCII; {_LIMIT}")
    return target


def host_of(text: str) -> str:
    """Return a host in its one spelling: a name in lower case and ASCII, or an address without brackets.

    Raises:
        EgressDenied: it is not a host, or one that could be read in several ways.
    """
    if text.startswith("[") or ":" in text:
        bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        address = address_of(bare) if "%" not in bare and ":" in bare else None
        if address is None:
            raise bad_host(text)
        return str(address)
    name = (text if text.isascii() else _as_ascii(text)).lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise bad_host(text)
    if _NUMBER.fullmatch(labels[-1]) and address_of(name) is None:
        raise bad_host(text)
    return name


def bad_host(text: str) -> EgressDenied:
    """Return the refusal of a host that cannot be read in one way only."""
    is_shown = text.isascii() and not {":", "%"} & set(text)  # these may be of a password
    shown = shown_host(text) if is_shown else ""
    wanted = "wanted a name such as docs.python.org, or an address such as 93.184.215.14 or [2606:4700::1]"
    told = f"{shown or 'url'}: refused by the rule host: {wanted}"
    return EgressDenied(told, rule="host", host=shown)


def shown_host(text: str) -> str:
    """Return a host as a message can carry it."""
    return visible(text if len(text) <= 100 else text[:100] + "…") or "no host"


def _as_ascii(text: str) -> str:
    import idna  # noqa: PLC0415 - comes with httpx2; few hosts need it

    try:
        return idna.encode(text, uts46=True, std3_rules=True).decode()
    except (idna.IDNAError, UnicodeError):
        raise bad_host(text) from None


def _is_readable(url: str) -> bool:
    if not isinstance(url, str) or not 0 < len(url) <= _MAX_CHARS:
        return False
    return "\\" not in url and " " not in url and not any(map(is_hidden, url))


def _not_a_url(url: object) -> EgressDenied:
    if not isinstance(url, str):
        return _refused(type(url).__name__)
    if len(url) > _MAX_CHARS:
        return _refused(f"{len(url):,} characters; {_LIMIT}")
    if any(is_hidden(char) or char in " \\" for char in url):
        told = "a blank, a backslash or a character that cannot be seen; write it as %20, %5C …"
        return _refused(told)
    return _refused("text without a scheme and a host")


def _refused(found: str) -> EgressDenied:
    wanted = "wanted an address such as https://docs.python.org/3/"
    return EgressDenied(f"url: found {found}; {wanted}", rule="url", found=found, wanted=wanted)
