"""geth and polytrie on a chain that is imported, and requests to them."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FIXTURES = Path(os.environ.get("POLYTRIE_FIXTURES", ROOT.parent / "shared/fixtures"))


def fail(message):
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


def geth_binary():
    return subprocess.run([ROOT / "scripts/setup-geth"], check=True, capture_output=True, text=True).stdout.strip()


def polytrie_binary():
    built = [ROOT / "target" / profile / "polytrie" for profile in ("release", "debug")]
    found = os.environ.get("POLYTRIE") or next((path for path in built if path.exists()), None)
    return found or fail("there is no binary in target; run `cargo build --release`, or name one with --polytrie")


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        fail(f"{' '.join(map(str, command))}:\n{(done.stdout + done.stderr)[-2000:]}")


class Differs(Exception):
    """A node does not answer as it should, or not at all."""


class Node:
    """A node on a chain, and requests to it."""

    def __init__(self, command, name, dir):
        self.log = open(dir / f"{name}.log", "w+")
        self.process = subprocess.Popen([str(part) for part in command], stdout=self.log, stderr=self.log)
        self.url = self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        self.process.kill()
        self.process.wait()

    def address(self, pattern):
        """The address at which it listens, from its output."""
        until = time.time() + 60
        while time.time() < until and self.process.poll() is None:
            self.log.seek(0)
            if found := re.search(pattern, self.log.read()):
                return f"http://{found[1]}"
            time.sleep(0.1)
        self.end()
        self.log.seek(0)
        raise Differs(f"{self.name} does not run:\n{self.log.read()[-2000:]}")

    def answer(self, method, params, url=None, **headers):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return json.loads(self.post(body, url, **headers))

    def post(self, body, url=None, **headers):
        request = urllib.request.Request(url or self.url, body, {"Content-Type": "application/json", **headers})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.read()

    def call(self, method, *params):
        answer = self.answer(method, params)
        if "error" in answer:
            fail(f"{self.name}: {method} {params}: {answer['error']}")
        return answer["result"]


def token(secret):
    """A token for the Engine API, of a secret in hexadecimal (HS256), made now."""
    encode = lambda part: base64.urlsafe_b64encode(part).rstrip(b"=")
    claim = encode(b'{"alg":"HS256","typ":"JWT"}') + b"." + encode(json.dumps({"iat": int(time.time())}).encode())
    return (claim + b"." + encode(hmac.digest(bytes.fromhex(secret), claim, hashlib.sha256))).decode()


def serve_geth(geth, dir, options):
    """Starts geth with these options: the node, the address of its Engine API, and the secret for it."""
    secret = secrets.token_hex(32)
    (dir / "secret").write_text(secret)
    node = Node([geth, "--nodiscover", "--maxpeers", "0", "--port", "0", "--ipcdisable", "--syncmode", "full", "--http",
                 "--http.port", "0", "--authrpc.port", "0", "--authrpc.jwtsecret", dir / "secret", *options], "geth", dir)
    engine = node.address(r"HTTP server started +endpoint=(\S+) auth=true")
    node.url = node.address(r"HTTP server started +endpoint=(\S+) auth=false")
    return node, engine, secret


@contextlib.contextmanager
def filling(data):
    """A directory that becomes `data` when it is filled, so that an interrupted import is not taken for a whole one."""
    new = data.with_name(data.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    yield new
    new.rename(data)


def start_geth(geth, chain, dir):
    data = dir / "geth"
    scheme = ["--state.scheme", "hash", "--gcmode", "archive", "--history.transactions", "0"]
    if not data.exists():
        with filling(data) as new:
            run(geth, "--datadir", new, "--state.scheme", "hash", "init", chain / "genesis.json")
            run(geth, "--datadir", new, *scheme, "import", "--nocompaction", chain / "chain.rlp")
    served = ["--http.api", "eth,net,web3,debug,txpool,testing", "--rpc.allow-unprotected-txs"]
    node, engine, secret = serve_geth(geth, dir, ["--datadir", data, *scheme, *served])
    try:
        # A consensus client would say which blocks are safe and final: here, as with us, all of them.
        head = node.call("eth_getBlockByNumber", "latest", False)["hash"]
        choice = {"headBlockHash": head, "safeBlockHash": head, "finalizedBlockHash": head}
        chosen = node.answer("engine_forkchoiceUpdatedV3", [choice, None], engine, Authorization=f"Bearer {token(secret)}")
        if chosen.get("result", {}).get("payloadStatus", {}).get("status") != "VALID":
            fail(f"geth does not take its head as final: {chosen}")
    except BaseException:
        node.end()
        raise
    return node


def start_polytrie(polytrie, state, chain, dir):
    data = dir / state
    if not data.exists():
        with filling(data) as new:
            run(polytrie, "import", chain / "chain.rlp", "--chain", chain / "genesis.json", "--datadir", new, "--state", state)
    node = Node([polytrie, "devnet", "--datadir", data, "--no-mining", "--http.port", "0"], "polytrie", dir)
    node.url = node.address(r"listening on http://(\S+)")
    return node
