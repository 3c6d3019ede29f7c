// viem with its test client against a node.
import assert from "node:assert/strict";
import { createPublicClient, createTestClient, createWalletClient, defineChain, http, pad, parseEther, toHex, webSocket } from "viem";
import { mnemonicToAccount } from "viem/accounts";

const url = process.argv[2];
const code = "0x608180600b6000396000f33615601d5760003580191560295780600055600052600160206000a1005b60005460005260206000f35b7f08c379a000000000000000000000000000000000000000000000000000000000600052602060045260026024527f6e6f00000000000000000000000000000000000000000000000000000000000060445260646000fd";
const chain = defineChain({ id: 1337, name: "devnet", nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 }, rpcUrls: { default: { http: [url] } } });
const account = mnemonicToAccount("test test test test test test test test test test test junk", { addressIndex: 2 });
const transport = http(url);
const open = createPublicClient({ chain, transport, pollingInterval: 50 });
const wallet = createWalletClient({ chain, transport, account });
const test = createTestClient({ chain, transport, mode: "anvil" });
const word = n => pad(toHex(n), { size: 32 });

const wait = hash => open.waitForTransactionReceipt({ hash });
const { contractAddress } = await wait(await wallet.sendTransaction({ data: code }));
const live = createPublicClient({ chain, transport: webSocket(url.replace("http", "ws")) });
const heads = new Promise(resolve => { const stop = live.watchBlockNumber({ onBlockNumber: n => { stop(); resolve(n); } }); });
const receipt = await wait(await wallet.sendTransaction({ to: contractAddress, data: word(9) }));
assert.equal(receipt.status, "success");
// Nobody says when the subscription begins: there are blocks until one is seen.
let seen = 0n;
heads.then(number => (seen = number));
for (let n = 0; n < 300 && !seen; n++) {
  await test.mine({ blocks: 1 });
  await new Promise(resolve => setTimeout(resolve, 100));
}
assert.ok(seen);
assert.equal((await open.call({ to: contractAddress })).data, word(9));
assert.equal((await open.getLogs({ address: contractAddress, fromBlock: 0n })).length, 1);
assert.equal(await open.getStorageAt({ address: contractAddress, slot: "0x0" }), word(9));
await assert.rejects(open.call({ to: contractAddress, data: "0x" + "ff".repeat(32) }), /no/);

const id = await test.snapshot();
const somebody = "0x00000000000000000000000000000000000000c1";
await test.setBalance({ address: somebody, value: parseEther("2") });
await test.impersonateAccount({ address: somebody });
await wait(await wallet.sendTransaction({ account: somebody, to: account.address, value: 1n }));
await test.stopImpersonatingAccount({ address: somebody });
await test.mine({ blocks: 3, interval: 12 });
const before = (await open.getBlock()).timestamp;
await test.increaseTime({ seconds: 600 });
await test.mine({ blocks: 1 });
assert.ok((await open.getBlock()).timestamp >= before + 600n);
await test.setNextBlockBaseFeePerGas({ baseFeePerGas: 5_000_000_000n });
await test.mine({ blocks: 1 });
assert.equal((await open.getBlock()).baseFeePerGas, 5_000_000_000n);
await test.revert({ id });
assert.equal(await open.getBalance({ address: somebody }), 0n);
const fees = await open.getFeeHistory({ blockCount: 2, rewardPercentiles: [25, 75] });
assert.ok(fees.baseFeePerGas.length >= 2);
const simulated = await open.simulateBlocks({ blocks: [{ calls: [{ account: account.address, to: contractAddress, data: word(3) }] }] });
assert.equal(simulated[0].calls[0].status, "success");
process.exit(0);
