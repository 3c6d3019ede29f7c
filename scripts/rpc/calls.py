"""Random calls of JSON-RPC about a chain: about things that exist, about others that do not, and with malformed parameters."""

import random

TAGS = ["latest", "earliest", "safe", "finalized"]
TRACERS = [None, "callTracer", "prestateTracer", "4byteTracer", "flatCallTracer", "noopTracer"]
# Code for overrides: answers with a word, reverts, asks for what the block is, writes a slot, logs, and calls onwards.
CODES = ["0x", "0x602a5f5260205ff3", "0x5f5ffd", "0x435f5260205ff3", "0x425f5260205ff3", "0x485f5260205ff3",
         "0x4a5f5260205ff3", "0x445f5260205ff3", "0x455f5260205ff3", "0x415f5260205ff3", "0x5f54600101805f555f5260205ff3",
         "0x4360019003405f5260205ff3", "0x60015f5260205fa0", "0x5f5f5f5f5f60025af1", "0xfe", "0x5b5f56", "0xef0100",
         "0x3d5f5f3e3d5ff3", "0x3a5f5260205ff3", "0x5f495f5260205ff3", "0x475f5260205ff3", "0x335f5260205ff3"]
MALFORMED = [None, "", "0x", "0xzz", "0x0", "0x01", "0x00", 1, -1, 1.5, True, {}, [], "latest ", "Latest", "0x" + "f" * 63,
             "0x" + "f" * 65, "0x" + "f" * 40, "f" * 64, "0x1g", "0X1", "1", "0x" + "f" * 16, "0x1" + "0" * 16]
WEI = [0, 1, 7, 10**9, 10**15, 10**18, 10**24, 2**64, 2**128, 2**256 - 1]
# A price takes 128 bits with us: more would be more than all ether there is.
PRICES = [0, 0, 1, 7, 10**9, 10**10, 10**12, 2**64, 2**127]
GAS = [0, 21000, 20999, 53000, 100000, 1000000, 30000000, 50000000, 2**24, 2**24 + 1, 2**63, 2**64 - 1]


def quantity(number):
    return hex(number)


def word(number):
    return f"0x{number:064x}"


class Chain:
    """Data of a chain, read from a node."""

    def __init__(self, call):
        self.head = int(call("eth_blockNumber"), 16)
        self.blocks, self.hashes, self.txs, self.raw = [], [], [], []
        addresses, self.slots, topics, self.logs = set(), [], set(), []
        for number in range(self.head + 1):
            block = call("eth_getBlockByNumber", quantity(number), True)
            self.blocks.append(block)
            self.hashes.append(block["hash"])
            self.txs += block["transactions"]
            addresses.add(block["miner"])
            addresses.update(item["address"] for item in block.get("withdrawals") or [])
            for receipt in call("eth_getBlockReceipts", quantity(number)):
                addresses.update(filter(None, [receipt["from"], receipt["to"], receipt["contractAddress"]]))
                for log in receipt["logs"]:
                    addresses.add(log["address"])
                    topics.update(log["topics"])
                    self.logs.append(log)
            if number and block["transactions"]:
                for trace in call("debug_traceBlockByNumber", quantity(number), {"tracer": "prestateTracer"}):
                    for address, account in trace["result"].items():
                        addresses.add(address)
                        self.slots += [(address, slot) for slot in account.get("storage", {})]
            self.raw.append(call("debug_getRawBlock", quantity(number)))
        self.addresses, self.topics = sorted(addresses), sorted(topics)
        self.slots = sorted(set(self.slots))
        self.ommers = [hash for block in self.blocks for hash in block["uncles"]]


