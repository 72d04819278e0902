"""Raw bytes on a connection."""

import socket
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 30.0  # enough for a busy machine


@contextmanager
def line_to(service):
    where = urlsplit(service.url)
    with socket.create_connection((where.hostname, where.port), timeout=TIMEOUT_SECONDS) as line:
        yield line


def rest_of(line):
    """Receive until the connection is closed."""
    data = b""
    with suppress(ConnectionResetError):
        while block := line.recv(1 << 16):
            data += block
    return data


def talk(service, request):
    """Send these bytes and return all that is received until the connection is closed."""
    with line_to(service) as line:
        with suppress(BrokenPipeError, ConnectionResetError):
            line.sendall(request)
        return rest_of(line)


def get(path, *headers):
    """Return a GET request without the normalisation of an HTTP client."""
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: close", *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1")


def status(answer):
    return int(answer.split()[1])
