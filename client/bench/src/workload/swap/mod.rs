//! The workload of swaps on UniswapV2.

mod uniswap;

use super::{
    GENESIS_TIME, Shape, Workload,
    erc20::{Compiled, mapping_slot},
    transfer::{genesis, senders, transaction},
};
use crate::{BlockPlan, CacheError, Planned, Random, Wallet};
use alloy_consensus::{Header, Sealed, TxEip1559};
use alloy_primitives::{Address, Bytes, U256, address, keccak256, uint};
use polytrie_chainspec::{GenesisPlan, InitialAccount};
use uniswap::{Uniswap, short_string};

const FACTORY: Address = address!("7070000000000000000000000000000000000021");
const ROUTER: Address = address!("7070000000000000000000000000000000000022");
/// Addresses of the tokens in ascending order, as pairs hold them.
const TOKENS: [Address; 2] = [
    address!("7070000000000000000000000000000000000023"),
    address!("7070000000000000000000000000000000000024"),
];
/// Address of ether as a token; it is above those of the tokens.
const WETH: Address = address!("7070000000000000000000000000000000000025");
/// Account with the liquidity of both pairs.
const PROVIDER: Address = address!("7070000000000000000000000000000000000026");
/// Reserve of each side in each pair: a billion, so that prices hardly move.
const RESERVE: U256 = uint!(1_000_000_000_000_000_000_000_000_000_U256);
/// Liquidity that the first provider of a pair can never withdraw.
const LOCKED: U256 = uint!(1_000_U256);
/// Balance of each account: a million tokens of 18 decimals.
const BALANCE: U256 = uint!(1_000_000_000_000_000_000_000_000_U256);
/// Gas limit of a call, more than any call uses: about 90,000 to 140,000.
const CALL_GAS: u64 = 250_000;
/// Greatest amount of a swap: a hundredth of a token or an ether.
const LARGEST: u64 = 10_000_000_000_000_000;

/// Set of the router's functions that are called, each equally often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swaps {
    /// All six functions.
    All,
    /// The four with ether on one side.
    Eth,
    /// The two between tokens.
    Token,
}

/// A function of the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    ExactTokensForTokens,
    TokensForExactTokens,
    ExactEthForTokens,
    TokensForExactEth,
    ExactTokensForEth,
    EthForExactTokens,
}

use Function::*;

impl Swaps {
    const fn functions(self) -> &'static [Function] {
        const ALL: [Function; 6] = [
            ExactTokensForTokens,
            TokensForExactTokens,
            ExactEthForTokens,
            TokensForExactEth,
            ExactTokensForEth,
            EthForExactTokens,
        ];
        let (token, eth) = ALL.split_at(2);
        match self {
            Self::All => &ALL,
            Self::Eth => eth,
            Self::Token => token,
        }
    }
}

/// EIP-1559 calls of the swap functions of the UniswapV2 router: two tokens, of which every account has a balance that
/// the router may spend, and ether. There is a pair of the tokens, and one of the first token and ether.
#[derive(Debug)]
pub struct Swap {
    shape: Shape,
    swaps: Swaps,
    wallet: Wallet,
    random: Random,
    left: u64,
    uniswap: Uniswap,
    token: Compiled,
}

impl Swap {
    /// Returns the workload of this shape, with the accounts and the seed of this wallet.
    ///
    /// # Errors
    ///
    /// Fails if the contracts are missing.
    pub fn new(wallet: Wallet, shape: Shape, swaps: Swaps) -> Result<Self, CacheError> {
        let uniswap = Uniswap::open()?;
        let random = Random::new(wallet.seed(), 0);
        let token = Compiled::token();
        Ok(Self { shape, swaps, wallet, random, left: shape.txs, uniswap, token })
    }

    /// Returns the pairs: their addresses, and their tokens in order.
    fn pairs(&self) -> [(Address, [Address; 2]); 2] {
        [TOKENS, [TOKENS[0], WETH]]
            .map(|tokens| (self.uniswap.pair_address(FACTORY, tokens[0], tokens[1]), tokens))
    }

