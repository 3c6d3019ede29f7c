"""web3.py against a node: deploy, send, call, logs, filters, subscribe, trace, snapshot and revert."""

import asyncio
import sys

from web3 import AsyncWeb3, Web3, WebSocketProvider
from web3.exceptions import ContractLogicError

CODE = "0x608180600b6000396000f33615601d5760003580191560295780600055600052600160206000a1005b60005460005260206000f35b7f08c379a000000000000000000000000000000000000000000000000000000000600052602060045260026024527f6e6f00000000000000000000000000000000000000000000000000000000000060445260646000fd"
w3 = Web3(Web3.HTTPProvider(sys.argv[1]))
assert w3.is_connected() and w3.eth.chain_id == 1337 and not w3.eth.syncing
alice, bob = w3.eth.accounts[:2]


def word(number):
    return number.to_bytes(32, "big")


receipt = w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction({"from": alice, "data": CODE}))
assert receipt.status == 1
contract = receipt.contractAddress
news = w3.eth.filter({"address": contract})
sent = w3.eth.send_transaction({"from": bob, "to": contract, "data": word(5)})
assert w3.eth.wait_for_transaction_receipt(sent).status == 1
assert w3.eth.call({"to": contract}) == word(5)
assert len(w3.eth.get_logs({"address": contract, "fromBlock": 0})) == 1
assert len(news.get_new_entries()) == 1
assert w3.eth.get_storage_at(contract, 0) == word(5)
try:
    w3.eth.call({"to": contract, "data": b"\xff" * 32})
except ContractLogicError as error:
    assert "no" in str(error), error
else:
    raise AssertionError("the call does not revert")
assert w3.eth.get_block("latest", full_transactions=True).transactions[0].hash == sent
trace = w3.provider.make_request("debug_traceTransaction", [sent.to_0x_hex(), {"tracer": "callTracer"}])
assert trace["result"]["type"] == "CALL", trace
snapshot = w3.provider.make_request("evm_snapshot", [])["result"]
before = w3.eth.get_balance(bob)
w3.eth.send_transaction({"from": alice, "to": bob, "value": 1})
assert w3.eth.get_balance(bob) == before + 1
assert w3.provider.make_request("evm_revert", [snapshot])["result"] is True
assert w3.eth.get_balance(bob) == before
assert w3.eth.fee_history(1, "latest", [50]).oldestBlock >= 0


async def live():
    async with AsyncWeb3(WebSocketProvider(sys.argv[1].replace("http", "ws"))) as live_w3:
        await live_w3.eth.subscribe("newHeads")
        w3.provider.make_request("evm_mine", [])
        async for message in live_w3.socket.process_subscriptions():
            assert message["result"]["number"] == w3.eth.block_number
            return


asyncio.run(asyncio.wait_for(live(), 60))
