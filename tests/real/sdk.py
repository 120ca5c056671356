"""The checks of sdk.sh: what the official SDKs make of Baton while its upstreams fail.

usage: sdk.py BINARIES NODE_FOLDER

Starts two `loadtest upstream`, an upstream of its own (scripted.py) and Baton, runs the checks with the Python SDK, and
then sdk.mjs, which has the same checks for the Node SDK. Prints a line for each.
"""

import contextlib
import hashlib
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import openai

from check import LISTENING, Failed, Process, first_difference, must
from scripted import Scripted

HERE = pathlib.Path(__file__).resolve().parent
KEY = "sdk-check"
MESSAGES = [{"role": "user", "content": "What does the ferry do?"}]
# How many words the broken answers have; so in the names of CONFIG.
CUT_WORDS = 24
# A reset takes with it what was not yet read; with a gap that is a word or two, and never the whole answer.
GAP_MS = 2
GONE_SECONDS_MAX = 1.0
NODE_SECONDS_MAX = 120
UPSTREAM = r"scripted upstream on http://127\.0\.0\.1:(\d+)/v1;"
# Each route and the target that begins its answer.
RECOVERED = {
    "cut": "one/cut-fin-after-24",
    "reset": "one/cut-rst-after-24",
    "stall": "one/stall-after-24",
    "garbage": "one/garbage-after-24",
    "error": "one/error-after-24",
    "foreign": "own/foreign-after-24",
}
GIVEN_UP = {"given-up-cut": "transport_error", "given-up-stall": "read_timeout", "given-up-error": "scripted"}

CONFIG = """
[server]
listen = "127.0.0.1:0"
workers = 1
[admin]
listen = ""
[keys.check]
sha256 = ["{key}"]
routes = ["*"]
[upstreams.one]
base_url = "http://127.0.0.1:{one}/v1"
continuation = "prefill"
[upstreams.two]
base_url = "http://127.0.0.1:{two}/v1"
continuation = "prefill"
[upstreams.own]
base_url = "http://127.0.0.1:{own}/v1"
[defaults]
cooldown = {{ failures = 0 }}
retry = {{ initial_backoff = "10ms" }}
timeouts = {{ idle = "500ms" }}
stream_failure = {{ mode = "continue" }}
"""

TARGETS = {
    "whole": ["one/healthy"],
    **{route: [first, "two/healthy"] for route, first in RECOVERED.items()},
    "given-up-cut": ["one/cut-fin-after-24", "two/healthy"],
    "given-up-stall": ["one/stall-after-24", "two/healthy"],
    "given-up-error": ["one/error-after-24", "two/healthy"],
    "early-error": ["one/error-after-0", "two/healthy"],
    "unavailable": ["one/status-503", "two/healthy"],
    "refused": ["one/status-400", "two/healthy"],
    "limited": ["one/status-429", "two/status-429"],
    "endless": ["own/endless", "own/never"],
    "silent": ["own/silent", "own/never"],
}

# What sdk.mjs must know besides.
SHARED = {
    "key": KEY,
    "messages": MESSAGES,
    "cut_words": CUT_WORDS,
    "gone_seconds_max": GONE_SECONDS_MAX,
    "recovered": RECOVERED,
    "given_up": GIVEN_UP,
}


def config(ports):
    text = CONFIG.format(**ports, key=hashlib.sha256(KEY.encode()).hexdigest())
    for route, targets in TARGETS.items():
        named = (target.split("/") for target in targets)
        listed = ", ".join(f'{{ upstream = "{upstream}", model = "{model}" }}' for upstream, model in named)
        text += f"[routes.{route}]\ntargets = [{listed}]\n"
        if route in GIVEN_UP:
            text += 'stream_failure = { mode = "terminate" }\n'
    return text


class Streamed:
    """What one streamed answer gave, and how it ended."""

    def __init__(self):
        self.text, self.ids, self.roles, self.finishes, self.usages = "", set(), 0, [], []
        self.served_by, self.error = None, None

    def add(self, chunk):
        self.ids.add(chunk.id)
        if chunk.usage is not None:
            must(chunk.choices == [], "the usage chunk has choices")
            self.usages.append(chunk.usage)
        else:
            must(self.usages == [], "a chunk follows the usage")
        for choice in chunk.choices:
            self.text += choice.delta.content or ""
            self.roles += choice.delta.role is not None
            if choice.finish_reason is not None:
                self.finishes.append(choice.finish_reason)


