"""A TCP relay that records what it carries, so that a check can read the requests a server really got.

The bytes pass unchanged in both directions, ends and resets included; they are read as HTTP only afterwards.
"""

import http.client
import io
import json
import socket
import threading


class Connection:
    """What went over one connection so far, and how many of its requests were taken."""

    def __init__(self):
        self.sent, self.received, self.taken = bytearray(), bytearray(), 0


class Relay:
    """Listens on a loopback port of its own in front of the server at `port`."""

    def __init__(self, port):
        self.server_port = port
        self.lock = threading.Lock()
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def take(self):
        """The exchanges begun since the last call, as (request, answer): the request's JSON and the streamed text."""
        exchanges = []
        with self.lock:
            for connection in self.connections:
                requests = list(parse_requests(bytes(connection.sent)))
                answers = list(parse_answers(bytes(connection.received)))
                answers += [""] * (len(requests) - len(answers))
                exchanges += list(zip(requests, answers))[connection.taken :]
                connection.taken = len(requests)
        return exchanges

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.server_port), timeout=10)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            connection = Connection()
            with self.lock:
                self.connections.append(connection)
            for source, sink, half in (
                (client, server, connection.sent),
                (server, client, connection.received),
            ):
                threading.Thread(target=self._pump, args=(source, sink, half), daemon=True).start()

    def _pump(self, source, sink, half):
        try:
            while data := source.recv(65536):
                with self.lock:
                    half += data
                sink.sendall(data)
        except OSError:
            pass
        # Either side's end ends both, as it would without a relay: a client that left must reach the server.
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def parse_requests(sent):
    """The JSON bodies of the recorded POST requests, which must carry a Content-Length."""
    stream = io.BytesIO(sent)
    while line := stream.readline():
        length = int(http.client.parse_headers(stream).get("content-length", 0))
        body = stream.read(length)
        if line.startswith(b"POST "):
            yield json.loads(body)


def parse_answers(received):
    """The text that each recorded event stream adds up to. A stream that was cut counts as far as it came."""
    stream = Unclosed(received)
    while stream.tell() < len(received):
        response = http.client.HTTPResponse(Recorded(stream))
        try:
            response.begin()
            yield streamed_text(response.read())
        except http.client.IncompleteRead as cut:
            yield streamed_text(cut.partial)
        except http.client.HTTPException:
            return


def streamed_text(body):
    text = ""
    for line in body.decode(errors="replace").splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: ")).get("choices", []):
                text += choice["delta"].get("content") or ""
    return text


class Unclosed(io.BytesIO):
    """A recorded half with several responses in it; each reader closes its file, which must not end the next."""

    def close(self):
        pass


class Recorded:
    """What `http.client` wants of a socket."""

    def __init__(self, stream):
        self.stream = stream

    def makefile(self, _mode):
        return self.stream
