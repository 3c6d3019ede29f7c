"""Differences between geth and us that the specification leaves open, with the reason for each.

"The specification" is what https://github.com/ethereum/execution-apis has: schemas of parameters and results, codes of
`eth_simulateV1`, and tests.
"""

import json
import re

# Codes of requests that cannot be carried out: the parameters are wrong, or the request is, or the node failed.
REFUSED = r"error -(32000|32602|32603)"

# The methods, the kind of the difference, what the two say or a parameter has (`None`: anything), and why it is allowed.
ALLOWED = [
    (".*", f"{REFUSED}, ours {REFUSED}", None,
     "both refuse, and which of the general codes it is, -32000, -32602 or -32603, no schema says"),
    (".*", "error -32602, ours .*", "too many arguments",
     "parameters behind the last one that is known: JSON-RPC does not say what they do; we pass over them"),
    (".*", "error -32602, ours .*", "cannot unmarshal|without 0x prefix|leading zero|has length|empty hex string|"
                                          "odd length|larger than int64|too high|hex string",
     "a value that is understood, though it is not written as its schema has it: nothing says that it must be refused"),
    ("eth_getProof|eth_getStorageAt|eth_getStorageValues", "an answer, ours error -32602", None,
     "a key without 0x, or longer than 32 bytes, which its schema (bytesMax32) does not allow"),
    ("eth_feeHistory", "error -32602, ours an answer", "missing value for required argument 2",
     "percentiles that are left out: we take it that none are wanted, as other nodes do"),
    ("eth_feeHistory", "an answer, ours error -32602", None,
     "percentiles that are out of order, for no blocks at all: we look at them first"),
    ("eth_feeHistory", r"result\.baseFeePerGas is only ours|result\.gasUsedRatio is null, ours list", None,
     "the schema requires baseFeePerGas and a list in gasUsedRatio, for no blocks too; geth has neither"),
    ("eth_feeHistory", r"result\.baseFeePerBlobGas\[\]", None,
     "the block behind the range is the first of Cancun: we say what it has, geth what its parent would have"),
    ("eth_getRawTransactionBy.*", "result is str, ours null", None,
     "the specification has no such method; for no transaction geth has 0x, and others null"),
    ("debug_getRaw(Receipts|Block|Header)", f"an answer, ours {REFUSED}", None,
     "for no block geth has null in the place of receipts; the schema has no null"),
    ("eth_(newFilter|uninstallFilter|getFilterChanges|getFilterLogs)", "result", None,
     "filters are named as a node likes"),
    ("eth_newFilter|eth_getLogs", f"{REFUSED}, ours an answer", "invalid block range",
     "a range between a number and a tag, or two tags: geth compares them without a look at what the tags mean"),
    (".*", "an answer, ours error -32602", "0X1",
     "0X in the place of 0x, which no schema has"),
    ("eth_capabilities", r"result\.\w+\.deleteStrategy is missing|result\.\w+\.oldestBlock.*", None,
     "what a node keeps is its own, and deleteStrategy may be left out"),
    ("web3_clientVersion|eth_gasPrice|eth_maxPriorityFeePerGas|net_peerCount|net_listening", "result", None,
     "the name of the node, its advice, and its peers"),
    ("eth_getProof", r"result\.codeHash|result\.storageHash", None,
     "EIP-1186 has the hash of no code for an account without code; geth has zeros where there is no account"),
    ("eth_createAccessList", f"{REFUSED}, ours an answer", "must be non-zero|maxPriorityFeePerGas|not valid before London|"
                                                           "without any data|at least 1 blob|access list tx|insufficient funds.*maxFeePerBlobGas",
     "geth makes a transaction with an access list that could be sent, fees included, and refuses what could not; here it is"
     " a call"),
    ("eth_createAccessList", f"{REFUSED}, ours an answer", "is not a precompile",
     "geth's access lists know of no precompiles that could be moved, which its eth_call moves"),
    ("eth_call|eth_estimateGas|eth_simulateV1|eth_createAccessList|debug_traceCall", "an answer, ours error -32602",
     "expected a 16 byte hex string",
     "a price of more than 128 bits, which is more than all ether there is: such a call cannot be paid"),
    ("eth_uninstallFilter|eth_getFilter.*", "an answer, ours error -32602", None,
     "the name of a filter that is no number, as its schema has it; geth looks for it"),
    ("debug_trace.*", r"result\.post\.\* is missing|result\[\]\.result\.post\.\* is missing", '^\\[{"codeHash": "0x0{64}"}, ',
     "geth lists accounts that are not there, before and after, with the hash of nothing"),
    ("eth_estimateGas", "result|error -32000, ours an answer|error 3, ours an answer", '0x000000000000000000000000000000000000[0-9a-f]{4}": {',
     "geth's estimates pass over overrides of precompiles, which its eth_call takes into account"),
    ("eth_simulateV1", r"result\[\]\.receiptsRoot", '"gasPrice".*"accessList"|"accessList".*"gasPrice"|"authorizationList"',
     "with a gasPrice geth calls every simulated transaction a legacy one; with an access list it is one of EIP-2930"),
    ("eth_simulateV1", r"result\[\]\.difficulty", '"time"',
     "before London, with a time of Shanghai: geth takes the block as one after the merge by its time alone, and EIP-3675 by the"
     " difficulty"),
    ("eth_simulateV1", r"result\[\]\.baseFeePerGas is missing", None,
     "a base fee that is asked for before London: no header of that time has one"),
    ("eth_call|eth_estimateGas|eth_createAccessList|debug_traceCall", f"({REFUSED}|an answer), ours ({REFUSED}|an answer)",
     '"(number|time|prevRandao)": ',
     "overrides that bring a call into another fork than its block's: nothing says what of the header comes along"),
    ("eth_createAccessList|eth_estimateGas|eth_call", "error -32002, ours .*", None, "geth ran out of time"),
    (".*", f"(an answer|error -380..), ours {REFUSED}", '"data": .*"input": |"input": .*"data": ',
     "data and input that differ: a transaction has one input (the schema has no data), so we refuse to guess"),
    (".*", "an answer, ours error -32602", "nonesuchTracer",
     "no such tracer: geth has an error for each transaction; the schema of debug_traceBlock has an error for all"),
    (".*", "error -32603, ours .*", "method handler crashed", "geth crashes"),
]

