"""Connections to the server."""

import socket

from client.options import READ_TIMEOUT, connect_timeout


def dial(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port), timeout=connect_timeout)
    connection.settimeout(READ_TIMEOUT)
    return connection
