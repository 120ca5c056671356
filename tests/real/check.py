"""The checks of run.sh: an answer that outlives the server writing it, seen through the official SDK.

usage: check.py [BATON]

First, without Baton, that the servers keep what the rest relies on: both write the same text, and an answer cut
between two frames and continued by the other server is the same, byte for byte. Then, with the binary BATON, the same
while the first server is killed, stopped, and killed without leave to recover. Prints one line a check.
"""

import contextlib
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import openai

from relay import Relay

HERE = pathlib.Path(__file__).resolve().parent
MODEL = "smollm2-135m"
MESSAGES = [
    {"role": "system", "content": "You are a helpful assistant."},
    {"role": "user", "content": "Explain in five short paragraphs how a bicycle stays upright."},
]
SAMPLING = {"temperature": 0, "seed": 42, "max_tokens": 900}
# Where the answer is cut, in percent of its characters. The kill comes a token or two later, still before 90 %.
KILL_AT = [11, 19, 27, 35, 43, 51, 59, 67, 75, 83]
DIRECT_AT = [20, 50, 80]
STALL_AT = [15, 45, 75]
START_SECONDS = 30
# Fewer would leave the cut points too close together to differ.
TOKENS_MIN = 150

CONFIG = """
[server]
listen = "127.0.0.1:0"
workers = 1
[admin]
listen = ""
[upstreams.first]
base_url = "http://127.0.0.1:{first}/v1"
continuation = "prefill"
[upstreams.second]
base_url = "http://127.0.0.1:{second}/v1"
continuation = "prefill"
[defaults]
cooldown = {{ failures = 0 }}
targets = [{{ upstream = "first", model = "{model}" }}, {{ upstream = "second", model = "{model}" }}]
[routes.killed]
stream_failure = {{ mode = "continue" }}
[routes.stalled]
timeouts = {{ idle = "1s" }}
stream_failure = {{ mode = "continue" }}
[routes.given-up]
stream_failure = {{ mode = "terminate" }}
"""


LISTENING = r"listening on http://127\.0\.0\.1:(\d+)\n"


class Failed(Exception):
    """A check that did not hold; the text says what was seen."""


def must(holds, seen):
    if not holds:
        raise Failed(seen)


class Process:
    """A child that prints the line it is ready with. It is ended, by its id, when the `with` block is left."""

    def __init__(self, command, ready, log):
        # The open standard input is what tells a server, should we be killed, that we are gone.
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        try:
            self.match = self._await(re.compile(ready))
        except BaseException:
            self.end()
            raise

    def _await(self, ready):
        deadline, seen = time.monotonic() + START_SECONDS, b""
        while time.monotonic() < deadline and self.child.poll() is None:
            if select.select([self.child.stdout], [], [], 0.1)[0]:
                seen += os.read(self.child.stdout.fileno(), 4096)
                if match := ready.search(seen.decode(errors="replace")):
                    return match
        raise Failed(f"no {ready.pattern!r} on standard output, only {seen!r} (exit code {self.child.returncode})")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def signal(self, number):
        self.child.send_signal(number)

    def end(self):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


