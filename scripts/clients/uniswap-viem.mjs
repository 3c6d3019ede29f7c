// Uniswap v2 with viem: as uniswap-ethers.mjs, from an account whose key the client has.
import assert from "node:assert/strict";
import { createPublicClient, createWalletClient, defineChain, http, parseEther } from "viem";
import { mnemonicToAccount } from "viem/accounts";
import uniswap from "./uniswap.cjs";

const url = process.argv[2];
const chain = defineChain({ id: 1337, name: "devnet", nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 }, rpcUrls: { default: { http: [url] } } });
const account = mnemonicToAccount("test test test test test test test test test test test junk", { addressIndex: 3 });
const transport = http(url);
const open = createPublicClient({ chain, transport, pollingInterval: 50 });
const wallet = createWalletClient({ chain, transport, account });

const done = async hash => {
  const receipt = await open.waitForTransactionReceipt({ hash: await hash });
  assert.equal(receipt.status, "success");
  return receipt;
};
const deploy = async ({ abi, bytecode }, ...args) =>
  ({ abi, address: (await done(wallet.deployContract({ abi, bytecode, args }))).contractAddress });
const write = (contract, functionName, args, value = 0n) =>
  done(wallet.writeContract({ ...contract, functionName, args, ...(value ? { value } : {}) }));
const factory = await deploy(uniswap.factory, account.address);
const weth = await deploy(uniswap.weth);
const router = await deploy(uniswap.router, factory.address, weth.address);
const token = await deploy(uniswap.token, parseEther("1000000"));
const balance = () => open.readContract({ ...token, functionName: "balanceOf", args: [account.address] });

const deadline = 2n ** 40n;
await write(token, "approve", [router.address, parseEther("1000000")]);
const liquidity = [token.address, parseEther("1000"), 0n, 0n, account.address, deadline];
await write(router, "addLiquidityETH", liquidity, parseEther("10"));
for (let round = 0; round < 5; round++) {
  await write(router, "addLiquidityETH", liquidity, parseEther("10"));
  const before = await balance();
  await write(router, "swapExactETHForTokens", [0n, [weth.address, token.address], account.address, deadline], parseEther("1"));
  assert.ok((await balance()) > before);
}
