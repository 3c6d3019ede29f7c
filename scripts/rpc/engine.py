"""polytrie and geth, driven as by a consensus layer, and the results of their payloads."""

import http.client
import json
import statistics
import subprocess
import time
from urllib.parse import urlparse

from nodes import Differs, Node, serve_geth, token

ZERO = "0x" + "00" * 32


class Refused(Exception):
    """A node refuses a genesis."""


class Client:
    """A node, and one connection to its Engine API."""

    def __init__(self, node, url, secret):
        self.node, self.secret = node, secret
        self.connection = http.client.HTTPConnection(urlparse(url).netloc, timeout=600)

    def ask(self, method, params):
        """The answer, and how long it took."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token(self.secret)}"}

        def timed():
            start = time.perf_counter()
            self.connection.request("POST", "/", body, headers)
            answer = self.connection.getresponse().read()
            took = time.perf_counter() - start
            return json.loads(answer), took

        return self.answered(method, timed)

    def answered(self, method, ask):
        """Result of a request; `Differs` if the node is gone or its answer is no JSON."""
        try:
            return ask()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Differs(f"{method} is not answered: {error!r}") from error

    def call(self, method, *params):
        """Result of a call, which must succeed."""
        answer = self.answered(method, lambda: self.node.answer(method, params))
        if "result" not in answer:
            raise Differs(f"{method}: {answer.get('error')}")
        return answer["result"]

    def floor(self, calls):
        """Durations of calls that cause no work in the node."""
        return [self.ask("engine_exchangeCapabilities", [[]])[1] for _ in range(calls)]

    def choose(self, head, version=1):
        """Makes a block the head; returns how long it took."""
        choice = {"headBlockHash": head, "safeBlockHash": ZERO, "finalizedBlockHash": ZERO}
        answer, took = self.ask(f"engine_forkchoiceUpdatedV{version}", [choice, None])
        found = answer.get("result", {}).get("payloadStatus", {}).get("status", answer.get("error"))
        if found != "VALID":
            raise Differs(f"forkchoiceUpdatedV{version} to {head}: {found}, expected VALID")
        return took

    def keccak(self, data):
        return self.call("web3_sha3", "0x" + data.hex())

    def head(self):
        return self.call("eth_getBlockByNumber", "latest", False)["hash"]


def drive_polytrie(binary, state, genesis, dir, options=()):
    data = dir / "data"
    node = Node([binary, "engine", "--state", state, "--chain", genesis, "--datadir", data, "--authrpc.port", "0",
                 "--http.port", "0", *options], state, dir)
    node.url = node.address(r"(?m)^listening on http://(\S+)")
    return Client(node, node.address(r"engine listening on http://(\S+)"), (data / "jwt.hex").read_text().strip())


def drive_geth(binary, _, genesis, dir, options=()):
    data = ["--datadir", dir / "data"]
    init = subprocess.run([binary, *data, "init", genesis], capture_output=True, text=True)
    if init.returncode:
        raise Refused(f"geth does not take the genesis: {init.stderr.strip().splitlines()[-1]}")
    return Client(*serve_geth(binary, dir, [*data, *options]))


class Tally:
    """The results of the payloads of a client. Threads may add to it at the same time."""

    def __init__(self, name):
        self.name, self.passed, self.failed, self.skipped = name, [], [], []
        self.executing, self.choosing, self.gas, self.floor = [], [], [], []

    def add(self, executing, choosing, gas):
        self.executing.append(executing)
        self.choosing.append(choosing)
        self.gas.append(gas)

    def counts(self):
        skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        return f"{self.name}: {len(self.passed)} passed, {len(self.failed)} failed{skipped}"

    def times(self):
        """Times within which half of the calls, and 95 of 100, were done."""
        if not self.executing:
            return f"{self.name}: no payload was executed"
        both = [sum(pair) for pair in zip(self.executing, self.choosing)]
        kinds = [("newPayload", self.executing), ("forkchoiceUpdated", self.choosing), ("both", both)]
        said = [f"{kind} p50 {p50(times) * 1000:.2f} ms, p95 {p95(times) * 1000:.2f} ms" for kind, times in kinds]
        rate = sum(self.gas) / sum(self.executing) / 1e6
        floor = f"; of which a call takes {p50(self.floor) * 1000:.2f} ms by itself" if self.floor else ""
        return f"{self.name}: {len(self.executing)} payloads: {'; '.join(said)}; {rate:.1f} Mgas/s in newPayload{floor}"

    def beside(self, other):
        """How many times faster it is than another one."""
        ratios = [f"{kind} p50 {p50(theirs) / p50(ours):.2f}, p95 {p95(theirs) / p95(ours):.2f}"
                  for kind, ours, theirs in [("newPayload", self.executing, other.executing),
                                             ("forkchoiceUpdated", self.choosing, other.choosing)]]
        return f"{self.name} is faster than {other.name} by: {'; '.join(ratios)}"


def p50(times):
    return statistics.median(times)


def p95(times):
    """The least time than which 95 of 100 are not slower."""
    return sorted(times)[(len(times) * 95 + 99) // 100 - 1]