class Checks:
    def __init__(self, base, control, text):
        self.base, self.control, self.text = base, control, text
        self.client = self.connect(KEY)

    def connect(self, key, timeout=10):
        return openai.OpenAI(base_url=self.base, api_key=key, max_retries=0, timeout=timeout)

    def listed(self):
        """Every check with its name. sdk.mjs has the same list."""
        for route, first in RECOVERED.items():
            yield f"recovered, {route}", lambda route=route, first=first: self.recovered(route, first)
        yield "recovered, the SDK's stream helper", self.helper
        for route, code in GIVEN_UP.items():
            yield f"terminated, {route}", lambda route=route, code=code: self.terminated(route, code)
        yield "error before content", self.early_error
        yield "usage asked", self.usage_asked
        yield "usage not asked", self.usage_not_asked
        yield "abort between tokens", self.abort
        yield "time-out before a token", self.time_out
        yield "plain answer, fallback from 503", self.plain
        yield "400 of the provider", lambda: self.status(
            openai.BadRequestError, "refused", code="scripted", says="The scripted upstream was asked to fail."
        )
        yield "401, wrong client key", lambda: self.status(
            openai.AuthenticationError, "whole", key="another", code="invalid_api_key"
        )
        yield "404, unknown model", lambda: self.status(openai.NotFoundError, "nowhere", code="model_not_found")
        yield "429 at the end", lambda: self.status(openai.RateLimitError, "limited", code="scripted")

    def run(self):
        """How many failed, and how many there are."""
        failed, total = 0, 0
        for name, check in self.listed():
            total += 1
            try:
                print(f"ok    python  {name}: {check()}", flush=True)
            except Exception as error:  # a check that breaks counts, and the next one still runs
                failed += 1
                print(f"FAIL  python  {name}: {type(error).__name__}: {error}", flush=True)
        return failed, total

    def stream(self, route, **options):
        streamed = Streamed()
        try:
            with self.client.chat.completions.create(
                model=route, messages=MESSAGES, stream=True, **options
            ) as stream:
                streamed.served_by = stream.response.headers["x-baton-served-by"]
                for chunk in stream:
                    streamed.add(chunk)
        except openai.APIError as error:
            streamed.error = error
        return streamed

    def whole(self, route, first, **options):
        """An answer that must be as if nothing had happened, begun by the target `first`."""
        got = self.stream(route, **options)
        must(got.error is None, f"the SDK raised {got.error!r} after {len(got.text)} characters")
        must(got.text == self.text, first_difference(got.text, self.text))
        must(got.served_by == first, f"served by {got.served_by}, not {first}")
        must(len(got.ids) == 1, f"ids: {got.ids}")
        must(got.roles == 1, f"{got.roles} role deltas")
        must(got.finishes == ["stop"], f"finish_reasons: {got.finishes}")
        return got

    def recovered(self, route, first):
        got = self.whole(route, first)
        return f"{len(got.text)} characters exact, one id, one role, one finish_reason"

    def helper(self):
        with self.client.chat.completions.stream(model="foreign", messages=MESSAGES) as stream:
            message = stream.get_final_completion().choices[0].message
        must(message.content == self.text, first_difference(message.content, self.text))
        must(message.role == "assistant", f"role {message.role!r}")
        return f"{len(message.content)} characters exact"

    def terminated(self, route, code):
        got = self.stream(route)
        want = "".join(re.findall(r"\S+ ?", self.text)[:CUT_WORDS])
        kind = type(got.error)
        # For the error frame: a cut alone would be an APIConnectionError.
        must(kind is openai.APIError, f"the SDK raised {kind.__name__} ({got.error}), not APIError")
        must(got.error.type == "upstream_error", f"type {got.error.type!r}")
        must(got.error.code == code, f"code {got.error.code!r}, not {code!r}")
        must(got.text == want, f"{got.text!r} is kept, not {want!r}")
        must(got.finishes == [], f"finish_reasons: {got.finishes}")
        return f"{len(got.text)} characters kept, raised APIError {code}: {got.error}"

    def early_error(self):
        got = self.whole("early-error", "two/healthy")
        return f"{len(got.text)} characters exact, served by {got.served_by}"

    def usage(self, route, first):
        usages = self.whole(route, first, stream_options={"include_usage": True}).usages
        must(len(usages) == 1, f"{len(usages)} usage chunks: {usages}")
        total = usages[0].prompt_tokens + usages[0].completion_tokens
        must(usages[0].total_tokens == total, f"{usages[0]} does not add up")
        return usages[0]

    def usage_asked(self):
        """The scripted upstreams count a token a word, and one for each four bytes of the messages."""
        plain, sums = self.usage("whole", TARGETS["whole"][0]), self.usage("cut", RECOVERED["cut"])
        words = len(self.text.split(" "))
        must(plain.completion_tokens == words, f"{plain} without a fault, not {words} words")
        must(sums.completion_tokens == words, f"{sums} after a recovery, not {words} words")
        # Two prompts, the second with the partial in it.
        low, high = 2 * plain.prompt_tokens, 2 * plain.prompt_tokens + len(self.text)
        must(low < sums.prompt_tokens < high, f"{sums} after a recovery, not {low} to {high} of the prompt")
        return (
            f"one chunk, {plain.prompt_tokens} + {plain.completion_tokens} tokens; "
            f"one after a recovery, {sums.prompt_tokens} + {sums.completion_tokens}"
        )

    def usage_not_asked(self):
        for route, first in (("whole", TARGETS["whole"][0]), ("cut", RECOVERED["cut"])):
            usages = self.whole(route, first).usages
            must(usages == [], f"{route}: {usages}")
        return "none, nor after a recovery"

    def seen(self):
        """What the own upstream was asked for since the last call; waits until its peers are gone."""
        with urllib.request.urlopen(self.control, timeout=10) as response:
            return json.load(response)

    def gone(self, model):
        """The upstream was asked for `model` alone, and its peer leaves within a second from now."""
        started = time.monotonic()
        seen = self.seen()
        took = time.monotonic() - started
        must(seen["peers"] == 0 and took < GONE_SECONDS_MAX, f"open for {took:.1f} s: {seen}")
        must(seen["asked"] == [model], f"the upstream was asked for {seen['asked']}")
        return f"the upstream's connection closed within {1000 * took:.0f} ms"

    def abort(self):
        self.seen()
        with self.client.chat.completions.create(model="endless", messages=MESSAGES, stream=True) as stream:
            for _ in range(3):
                next(stream)
        return self.gone("endless")

    def time_out(self):
        self.seen()
        with self.connect(KEY, timeout=0.5) as client, contextlib.suppress(openai.APITimeoutError):
            client.chat.completions.create(model="silent", messages=MESSAGES, stream=True)
            raise Failed("the SDK did not time out")
        return self.gone("silent")

    def plain(self):
        raw = self.client.chat.completions.with_raw_response.create(model="unavailable", messages=MESSAGES)
        completion, served_by = raw.parse(), raw.headers["x-baton-served-by"]
        got, finish = completion.choices[0].message.content, completion.choices[0].finish_reason
        must(got == self.text, first_difference(got, self.text))
        must(finish == "stop", f"finish_reason {finish!r}")
        must(served_by == "two/healthy", f"served by {served_by}")
        return f"{len(got)} characters exact, served by {served_by}"

    def status(self, kind, route, code, key=KEY, says=""):
        """Streamed or not, the SDK raises the same."""
        for stream in (False, True):
            try:
                with self.connect(key) as client:
                    client.chat.completions.create(model=route, messages=MESSAGES, stream=stream)
                raise Failed(f"the SDK raised nothing (stream={stream})")
            except openai.APIError as error:
                must(type(error) is kind, f"the SDK raised {error!r} (stream={stream}), not {kind.__name__}")
                must(error.code == code, f"code {error.code!r}, not {code!r}")
                must(says in error.body["message"], f"message {error.body['message']!r}")
                must(error.request_id, "no request_id")
                message = error.body["message"]
        return f"{kind.__name__}, {code}: {message}"


