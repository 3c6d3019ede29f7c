"""Payloads of the Engine API: of the official tests, and of the blocks of a file."""

import base64
import gzip
import json
import re
import sys
import tarfile

EMPTY_REQUESTS = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
# What a fork brings to the genesis file, in their order: a field of time, and its name in the schedule of blobs.
FORKS = ["Paris", "Shanghai", "Cancun", "Prague", "Osaka", "BPO1", "BPO2", "BPO3", "BPO4", "BPO5", "Amsterdam"]
BLOCK_FORKS = ["homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople", "petersburg", "istanbul",
               "muirGlacier", "berlin", "london", "arrowGlacier", "grayGlacier"]


def fork_times(network):
    """The forks of a network of the tests after the merge, with their times; None for a network from before the merge."""
    found = re.fullmatch(r"(\w+?)(?:To(\w+?)AtTime(\d+)k)?", network)
    first, later, time = found.groups() if found else (None, None, None)
    if first not in FORKS or (later or first) not in FORKS:
        return None
    start, end = FORKS.index(first), FORKS.index(later or first)
    return {fork: 0 if place <= start else int(time) * 1000 for place, fork in enumerate(FORKS[: end + 1])}


def genesis_of(test):
    """The genesis file of a test; None if its network is from before the merge, or not known."""
    times = fork_times(test["network"])
    if times is None:
        return None
    header, config = test["genesisBlockHeader"], test.get("config", {})
    number = lambda text: int(text, 16)
    schedule = config.get("blobSchedule", {})
    # Not every network has all forks that change the blobs alone.
    times = {fork: time for fork, time in times.items() if fork in schedule or not fork.startswith("BPO")}
    chain = {"chainId": number(config.get("chainid", "0x1")), "terminalTotalDifficulty": 0,
             "depositContractAddress": "0x00000000219ab540356cbb839cbe05303d7705fa"}
    chain |= {f"{fork}Block": 0 for fork in BLOCK_FORKS}
    chain |= {f"{fork.lower()}Time": time for fork, time in times.items() if fork != "Paris"}
    chain["blobSchedule"] = {
        fork.lower(): {"target": number(blobs["target"]), "max": number(blobs["max"]),
                       "baseFeeUpdateFraction": number(blobs["baseFeeUpdateFraction"])}
        for fork, blobs in schedule.items() if fork in times
    }
    names = ["timestamp", "extraData", "gasLimit", "difficulty", "mixHash", "coinbase", "nonce", "baseFeePerGas",
             "excessBlobGas", "blobGasUsed", "slotNumber"]
    given = {"extraData", "mixHash", "coinbase"}
    fields = {name: header[name] if name in given else hex(number(header[name])) for name in names if name in header}
    alloc = {address: {"balance": account["balance"], "nonce": hex(number(account["nonce"])), "code": account["code"],
                       "storage": {f"0x{number(slot):064x}": f"0x{number(value):064x}" for slot, value in account["storage"].items()}}
             for address, account in test["pre"].items()}
    return {"config": chain, "alloc": alloc} | fields


def tests_in(place):
    """Names and tests of an archive, a directory or a file."""
    if place.suffix == ".json":
        yield from json.loads(place.read_text()).items()
    elif place.is_dir():
        for file in sorted(place.rglob("*.json")):
            yield from json.loads(file.read_text()).items()
    else:
        with tarfile.open(place) as archive:
            for entry in archive:
                if entry.isfile() and entry.name.endswith(".json"):
                    yield from json.load(archive.extractfile(entry)).items()


def decode(data, at=0):
    """An item of RLP, bytes or a list, and where it ends."""
    first = data[at]
    if first < 0x80:
        return data[at : at + 1], at + 1
    is_list = first >= 0xC0
    length = first - (0xC0 if is_list else 0x80)
    at += 1
    if length > 55:
        size = length - 55
        length, at = int.from_bytes(data[at : at + size], "big"), at + size
    if not is_list:
        return data[at : at + length], at + length
    items, end = [], at + length
    while at < end:
        start = at
        item, at = decode(data, at)
        # Of a transaction the bytes are needed as they are.
        items.append((item, data[start:at]))
    return items, end


