// Uniswap v2 in a hardhat project: liquidity, and at once a swap, each with the gas that the node estimates.
const assert = require("node:assert/strict");
const { ethers } = require("hardhat");
const uniswap = require("../../uniswap.cjs");

const ether = ethers.parseEther;

describe("Uniswap v2", () => {
  it("swaps right after liquidity came", async () => {
    const owner = (await ethers.getSigners())[4];
    const deploy = async ({ abi, bytecode }, ...args) =>
      (await new ethers.ContractFactory(abi, bytecode, owner).deploy(...args)).waitForDeployment();
    const factory = await deploy(uniswap.factory, owner.address);
    const weth = await deploy(uniswap.weth);
    const router = await deploy(uniswap.router, await factory.getAddress(), await weth.getAddress());
    const token = await deploy(uniswap.token, ether("1000000"));
    const place = await token.getAddress();
    const done = async sent => assert.equal((await (await sent).wait()).status, 1);
    const deadline = 2n ** 40n;
    await done(token.approve(await router.getAddress(), ether("1000000")));
    const add = () => router.addLiquidityETH(place, ether("1000"), 0, 0, owner.address, deadline, { value: ether("10") });
    await done(add());
    for (let round = 0; round < 5; round++) {
      await done(add());
      const before = await token.balanceOf(owner.address);
      const path = [await weth.getAddress(), place];
      await done(router.swapExactETHForTokens(0, path, owner.address, deadline, { value: ether("1") }));
      assert.ok((await token.balanceOf(owner.address)) > before);
    }
  });
});