def run_node(folder, task):
    """The same checks in Node: whether all passed."""
    child = subprocess.Popen(["node", str(HERE / "sdk.mjs"), folder, json.dumps(task)])
    try:
        return child.wait(NODE_SECONDS_MAX) == 0
    except subprocess.TimeoutExpired:
        print(f"FAIL  node: not done within {NODE_SECONDS_MAX} s", flush=True)
        return False
    finally:
        child.kill()
        child.wait()


def reference(port):
    """The scripted upstreams' one text, asked of one directly."""
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused") as client:
        return client.chat.completions.create(model="healthy", messages=MESSAGES).choices[0].message.content


def run(binaries, node_folder, scratch, log):
    """Starts everything, runs the checks of both SDKs, and ends it. Whether all passed."""
    with contextlib.ExitStack() as stack:
        upstream = [str(binaries / "loadtest"), "upstream", "--gap-ms", str(GAP_MS)]
        started = [stack.enter_context(Process(upstream, UPSTREAM, log)) for _ in range(2)]
        own = stack.enter_context(contextlib.closing(Scripted()))
        ports = {"one": int(started[0].match[1]), "two": int(started[1].match[1]), "own": own.port}
        own.text = reference(ports["two"])
        (scratch / "baton.toml").write_text(config(ports))
        command = [str(binaries / "baton"), "run", "--config", str(scratch / "baton.toml")]
        baton = stack.enter_context(Process(command, LISTENING, log))
        task = {
            "base": f"http://127.0.0.1:{baton.match[1]}/v1",
            "control": f"http://127.0.0.1:{own.port}/gone",
            "text": own.text,
        }
        failed, total = Checks(**task).run()
        print(f"python: {total - failed} of {total}", flush=True)
        passed = run_node(node_folder, {**task, **SHARED}) and failed == 0
        must(baton.child.poll() is None, f"Baton ended by itself with {baton.child.returncode}")
        return passed


def main():
    # A polite kill must run the clean-up as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as scratch:
        log_path = pathlib.Path(scratch) / "log"
        with open(log_path, "wb") as log:
            try:
                passed = run(pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(scratch), log)
            except Failed as failed:
                print(f"FAIL  {failed}", flush=True)
                passed = False
        if not passed:
            print("the end of the log:", log_path.read_text(errors="replace")[-4000:], sep="\n", flush=True)
        return int(not passed)


if __name__ == "__main__":
    sys.exit(main())