    fn factory(&self) -> InitialAccount<'_> {
        let mut slots = vec![(U256::from(1), PROVIDER.into_word().into())];
        let pairs = self.pairs();
        slots.push((U256::from(3), U256::from(pairs.len())));
        let list = U256::from_be_bytes(keccak256(U256::from(3).to_be_bytes::<32>()).0);
        for (index, (pair, [a, b])) in pairs.into_iter().enumerate() {
            let pair: U256 = pair.into_word().into();
            slots.push((list + U256::from(index), pair));
            for (a, b) in [(a, b), (b, a)] {
                slots.push((mapping_slot(mapping_slot(U256::from(2), &a), &b), pair));
            }
        }
        contract(FACTORY, &self.uniswap.factory, slots)
    }

    fn pair(&self, address: Address, tokens: [Address; 2]) -> InitialAccount<'_> {
        let word = |address: Address| -> U256 { address.into_word().into() };
        let time = U256::from(GENESIS_TIME % (1 << 32));
        // Both sides are equal, so their geometric mean is the same number.
        let slots = vec![
            (U256::from(0), RESERVE),
            (mapping_slot(U256::from(1), &Address::ZERO), LOCKED),
            (mapping_slot(U256::from(1), &PROVIDER), RESERVE - LOCKED),
            (U256::from(5), word(FACTORY)),
            (U256::from(6), word(tokens[0])),
            (U256::from(7), word(tokens[1])),
            (U256::from(8), RESERVE | (RESERVE << 112) | (time << 224)),
            (U256::from(12), U256::from(1)),
        ];
        contract(address, &self.uniswap.pair, slots)
    }

    fn weth(&self) -> InitialAccount<'_> {
        let [_, (pair, _)] = self.pairs();
        let slots = vec![
            (U256::from(0), short_string("Wrapped Ether")),
            (U256::from(1), short_string("WETH")),
            (U256::from(2), U256::from(18)),
            (mapping_slot(U256::from(3), &pair), RESERVE),
        ];
        InitialAccount { balance: RESERVE, ..contract(WETH, &self.uniswap.weth, slots) }
    }

    /// Returns a token: balances of accounts and pairs, allowances of the router, and the supply.
    fn token(&self, number: usize) -> InitialAccount<'_> {
        let address = TOKENS[number];
        let balance_of = U256::from(self.token.slots.balance_of);
        let allowance = U256::from(self.token.slots.allowance);
        let supply_slot = U256::from(self.token.slots.total_supply);
        let mut random = Random::new(self.wallet.seed(), 6 + number as u64);
        let pairs = self.pairs().into_iter().filter(move |(_, tokens)| tokens.contains(&address));
        let reserves: Vec<_> =
            pairs.map(|(pair, _)| (mapping_slot(balance_of, &pair), RESERVE)).collect();
        let mut supply = Some(RESERVE * U256::from(reserves.len()));
        let mut accounts = self.wallet.addresses().iter();
        let mut spendable = None;
        let slots = std::iter::from_fn(move || {
            if let Some(slot) = spendable.take() {
                return Some(slot);
            }
            let Some(account) = accounts.next() else {
                return supply.take().map(|sum| (supply_slot, sum));
            };
            let tokens = BALANCE + U256::from(random.word());
            supply = supply.map(|sum| sum + tokens);
            spendable = Some((mapping_slot(mapping_slot(allowance, account), &ROUTER), U256::MAX));
            Some((mapping_slot(balance_of, account), tokens))
        });
        InitialAccount {
            slots: Box::new(reserves.into_iter().chain(slots)),
            ..InitialAccount::contract(address, self.token.code.clone())
        }
    }

    /// Returns the next swap of an account, for itself.
    fn swap(&mut self, from: usize) -> TxEip1559 {
        let functions = self.swaps.functions();
        let function = functions[self.random.index(functions.len())];
        let amount = U256::from(1 + self.random.below(LARGEST));
        let turned = self.random.percent(50);
        let between = if turned { [TOKENS[1], TOKENS[0]] } else { TOKENS };
        let (sell, buy) = ([TOKENS[0], WETH], [WETH, TOKENS[0]]);
        let any = U256::ZERO;
        let enough = U256::MAX;
        // Prices stay near one, so twice the amount always suffices, and the router returns the difference.
        let double = amount * U256::from(2);
        let (name, value, numbers, path): (_, _, &[U256], _) = match function {
            ExactTokensForTokens => {
                ("swapExactTokensForTokens(uint256,uint256", any, &[amount, any], between)
            }
            TokensForExactTokens => {
                ("swapTokensForExactTokens(uint256,uint256", any, &[amount, enough], between)
            }
            ExactEthForTokens => ("swapExactETHForTokens(uint256", amount, &[any], buy),
            TokensForExactEth => {
                ("swapTokensForExactETH(uint256,uint256", any, &[amount, enough], sell)
            }
            ExactTokensForEth => {
                ("swapExactTokensForETH(uint256,uint256", any, &[amount, any], sell)
            }
            EthForExactTokens => ("swapETHForExactTokens(uint256", double, &[amount], buy),
        };
        let input = call(name, numbers, path, self.wallet.address(from));
        TxEip1559 {
            to: ROUTER.into(),
            value,
            input,
            ..transaction(&mut self.wallet, from, CALL_GAS, &mut self.random)
        }
    }
}

/// Encodes a call of `NAME,address[],address,uint256)`: numbers, a path of two, the recipient, and no deadline.
fn call(name: &str, numbers: &[U256], path: [Address; 2], to: Address) -> Bytes {
    let selector = keccak256(format!("{name},address[],address,uint256)"));
    let words = 32 * (numbers.len() + 3);
    let mut input = selector[..4].to_vec();
    let mut word = |word: U256| input.extend_from_slice(&word.to_be_bytes::<32>());
    numbers.iter().for_each(|number| word(*number));
    word(U256::from(words));
    word(to.into_word().into());
    word(U256::MAX);
    word(U256::from(path.len()));
    path.iter().for_each(|address| word(address.into_word().into()));
    input.into()
}

fn contract(address: Address, code: &Bytes, slots: Vec<(U256, U256)>) -> InitialAccount<'static> {
    InitialAccount {
        slots: Box::new(slots.into_iter()),
        ..InitialAccount::contract(address, code.clone())
    }
}

impl Workload for Swap {
    fn genesis(&self) -> GenesisPlan {
        genesis(2 * CALL_GAS * self.shape.block_txs)
    }

    fn accounts(&self) -> Box<dyn Iterator<Item = InitialAccount<'_>> + '_> {
        let router = self.uniswap.router(FACTORY, WETH);
        let [(first, of_first), (second, of_second)] = self.pairs();
        let contracts = [
            self.factory(),
            contract(ROUTER, &router, Vec::new()),
            self.pair(first, of_first),
            self.pair(second, of_second),
            self.weth(),
            self.token(0),
            self.token(1),
        ];
        Box::new(contracts.into_iter().chain(senders(&self.wallet)))
    }

    fn wallet(&self) -> &Wallet {
        &self.wallet
    }

    fn next_block(&mut self, parent: &Sealed<Header>) -> Option<BlockPlan> {
        let (shape, mut left) = (self.shape, self.left);
        let plan = shape.block(&mut left, parent, || {
            let from = shape.sender(&mut self.random);
            Planned { from, tx: self.swap(from).into() }
        });
        self.left = left;
        plan
    }
}
