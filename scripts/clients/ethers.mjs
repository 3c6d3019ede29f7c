// ethers v6 against a node: deploy, send, call, logs, subscribe, trace, snapshot and revert.
import assert from "node:assert/strict";
import { JsonRpcProvider, WebSocketProvider, parseEther, toBeHex, zeroPadValue } from "ethers";
import WebSocket from "ws";

const url = process.argv[2];
const code = "0x608180600b6000396000f33615601d5760003580191560295780600055600052600160206000a1005b60005460005260206000f35b7f08c379a000000000000000000000000000000000000000000000000000000000600052602060045260026024527f6e6f00000000000000000000000000000000000000000000000000000000000060445260646000fd";
const word = n => zeroPadValue(toBeHex(n), 32);
const provider = new JsonRpcProvider(url);
const signer = await provider.getSigner(0);
assert.equal((await provider.getNetwork()).chainId, 1337n);

const deployed = await (await signer.sendTransaction({ data: code })).wait();
assert.equal(deployed.status, 1);
const contract = deployed.contractAddress;

const socket = new WebSocketProvider(() => new WebSocket(url.replace("http", "ws")));
// A log that comes before ethers knows the network is too much for it.
await socket.getNetwork();
let seen;
await socket.on({ address: contract }, log => (seen = log));

const sent = await (await signer.sendTransaction({ to: contract, data: word(7) })).wait();
assert.equal(sent.status, 1);
assert.equal(await provider.call({ to: contract }), word(7));
assert.equal((await provider.getLogs({ address: contract, fromBlock: 0 })).length, 1);
// Nobody says when the subscription begins: there are logs until one is seen.
for (let n = 0; n < 300 && !seen; n++) {
  await (await signer.sendTransaction({ to: contract, data: word(7) })).wait();
  await new Promise(resolve => setTimeout(resolve, 100));
}
assert.equal(seen.address, contract);
await assert.rejects(provider.call({ to: contract, data: "0x" + "ff".repeat(32) }), /no/);

const trace = await provider.send("debug_traceTransaction", [sent.hash, { tracer: "callTracer" }]);
assert.equal(trace.to, contract.toLowerCase());
const id = await provider.send("evm_snapshot", []);
const target = "0x00000000000000000000000000000000000000b1";
await (await signer.sendTransaction({ to: target, value: parseEther("1") })).wait();
assert.equal(await provider.getBalance(target), parseEther("1"));
assert.equal(await provider.send("evm_revert", [id]), true);
assert.equal(await provider.send("eth_getBalance", [target, "latest"]), "0x0");
const fee = await provider.getFeeData();
assert.ok(fee.maxFeePerGas > 0n);
// Several requests at once travel as one batch.
const several = await Promise.all([provider.send("eth_blockNumber", []), provider.getBalance(target), provider.getBlock("latest")]);
assert.equal(Number(several[0]), several[2].number);
await socket.destroy();
provider.destroy();
