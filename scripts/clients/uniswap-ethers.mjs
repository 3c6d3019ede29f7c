// Uniswap v2 with ethers: liquidity, and at once a swap, each with the gas that the node estimates. The pair writes more
// where time has passed since its last change, as in a block after the head it has.
import assert from "node:assert/strict";
import { ContractFactory, JsonRpcProvider, parseEther } from "ethers";
import uniswap from "./uniswap.cjs";

const provider = new JsonRpcProvider(process.argv[2]);
const signer = await provider.getSigner(0);
const me = await signer.getAddress();
const deploy = async ({ abi, bytecode }, ...args) =>
  (await new ContractFactory(abi, bytecode, signer).deploy(...args)).waitForDeployment();
const factory = await deploy(uniswap.factory, me);
const weth = await deploy(uniswap.weth);
const router = await deploy(uniswap.router, await factory.getAddress(), await weth.getAddress());
const token = await deploy(uniswap.token, parseEther("1000000"));
const place = await token.getAddress();

const done = async sent => {
  const receipt = await (await sent).wait();
  assert.equal(receipt.status, 1);
};
const deadline = 2n ** 40n;
await done(token.approve(await router.getAddress(), parseEther("1000000")));
const ether = { value: parseEther("10") };
await done(router.addLiquidityETH(place, parseEther("1000"), 0, 0, me, deadline, ether));
for (let round = 0; round < 5; round++) {
  await done(router.addLiquidityETH(place, parseEther("1000"), 0, 0, me, deadline, ether));
  const before = await token.balanceOf(me);
  const path = [await weth.getAddress(), place];
  await done(router.swapExactETHForTokens(0, path, me, deadline, { value: parseEther("1") }));
  assert.ok((await token.balanceOf(me)) > before);
}
provider.destroy();