def encode(item):
    """Bytes, or a list of such, as RLP."""
    is_list = isinstance(item, list)
    data = b"".join(map(encode, item)) if is_list else item
    if not is_list and len(data) == 1 and data[0] < 0x80:
        return data
    base = 0xC0 if is_list else 0x80
    if len(data) < 56:
        return bytes([base + len(data)]) + data
    length = len(data).to_bytes((len(data).bit_length() + 7) // 8, "big")
    return bytes([base + 55 + len(length)]) + length + data


def access_list(accounts):
    """A block access list (EIP-7928), which tests have as JSON, as RLP."""
    data = lambda text: bytes.fromhex(text[2:])
    number = lambda text: data(text).lstrip(b"\0")

    def changes(list, value):
        """Changes: the number of each in the block, and the value after it."""
        return [[number(change["blockAccessIndex"]), value(next(text for name, text in change.items() if name != "blockAccessIndex"))]
                for change in list]

    return "0x" + encode([
        [data(account["address"]),
         [[number(slot["slot"]), changes(slot["slotChanges"], number)] for slot in account["storageChanges"]],
         [number(slot) for slot in account["storageReads"]],
         changes(account["balanceChanges"], number), changes(account["nonceChanges"], number),
         changes(account["codeChanges"], data)]
        for account in accounts
    ]).hex()


class HasRequests(Exception):
    """A block has requests (EIP-7685): it holds only their hash, but a payload needs the requests themselves."""


def payload_of(block, accesses=()):
    """Version and parameters of a decoded block as a payload but for its hash, and the RLP that this is the hash of. From
    Amsterdam on a payload has the accesses of its block, which are beside it."""
    text = lambda item: "0x" + item.hex()
    quantity = lambda item: hex(int.from_bytes(item, "big"))
    (header, raw), (transactions, _), _, *more = block
    header = [item for item, _ in header]
    payload = {
        "parentHash": text(header[0]), "feeRecipient": text(header[2]), "stateRoot": text(header[3]),
        "receiptsRoot": text(header[5]), "logsBloom": text(header[6]), "prevRandao": text(header[13]),
        "blockNumber": quantity(header[8]), "gasLimit": quantity(header[9]), "gasUsed": quantity(header[10]),
        "timestamp": quantity(header[11]), "extraData": text(header[12]), "baseFeePerGas": quantity(header[15]),
        "transactions": [text(item if isinstance(item, bytes) else whole) for item, whole in transactions],
    }
    version, params = 1, []
    if more:
        version = 2
        payload["withdrawals"] = [
            dict(zip(["index", "validatorIndex", "address", "amount"],
                     [quantity(item[0][0]), quantity(item[1][0]), text(item[2][0]), quantity(item[3][0])]))
            for item, _ in more[0][0]
        ]
    if len(header) > 19:
        version = 3
        payload |= {"blobGasUsed": quantity(header[17]), "excessBlobGas": quantity(header[18])}
        hashes = []
        for item, _ in transactions:
            if isinstance(item, bytes) and item[0] == 3:
                fields, _ = decode(item[1:])
                hashes += [text(hash) for hash, _ in fields[10][0]]
        params = [hashes, text(header[19])]
    if len(header) > 20:
        version = 4
        params.append([])
        if header[20].hex() != EMPTY_REQUESTS:
            raise HasRequests(f"block {int(payload['blockNumber'], 16)} has requests, which no block holds")
    if len(header) > 21:
        version = 5
        payload |= {"blockAccessList": access_list(accesses), "slotNumber": quantity(header[22])}
    return version, [payload, *params], raw


def payloads_of(dir, keccak):
    """Versions and parameters of the payloads of a chain. They are in newpayload.json, requests in a list or one a line as tools
    keep them, or are made of the blocks of chain.rlp, until one has requests of EIP-7685."""
    if (file := dir / "newpayload.json").exists():
        text = file.read_text()
        requests = json.loads(text) if text.lstrip().startswith("[") else map(json.loads, text.splitlines())
        for request in requests:
            method, params = request["method"], request["params"]
            if method.startswith("engine_newPayloadV") and int(params[0]["blockNumber"], 16):
                # hive writes requests of EIP-7685 in base64.
                params[3:4] = [[to_hex(request) for request in requests] for requests in params[3:4]]
                yield int(method[-1]), params
        return
    data, at = blocks_in(dir), 0
    while at < len(data):
        block, at = decode(data, at)
        # A file may begin with the genesis block.
        if not int.from_bytes(block[0][0][8][0], "big"):
            continue
        try:
            version, params, raw = payload_of(block)
        except HasRequests as has:
            number = int.from_bytes(block[0][0][8][0], "big")
            print(f"the chain is sent up to block {number - 1}: {has}")
            return
        params[0]["blockHash"] = keccak(raw)
        yield version, params


def to_hex(text):
    return text if text.startswith("0x") else "0x" + base64.b64decode(text).hex()


def blocks_in(dir):
    """The blocks of a chain as RLP."""
    for name, unpack in [("chain.rlp", bytes), ("chain.rlp.gz", gzip.decompress)]:
        if (file := dir / name).exists():
            return unpack(file.read_bytes())
    sys.exit(f"there is no newpayload.json, chain.rlp or chain.rlp.gz in {dir}")


def calls_of(test, keccak):
    """The payloads of a test: versions, parameters, and the answers that are allowed. Payloads made of invalid blocks may also be
    refused for their shape; a block that cannot be decoded makes none."""
    for call in test.get("engineNewPayloads", []):
        expected = call.get("errorCode") or ("INVALID" if call.get("validationError") else "VALID")
        yield call["newPayloadVersion"], call["params"], {str(expected)}
    for block in test.get("blocks", []):
        is_valid = not any(name.startswith("expectException") for name in block)
        try:
            decoded, _ = decode(bytes.fromhex(block["rlp"][2:]))
            version, params, raw = payload_of(decoded, block.get("blockAccessList", ()))
        except (ValueError, IndexError, TypeError):
            if is_valid:
                raise
            continue
        params[0]["blockHash"] = keccak(raw)
        yield version, params, {"VALID"} if is_valid else {"INVALID", "-32602", "-38005"}
