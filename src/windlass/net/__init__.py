"""The one way out: egress rules, the client that obeys them, and a transport for other clients.

Law 1. Whatever windlass itself reads from the web goes through here, or it is a bug. The SDKs of providers, the
    processes that a tool starts and the commands that an operator types do not.
Law 2. Importing this loads no library for HTTP: a client does, when it is made or used.
"""

from windlass.errors import EgressDenied, NetworkError
from windlass.net.client import HttpClient, check_installed, transport
from windlass.net.fetched import Fetched, known_charset
from windlass.net.operator import environment
from windlass.net.rules import EgressRules
from windlass.net.target import Target

__all__ = [
    "EgressDenied",
    "EgressRules",
    "Fetched",
    "HttpClient",
    "NetworkError",
    "Target",
    "check_installed",
    "environment",
    "known_charset",
    "transport",
]
