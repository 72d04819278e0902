"""A TCP proxy whose connection to a server can fail in several ways."""

import socket
import threading
from contextlib import contextmanager, suppress

BUSY = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Ask less often.</Message></Error>"
ANSWER = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BUSY), BUSY)
)


class Proxy:
    """Forwards bytes both ways; if set, answers 503 instead of the server, or never answers."""

    def __init__(self, port):
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.mode, self.refused, self.lines, self.lock = "open", 0, set(), threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode):
        with self.lock:
            self.mode = mode
            lines, self.lines = self.lines, set()
        for line in lines:
            hang_up(line)

    def _accept(self):
        with suppress(OSError):
            while True:
                line, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line):
        with self.lock:
            mode = self.mode
            self.lines.add(line)
        with line, suppress(OSError):
            if mode == "open":
                with socket.create_connection(self.target) as other:
                    with self.lock:
                        self.lines.add(other)
                    back = threading.Thread(target=pump, args=(other, line), daemon=True)
                    back.start()
                    pump(line, other)
                    back.join()
                return
            self.refused += 1
            if mode == "busy":
                seen = b""
                while b"\r\n\r\n" not in seen and (received := line.recv(65536)):
                    seen += received
                line.sendall(ANSWER)
                line.shutdown(socket.SHUT_WR)
            while line.recv(65536):  # the body, or forever
                pass

    def close(self):
        self.set("closed")
        hang_up(self.listener)
        self.listener.close()


def pump(source, sink):
    with suppress(OSError):
        while received := source.recv(65536):
            sink.sendall(received)
    hang_up(sink)


def hang_up(line):
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(port):
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
