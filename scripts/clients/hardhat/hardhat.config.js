require("@nomicfoundation/hardhat-ethers");

module.exports = {
  defaultNetwork: "devnet",
  networks: { devnet: { url: process.env.DEVNET_URL, chainId: 1337 } },
};
