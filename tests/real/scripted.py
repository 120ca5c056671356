"""An upstream for what `loadtest upstream` does not offer: an identity of its own, and telling when its peer left.

What it does is told by the model's name:

foreign-after-N  N words of `text`, in frames that call themselves otherwise than those of `loadtest upstream`; then FIN
endless          a word every 20 ms for as long as the peer stays
silent           no byte ever comes
anything else    an answer of one word

`GET /gone` answers once every peer of an endless or silent answer has left, or after 5 s, with the models asked for
since the last such call and the number of peers that are still there.
"""

import http.server
import json
import re
import select
import socket
import threading

GONE_SECONDS = 5
GAP_SECONDS = 0.02
CHUNK = {"id": "chatcmpl-foreign", "object": "chat.completion.chunk", "created": 1_600_000_000, "model": "foreign"}


class Scripted(http.server.ThreadingHTTPServer):
    """Listens on a loopback port of its own. `text` is to be set before the first foreign answer."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self.text, self.asked, self.peers = "", [], 0
        self.changed = threading.Condition()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()

    def take(self):
        with self.changed:
            self.changed.wait_for(lambda: self.peers == 0, GONE_SECONDS)
            asked, self.asked = self.asked, []
            return {"asked": asked, "peers": self.peers}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = json.dumps(self.server.take()).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        watched = model in ("endless", "silent")
        with self.server.changed:
            self.server.asked.append(model)
            self.server.peers += watched
        self.close_connection = True
        try:
            self.answer(model)
        except OSError:
            pass  # the peer left while it was written to
        finally:
            with self.server.changed:
                self.server.peers -= watched
                self.server.changed.notify_all()

    def answer(self, model):
        if model == "silent":
            return self.peer_left(None)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.frame({"role": "assistant", "content": ""})
        if model == "endless":
            while not self.peer_left(GAP_SECONDS):
                self.frame({"content": "on "})
        elif model.startswith("foreign-after-"):
            for word in re.findall(r"\S+ ?", self.server.text)[: int(model.removeprefix("foreign-after-"))]:
                self.frame({"content": word})
        else:
            self.frame({"content": "unexpected"})
            self.frame({}, "stop")
            self.wfile.write(b"0\r\n\r\n")

    def frame(self, delta, finish=None):
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        frame = f"data: {json.dumps({**CHUNK, 'choices': [choice]})}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))

    def peer_left(self, seconds):
        """Waits that long, without a limit for None, and says whether the peer has closed its side."""
        if not select.select([self.connection], [], [], seconds)[0]:
            return False
        try:
            return self.connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True