# What depends on the signature of a transaction.
OF_SIGNATURES = {"hash", "parentHash", "transactionsRoot", "blockHash", "transactionHash", "size", "v", "yParity", "chainId"}


def without_signatures(theirs, ours):
    """Two answers of `eth_simulateV1` without what depends on signatures, which its transactions do not have.

    Nothing says what a legacy transaction has in the place of one: geth writes zeros, and we the parity 0 (`v` is 27, or has
    the chain's number in it; geth reads another number out of its own). From London on only calls with a gasPrice become such.
    The hash of a block with one goes into the state of the next one (EIP-2935).
    """
    first = next((place for place, (one, other) in enumerate(zip(theirs, ours)) if one["hash"] != other["hash"]), len(theirs))
    return tuple([stripped(block, place > first) for place, block in enumerate(answer)] for answer in (theirs, ours))


def stripped(answer, is_later=False):
    if isinstance(answer, list):
        return [stripped(item) for item in answer if not re.fullmatch("0x[0-9a-f]{64}", str(item))]
    if isinstance(answer, dict):
        left_out = OF_SIGNATURES | ({"stateRoot"} if is_later else set())
        return {key: stripped(item) for key, item in answer.items() if key not in left_out}
    return answer


def why_allowed(method, params, kind, theirs, ours):
    """The reason why a difference is allowed, where `theirs` and `ours` are what differs; `None` if the specification decides it."""
    said = [None if isinstance(side, dict) and "result" in side else side for side in (theirs, ours)]
    text = json.dumps([said[0], params, said[1]])
    for methods, kinds, says, reason in ALLOWED:
        if re.fullmatch(methods, method) and re.fullmatch(kinds, kind) and (not says or re.search(says, text)):
            return reason
    return None