class Server:
    """A model server that can be killed and comes back on the same port."""

    def __init__(self, log):
        self.log, self.port, self.process = log, 0, None
        self.start()

    def start(self):
        command = [sys.executable, str(HERE / "serve.py"), str(self.port)]
        self.process = Process(command, r"READY http://127\.0\.0\.1:(\d+)\n", self.log)
        self.port = int(self.process.match[1])
        self.wait_until_healthy()

    def wait_until_healthy(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
                return
            time.sleep(0.05)
        raise Failed(f"the model server on port {self.port} did not become healthy in {START_SECONDS} s")

    def kill(self):
        self.process.signal(signal.SIGKILL)

    def stop(self):
        self.process.signal(signal.SIGSTOP)

    def renew(self):
        """A fresh process whatever happened to the last one."""
        self.process.end()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.end()


class Answer:
    """What one streamed call gave: the text, and what must be there once."""

    def __init__(self):
        self.text, self.tokens, self.ids, self.roles, self.finishes, self.error = "", 0, set(), 0, [], None

    def add(self, chunk):
        self.ids.add(chunk.id)
        for choice in chunk.choices:
            self.text += choice.delta.content or ""
            self.tokens += bool(choice.delta.content)
            self.roles += choice.delta.role is not None
            if choice.finish_reason is not None:
                self.finishes.append(choice.finish_reason)


def ask(port, model, messages=MESSAGES, cut=None, act=None):
    """Streams one answer. Once more than `cut` characters came, `act` is called, once; without `act` the call ends."""
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", max_retries=0, timeout=60)
    answer = Answer()
    with client:
        try:
            with client.chat.completions.create(model=model, messages=messages, stream=True, **SAMPLING) as stream:
                for chunk in stream:
                    answer.add(chunk)
                    if cut is not None and len(answer.text) > cut:
                        if act is None:
                            break
                        act()
                        cut = None
        except openai.APIError as error:
            answer.error = error
    return answer


def first_difference(got, want):
    same = len(os.path.commonprefix([got, want]))
    return f"departs at character {same} of {len(want)}: {got[same:same + 40]!r}, not {want[same:same + 40]!r}"


class Checks:
    def __init__(self, servers, relay):
        self.first, self.second = servers
        self.relay, self.reference, self.failed = relay, None, 0

    def run(self, name, percents, check):
        """Runs one check at each cut point, with a line each, and a total."""
        passed = 0
        for percent in percents:
            try:
                self.relay.take()
                print(f"ok    {name} at {percent} %: {check(percent)}", flush=True)
                passed += 1
            except Exception as error:  # a check that breaks counts, and the next one still runs
                print(f"FAIL  {name} at {percent} %: {type(error).__name__}: {error}", flush=True)
        print(f"{name}: {passed} of {len(percents)}", flush=True)
        self.failed += len(percents) - passed

    def characters(self, percent):
        return len(self.reference.text) * percent // 100

    def learn_reference(self):
        """The uninterrupted answer, which both servers must give alike."""
        want, other = ask(self.first.port, MODEL), ask(self.relay.port, MODEL)
        must(want.error is None, f"the first server failed: {want.error}")
        must(other.text == want.text, first_difference(other.text, want.text))
        must(want.finishes == ["stop"], f"finish_reason {want.finishes}, not one 'stop'")
        must(want.tokens >= TOKENS_MIN, f"only {want.tokens} tokens, not {TOKENS_MIN}")
        exchanges = self.relay.take()
        must(len(exchanges) == 1 and exchanges[0][1] == want.text, "the relay did not record what the SDK read")
        self.reference = want
        print(f"ok    reference: {len(want.text)} characters, {want.tokens} tokens, alike on both", flush=True)

    def direct(self, percent):
        """Without Baton: cut by leaving, continued by hand."""
        partial = ask(self.first.port, MODEL, cut=self.characters(percent)).text
        trailing = {"role": "assistant", "content": partial}
        whole = partial + ask(self.relay.port, MODEL, [*MESSAGES, trailing]).text
        must(whole == self.reference.text, first_difference(whole, self.reference.text))
        self.one_continuation(whole)
        return f"identical, seam at {len(partial)}"

    def one_continuation(self, whole):
        """The second server got one request: the client's, and behind it exactly what the client already had."""
        exchanges = self.relay.take()
        must(len(exchanges) == 1, f"the second server got {len(exchanges)} requests, not one")
        request, added = exchanges[0]
        *messages, trailing = request["messages"]
        must(messages == MESSAGES, f"the messages before the partial are not the client's: {messages}")
        must(trailing["role"] == "assistant", f"the continuation ends in a {trailing['role']} message")
        partial = trailing["content"]
        must(partial + added == whole, f"it ends in {partial[-40:]!r}, which is not what was delivered")
        share = 100 * len(partial) / len(whole)
        must(10 <= share <= 90, f"the seam is at {share:.0f} % of the text; outside 10 to 90 % it shows little")
        return partial

    def recovered(self, port, route, percent, act):
        answer = ask(port, route, cut=self.characters(percent), act=act)
        must(answer.error is None, f"the SDK raised {answer.error!r} after {len(answer.text)} characters")
        must(answer.text == self.reference.text, first_difference(answer.text, self.reference.text))
        must(len(answer.ids) == 1, f"ids: {answer.ids}")
        must(answer.roles == 1, f"{answer.roles} role deltas")
        must(answer.finishes == self.reference.finishes, f"finish_reasons: {answer.finishes}")
        partial = self.one_continuation(answer.text)
        return f"identical, seam at {len(partial)}, one id, one role, one finish_reason, one continuation"

    def killed(self, port, percent):
        return self.recovered(port, "killed", percent, self.first.kill)

    def stalled(self, port, percent):
        started = time.monotonic()
        seen = self.recovered(port, "stalled", percent, self.first.stop)
        return f"{seen}, {time.monotonic() - started:.1f} s in all"

    def given_up(self, port, percent):
        """Without leave to recover the SDK raises, for the error frame and not for the cut, and the text stays."""
        cut = self.characters(percent)
        answer = ask(port, "given-up", cut=cut, act=self.first.kill)
        kind = type(answer.error)
        must(kind is openai.APIError, f"the SDK raised {kind.__name__} ({answer.error}), not APIError")
        must(len(answer.text) > cut, f"only {len(answer.text)} characters are kept")
        must(self.reference.text.startswith(answer.text), first_difference(answer.text, self.reference.text))
        must(answer.finishes == [], f"finish_reasons: {answer.finishes}")
        must(self.relay.take() == [], "the second server was asked")
        return f"{len(answer.text)} characters kept, the SDK raised: {answer.error}"


def check_baton(checks, binary, scratch):
    config = scratch / "baton.toml"
    config.write_text(CONFIG.format(first=checks.first.port, second=checks.relay.port, model=MODEL))
    log_path = scratch / "baton.log"

    def with_baton(check):
        # A Baton of its own for each cut, or the first server would be kept out of rotation after a few deaths.
        def run(percent):
            checks.first.renew()
            with Process([binary, "run", "--config", str(config)], LISTENING, log) as baton:
                seen = check(int(baton.match[1]), percent)
                must(baton.child.poll() is None, f"Baton ended by itself with {baton.child.returncode}")
                return seen

        return run

    with open(log_path, "wb") as log:
        checks.run("kill -9", KILL_AT, with_baton(checks.killed))
        checks.run("stall", STALL_AT, with_baton(checks.stalled))
        checks.run("given up", [50], with_baton(checks.given_up))
    if checks.failed:
        print("the end of Baton's log:", log_path.read_text(errors="replace")[-4000:], sep="\n", flush=True)


def main():
    # A polite kill must run the clean-up below as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with contextlib.ExitStack() as stack:
        scratch = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = stack.enter_context(open(scratch / "servers.log", "wb"))
        servers = [stack.enter_context(Server(log)) for _ in range(2)]
        relay = stack.enter_context(contextlib.closing(Relay(servers[1].port)))
        checks = Checks(servers, relay)
        try:
            checks.learn_reference()
        except Failed as failed:
            print(f"FAIL  reference: {failed}", flush=True)
            return 1
        checks.run("without baton", DIRECT_AT, checks.direct)
        if len(sys.argv) > 1:
            check_baton(checks, sys.argv[1], scratch)
        return int(checks.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
