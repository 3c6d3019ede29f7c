// The contracts of Uniswap v2, as their authors published them on npm: ABI and creation code of each.
const contract = file => {
  const { abi, evm } = require(`@uniswap/${file}.json`);
  return { abi, bytecode: "0x" + evm.bytecode.object };
};

module.exports = {
  factory: contract("v2-core/build/UniswapV2Factory"),
  token: contract("v2-core/build/ERC20"),
  weth: contract("v2-periphery/build/WETH9"),
  router: contract("v2-periphery/build/UniswapV2Router02"),
};
