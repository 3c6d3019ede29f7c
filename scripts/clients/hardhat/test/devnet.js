// A hardhat project whose network is the devnet: fixtures, helpers, events.
const assert = require("node:assert/strict");
const { ethers } = require("hardhat");
const { impersonateAccount, loadFixture, mine, setBalance, setStorageAt, time } = require("@nomicfoundation/hardhat-network-helpers");

const code = "0x608180600b6000396000f33615601d5760003580191560295780600055600052600160206000a1005b60005460005260206000f35b7f08c379a000000000000000000000000000000000000000000000000000000000600052602060045260026024527f6e6f00000000000000000000000000000000000000000000000000000000000060445260646000fd";
const word = n => ethers.zeroPadValue(ethers.toBeHex(n), 32);

async function deployed() {
  const [owner] = await ethers.getSigners();
  const receipt = await (await owner.sendTransaction({ data: code })).wait();
  return { owner, contract: receipt.contractAddress };
}

describe("devnet", () => {
  for (const round of [1, 2]) {
    it(`begins at the fixture, round ${round}`, async () => {
      const { owner, contract } = await loadFixture(deployed);
      assert.equal(await ethers.provider.call({ to: contract }), word(0));
      await (await owner.sendTransaction({ to: contract, data: word(round) })).wait();
      assert.equal(await ethers.provider.call({ to: contract }), word(round));
    });
  }

  it("has the helpers", async () => {
    const { contract } = await loadFixture(deployed);
    const somebody = "0x00000000000000000000000000000000000000d1";
    await setBalance(somebody, ethers.parseEther("3"));
    await impersonateAccount(somebody);
    const signer = await ethers.getSigner(somebody);
    await (await signer.sendTransaction({ to: contract, data: word(8) })).wait();
    await setStorageAt(contract, 0, word(9));
    assert.equal(await ethers.provider.call({ to: contract }), word(9));
    const before = await time.latestBlock();
    await mine(5);
    assert.equal(await time.latestBlock(), before + 5);
    const later = (await time.latest()) + 3600;
    await time.increaseTo(later);
    assert.equal(await time.latest(), later);
  });

  it("says why a call reverts", async () => {
    const { contract } = await loadFixture(deployed);
    await assert.rejects(ethers.provider.call({ to: contract, data: "0x" + "ff".repeat(32) }), /no/);
  });
});
