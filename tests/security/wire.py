"""Bytes on a line, as no client would send them."""

import socket
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

PATIENCE = 30.0  # seconds, on a machine that has other things to do


@contextmanager
def line_to(service):
    where = urlsplit(service.url)
    with socket.create_connection((where.hostname, where.port), timeout=PATIENCE) as line:
        yield line


def rest_of(line):
    """All that comes until the other side closes."""
    found = b""
    with suppress(ConnectionResetError):
        while block := line.recv(1 << 16):
            found += block
    return found


def talk(service, request):
    """What comes back for these very bytes, until the line is closed."""
    with line_to(service) as line:
        with suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(request)
        return rest_of(line)


def get(path, *headers):
    """A request in these very letters, which a client would tidy up."""
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def status(answer):
    return int(answer.split()[1])