class Calls:
    """An endless supply of calls: names of methods with their parameters."""

    def __init__(self, chain, seed):
        self.chain, self.rng = chain, random.Random(seed)
        self.kinds = [(getattr(self, name), name) for name in METHODS]

    def __next__(self):
        make, method = self.rng.choices(self.kinds, [WEIGHTS.get(name, 2) for _, name in self.kinds])[0]
        params = make()
        kind = self.rng.random()
        if params and kind < 0.03:
            params[self.rng.randrange(len(params))] = self.rng.choice(MALFORMED)
        elif kind < 0.04:
            params = params[: self.rng.randrange(len(params) + 1)]
        elif kind < 0.045:
            params = params + [self.rng.choice(MALFORMED)]
        return method, params

    # What calls are about.

    def chance(self, part):
        return self.rng.random() < part

    def hash(self):
        if self.chance(0.1):
            return word(self.rng.getrandbits(256))
        if self.chance(0.05):
            return self.rng.choice(self.chain.ommers or self.chain.hashes)
        return self.rng.choice(self.chain.hashes)

    def number(self):
        kind = self.rng.random()
        if kind < 0.15:
            return self.rng.choice(TAGS)
        if kind < 0.22:
            return quantity(self.rng.choice([self.chain.head + 1, self.chain.head + 1000, 2**63 - 1, 2**64 - 1]))
        return quantity(self.rng.randrange(self.chain.head + 1))

    def block(self):
        kind = self.rng.random()
        if kind < 0.15:
            return self.hash()
        if kind < 0.22:
            return {"blockHash": self.hash(), **({"requireCanonical": self.chance(0.5)} if self.chance(0.5) else {})}
        if kind < 0.27:
            return {"blockNumber": self.number()}
        return self.number()

    def tx(self):
        return self.rng.choice(self.chain.txs)

    def hash_of_tx(self):
        return word(self.rng.getrandbits(256)) if self.chance(0.1) else self.tx()["hash"]

    def index(self):
        return quantity(self.rng.choice([0, 0, 0, 1, 2, 3, 5, 1000, 2**32, 2**63]))

    def address(self):
        kind = self.rng.random()
        if kind < 0.05:
            return f"0x{self.rng.getrandbits(160):040x}"
        if kind < 0.15:
            return f"0x{self.rng.randrange(20):040x}"
        return self.rng.choice(self.chain.addresses)

    def slot(self):
        if self.chain.slots and self.chance(0.7):
            return self.rng.choice(self.chain.slots)
        slot = self.rng.choice([quantity(self.rng.randrange(9)), word(self.rng.randrange(9)), word(self.rng.getrandbits(256)),
                                "0x" + "0" * 65, "0x", "1", "0x00", "0x0000000000000001"])
        return self.address(), slot

    def wei(self):
        return quantity(self.rng.choice(WEI))

    def price(self):
        return quantity(self.rng.choice(PRICES))

    def request(self):
        """A call: one of the chain's transactions with changes, or one made up."""
        request = {}
        if self.chance(0.6):
            tx = self.tx()
            request = {"from": tx["from"], "input": tx["input"], "value": tx["value"]}
            if tx["to"]:
                request["to"] = tx["to"]
            for field in ["accessList", "blobVersionedHashes", "authorizationList"]:
                if field in tx and self.chance(0.7):
                    request[field] = tx[field]
        else:
            if self.chance(0.8):
                request["from"] = self.address()
            if self.chance(0.9):
                request["to"] = self.address()
            if self.chance(0.6):
                data = self.rng.choice([self.rng.choice(CODES), word(self.rng.randrange(9)), "0x00", "0x" + "00" * 4])
                request[self.rng.choice(["data", "input"])] = data
        if self.chance(0.25):
            request["value"] = self.wei()
        if self.chance(0.4):
            request["gas"] = quantity(self.rng.choice(GAS))
        kind = self.rng.random()
        if kind < 0.1:
            request["gasPrice"] = self.price()
        elif kind < 0.3:
            request["maxFeePerGas"] = self.price()
            if self.chance(0.7):
                request["maxPriorityFeePerGas"] = self.price()
        elif kind < 0.33:
            request |= {"gasPrice": self.price(), "maxFeePerGas": self.price()}
        if self.chance(0.1):
            request["nonce"] = quantity(self.rng.choice([0, 1, 5, 2**64 - 2, 2**64 - 1]))
        if self.chance(0.1):
            request["chainId"] = self.rng.choice([self.chain.txs[-1].get("chainId", "0x1"), "0x1", "0x539"])
        if self.chance(0.1):
            request["accessList"] = [{"address": self.address(), "storageKeys": [word(1)]}]
        if self.chance(0.05):
            request["blobVersionedHashes"] = ["0x01" + "0" * 62] * self.rng.randrange(3)
        if self.chance(0.05):
            request["maxFeePerBlobGas"] = self.price()
        if self.chance(0.02):
            request["data"], request["input"] = "0x01", "0x02"
        if self.chance(0.02):
            request[self.rng.choice(list(request) or ["to"])] = self.rng.choice(MALFORMED)
        return request

    def state(self):
        overrides = {}
        for _ in range(self.rng.randrange(1, 3)):
            account = {}
            if self.chance(0.5):
                account["balance"] = self.wei()
            if self.chance(0.3):
                account["nonce"] = quantity(self.rng.choice([0, 1, 2**64 - 2, 2**64 - 1]))
            if self.chance(0.4):
                account["code"] = self.rng.choice(CODES)
            if self.chance(0.3):
                account[self.rng.choice(["state", "stateDiff"])] = {word(self.rng.randrange(3)): word(self.rng.randrange(9))}
            if self.chance(0.03):
                account |= {"state": {}, "stateDiff": {}}
            address = self.address()
            if self.chance(0.1):
                address, account["movePrecompileToAddress"] = f"0x{self.rng.randrange(12):040x}", self.address()
            overrides[address] = account
        return overrides

    def environment(self):
        # None of a fork before that of the head: with a later time such a block could not be.
        fields = {"number": quantity(self.rng.choice([self.chain.head, self.chain.head + 5, 2**64 - 1])),
                  "time": quantity(self.rng.choice([1, int(self.chain.blocks[-1]["timestamp"], 16) + 99, 2**40])),
                  "gasLimit": quantity(self.rng.choice(GAS)), "feeRecipient": self.address(),
                  "prevRandao": word(self.rng.randrange(99)), "baseFeePerGas": quantity(self.rng.choice([0, 1, 7, 10**9, 2**64 - 1])), "blobBaseFee": self.price(),
                  "difficulty": quantity(5), "beaconRoot": word(7)}
        chosen = self.rng.sample(sorted(fields), self.rng.randrange(1, 4))
        return {name: fields[name] for name in chosen if name != "beaconRoot" or self.chance(0.2)}

    def optional(self, *more):
        """Parameters that may be left out, from the last one on."""
        return list(more)[: self.rng.choices(range(len(more) + 1), [1] + [2] * len(more))[0]]

    def call(self):
        return [self.request(), *self.optional(self.block(), self.state(), self.environment())]

    def config(self, call=False):
        tracer = self.rng.choice(TRACERS)
        config = {}
        if tracer:
            config["tracer"] = tracer
        if tracer == "callTracer" and self.chance(0.5):
            config["tracerConfig"] = {"withLog": self.chance(0.5), "onlyTopCall": self.chance(0.5)}
        if tracer == "prestateTracer" and self.chance(0.5):
            config["tracerConfig"] = {name: self.chance(0.5) for name in ["diffMode", "disableCode", "disableStorage"]}
        if not tracer and self.chance(0.5):
            names = ["disableStack", "disableStorage", "enableMemory", "enableReturnData"]
            config |= {name: self.chance(0.5) for name in self.rng.sample(names, 2)}
        if self.chance(0.03):
            config["tracer"] = "nonesuchTracer"
        if self.chance(0.1):
            config["timeout"] = self.rng.choice(["5s", "1m", "x", "300ms"])
        if call and self.chance(0.4):
            config["stateOverrides"] = self.state()
        if call and self.chance(0.4):
            config["blockOverrides"] = self.environment()
        return config

    def filter(self):
        wanted = {}
        if self.chance(0.2):
            wanted["blockHash"] = self.hash()
        if "blockHash" not in wanted or self.chance(0.05):
            for name in ["fromBlock", "toBlock"]:
                if self.chance(0.8):
                    wanted[name] = self.number()
        if self.chance(0.5):
            log = self.rng.choice(self.chain.logs)
            wanted["address"] = self.rng.choice([log["address"], [log["address"], self.address()], [], None, self.address()])
        if self.chance(0.5):
            topic = [None, self.rng.choice(self.chain.topics), [self.rng.choice(self.chain.topics), word(1)], [], [None]]
            wanted["topics"] = [self.rng.choice(topic) for _ in range(self.rng.randrange(6))]
        return wanted

    # The methods, by their names.

    def eth_getBlockByNumber(self): return [self.number(), self.chance(0.5)]
    def eth_getBlockByHash(self): return [self.hash(), self.chance(0.5)]
    def eth_getHeaderByNumber(self): return [self.number()]
    def eth_getHeaderByHash(self): return [self.hash()]
    def eth_getBlockTransactionCountByNumber(self): return [self.number()]
    def eth_getBlockTransactionCountByHash(self): return [self.hash()]
    def eth_getUncleCountByBlockNumber(self): return [self.number()]
    def eth_getUncleCountByBlockHash(self): return [self.hash()]
    def eth_getUncleByBlockNumberAndIndex(self): return [self.number(), self.index()]
    def eth_getUncleByBlockHashAndIndex(self): return [self.hash(), self.index()]
    def eth_getBlockReceipts(self): return [self.block()]
    def eth_getTransactionByHash(self): return [self.hash_of_tx()]
    def eth_getTransactionReceipt(self): return [self.hash_of_tx()]
    def eth_getRawTransactionByHash(self): return [self.hash_of_tx()]
    def eth_getTransactionByBlockNumberAndIndex(self): return [self.number(), self.index()]
    def eth_getTransactionByBlockHashAndIndex(self): return [self.hash(), self.index()]
    def eth_getRawTransactionByBlockNumberAndIndex(self): return [self.number(), self.index()]
    def eth_getRawTransactionByBlockHashAndIndex(self): return [self.hash(), self.index()]
    def eth_getBalance(self): return [self.address(), *self.optional(self.block())]
    def eth_getTransactionCount(self): return [self.address(), *self.optional(self.block())]
    def eth_getCode(self): return [self.address(), *self.optional(self.block())]
    def eth_getStorageAt(self): return [*self.slot(), *self.optional(self.block())]

    def eth_getStorageValues(self):
        wanted = {}
        for address, slot in (self.slot() for _ in range(self.rng.randrange(4))):
            wanted.setdefault(address, []).append(slot)
        return [wanted, *self.optional(self.block())]

    def eth_getProof(self):
        address, slot = self.slot()
        return [address, [slot, *(self.slot()[1] for _ in range(self.rng.randrange(3)))], self.block()]

    def eth_call(self): return self.call()
    def eth_estimateGas(self): return self.call()
    def eth_createAccessList(self): return self.call()[:3]

    def eth_simulateV1(self):
        blocks = []
        for _ in range(self.rng.randrange(1, 4)):
            block = {}
            if self.chance(0.8):
                block["calls"] = [self.request() for _ in range(self.rng.randrange(3))]
            if self.chance(0.4):
                block["stateOverrides"] = self.state()
            if self.chance(0.4):
                block["blockOverrides"] = self.environment()
            blocks.append(block)
        names = ["validation", "traceTransfers", "returnFullTransactions"]
        options = {name: self.chance(0.5) for name in names if self.chance(0.5)}
        return [{"blockStateCalls": blocks, **options}, *self.optional(self.block())]

    def eth_getLogs(self): return [self.filter()]

    def eth_feeHistory(self):
        count = self.rng.choice([quantity(self.rng.randrange(20)), self.rng.randrange(20), "0x400", "0x401", "5"])
        percentiles = [[], [0, 50, 100], [25.5], [50, 25], [101], [-1], None]
        return [count, self.number(), *self.optional(self.rng.choice(percentiles))]

    def debug_getRawHeader(self): return [self.block()]
    def debug_getRawBlock(self): return [self.block()]
    def debug_getRawReceipts(self): return [self.block()]
    def debug_getRawTransaction(self): return [self.hash_of_tx()]
    def debug_traceTransaction(self): return [self.hash_of_tx(), self.config()]
    def debug_traceBlockByNumber(self): return [self.number(), self.config()]
    def debug_traceBlockByHash(self): return [self.hash(), self.config()]
    def debug_traceBlock(self): return [self.rng.choice(self.chain.raw), self.config()]

    def debug_traceCall(self):
        # The steps of all the gas there is would fill the memory.
        request = self.request() | {"gas": quantity(self.rng.choice([21000, 60000, 200000]))}
        return [request, self.block(), self.config(call=True)]

    def eth_sendRawTransaction(self):
        # None that could be taken in: those of the chain, and damaged ones.
        raw = self.rng.choice(self.chain.raw)
        return [self.rng.choice([raw, raw[:100], "0x", "0x02", "0x04c0", "0xc0", "0x05c0", "0x" + "f8" * 9])]

    def eth_newFilter(self): return [self.filter()]
    def eth_getFilterChanges(self): return ["0x" + "1" * 32]
    def eth_getFilterLogs(self): return ["0x" + "1" * 32]
    def eth_uninstallFilter(self): return ["0x" + "1" * 32]
    def web3_sha3(self): return [self.rng.choice(["0x", "0x00", "0x68656c6c6f", "0x0", "00"])]
    def txpool_contentFrom(self): return [self.address()]
    def txpool_status(self): return []
    def txpool_content(self): return []
    def txpool_inspect(self): return []
    def net_version(self): return []
    def net_listening(self): return []
    def net_peerCount(self): return []
    def eth_chainId(self): return []
    def eth_blockNumber(self): return []
    def eth_syncing(self): return []
    def eth_config(self): return []
    def eth_capabilities(self): return []
    def eth_gasPrice(self): return []
    def eth_maxPriorityFeePerGas(self): return []
    def eth_baseFee(self): return []
    def eth_blobBaseFee(self): return []
    def eth_pendingTransactions(self): return []
    def web3_clientVersion(self): return []
    def debug_getBadBlocks(self): return []


METHODS = [name for name in dir(Calls) if name.split("_")[0] in ["eth", "debug", "net", "web3", "txpool"]]
# How often a method is called; the others, 2.
OFTEN = """eth_call eth_estimateGas eth_simulateV1 eth_getLogs eth_createAccessList eth_getProof eth_feeHistory debug_traceCall
debug_traceTransaction""".split()
# These take no parameters, or answer about what is not there.
SELDOM = """net_version net_listening net_peerCount txpool_status txpool_content txpool_inspect txpool_contentFrom eth_chainId
eth_blockNumber eth_syncing eth_config eth_capabilities eth_gasPrice eth_maxPriorityFeePerGas eth_baseFee eth_blobBaseFee
eth_pendingTransactions web3_clientVersion debug_getBadBlocks""".split()
WEIGHTS = dict.fromkeys(OFTEN, 8) | dict.fromkeys(SELDOM, 0.1)
