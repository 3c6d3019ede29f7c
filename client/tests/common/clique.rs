//! Makes and seals Clique chains for tests.

use crate::branches::{complete, in_memory};
use alloy_consensus::{
    Block, BlockBody, Header, Sealed, SignableTransaction, TxEnvelope, TxLegacy,
    constants::EMPTY_OMMER_ROOT_HASH, proofs,
};
use alloy_primitives::{Address, B64, Bytes, TxKind, U256, hex, keccak256};
use alloy_signer::SignerSync;
use alloy_signer_local::PrivateKeySigner;
use polytrie::{
    bench::Random,
    chain::{Chain, ChainOptions},
    consensus::{
        clique::{DIFF_INTURN, DIFF_NOTURN, NONCE_AUTH, Snapshot, recover_signer, seal_hash},
        decode::decode_header,
        next_base_fee,
    },
};
use polytrie_chainspec::{ChainSpec, Clique};
use std::{iter, sync::Arc};

/// The address of a contract that stores the result of COINBASE in its slot 0.
pub(crate) const COINBASE_KEEPER: Address = Address::repeat_byte(0xc0);

const CHAIN_ID: u64 = 2_250;

/// Returns the private key of a signer, whose name is a letter.
pub(crate) fn key(name: char) -> PrivateKeySigner {
    PrivateKeySigner::from_bytes(&keccak256([name as u8])).unwrap()
}

pub(crate) fn address(name: char) -> Address {
    key(name).address()
}

/// Returns the extra data of a block before it is sealed.
pub(crate) fn extra(signers: &[Address]) -> Bytes {
    let list: Vec<u8> = signers.iter().flat_map(|signer| signer.0).collect();
    [&[b'v'; Clique::VANITY][..], &list, &[0; Clique::SEAL]].concat().into()
}

/// Writes the signature of a signer into the end of the extra data.
pub(crate) fn seal(header: &mut Header, by: char) {
    let signature = key(by).sign_hash_sync(&seal_hash(header)).unwrap();
    let mut extra = header.extra_data.to_vec();
    let end = extra.len() - Clique::SEAL;
    extra[end..].copy_from_slice(&signature.as_bytes());
    // EIP-225 counts recovery ids from 0, transactions from 27.
    *extra.last_mut().unwrap() -= 27;
    header.extra_data = extra.into();
}

/// A maker of chains, which adds one block at a time.
pub(crate) struct Maker {
    pub(crate) genesis: String,
    pub(crate) clique: Clique,
    pub(crate) signers: Snapshot,
    /// The blocks that were added, from number 1 on.
    pub(crate) blocks: Vec<Bytes>,
    chain: Chain,
    /// The number of transactions so far. All of them are sent by A.
    transactions: u64,
}

impl Maker {
    /// Starts a chain with the genesis block alone. `None` if the build has no canonical layer to compute the roots.
    pub(crate) fn new(signers: &str, clique: Clique) -> Option<Self> {
        Self::with_terminal(signers, clique, "1000000000000000000000000")
    }

    /// Starts a chain that merges at the total difficulty `terminal`, which is written as in JSON.
    pub(crate) fn with_terminal(signers: &str, clique: Clique, terminal: &str) -> Option<Self> {
        let mut first: Vec<Address> = signers.chars().map(address).collect();
        first.sort_unstable();
        let forks = [
            "homesteadBlock",
            "eip150Block",
            "eip155Block",
            "eip158Block",
            "byzantiumBlock",
            "constantinopleBlock",
            "petersburgBlock",
            "istanbulBlock",
            "berlinBlock",
            "londonBlock",
        ];
        let forks: String = forks.iter().map(|fork| format!("\"{fork}\": 0, ")).collect();
        let (period, epoch, extra) = (clique.period, clique.epoch(), extra(&first));
        let (rich, keeper) = (hex::encode(address('A')), hex::encode(COINBASE_KEEPER));
        let genesis = format!(
            r#"{{
    "config": {{ "chainId": {CHAIN_ID}, {forks}"terminalTotalDifficulty": {terminal},
                "clique": {{ "period": {period}, "epoch": {epoch} }} }},
    "extraData": "{extra}", "timestamp": "0x65000000", "gasLimit": "0x1c9c380", "difficulty": "0x1",
    "alloc": {{ "{rich}": {{ "balance": "0xd3c21bcecceda1000000" }},
               "{keeper}": {{ "balance": "0x0", "code": "0x4160005500" }} }}
}}
"#
        );
        let spec = Arc::new(ChainSpec::parse("genesis.json", genesis.as_bytes()).unwrap());
        let chain = in_memory(&spec, ChainOptions::default())?;
        let signers = Snapshot::genesis(spec.genesis_header());
        let (blocks, transactions) = (Vec::new(), 0);
        Some(Self { genesis, clique, signers, blocks, chain, transactions })
    }

    pub(crate) fn parent(&self) -> &Sealed<Header> {
        &self.chain.head().header
    }

    /// Returns the number of the next block.
    pub(crate) fn number(&self) -> u64 {
        self.parent().number + 1
    }

    /// Returns the one of these signers that is in turn for the next block.
    pub(crate) fn in_turn(&self, names: &str) -> char {
        let signers = self.signers.signers();
        let turn = signers[(self.number() % signers.len() as u64) as usize];
        names.chars().find(|name| address(*name) == turn).unwrap()
    }

    /// Returns those of these signers that may seal the next block.
    pub(crate) fn allowed(&self, names: &str) -> Vec<char> {
        let may = |name: &char| {
            let header = self.header(*name, None);
            self.signers.check(self.clique, &header, address(*name)).is_ok()
        };
        names.chars().filter(may).collect()
    }

    /// Returns the header of the next block, empty and not sealed. Its difficulty is 2 if the signer is in turn and 1
    /// otherwise.
    pub(crate) fn header(&self, by: char, vote: Option<(bool, char)>) -> Header {
        let (parent, number) = (self.parent(), self.number());
        let signers = self.signers.signers();
        let turn = signers.iter().position(|signer| *signer == address(by));
        let in_turn = turn.is_some_and(|turn| number % signers.len() as u64 == turn as u64);
        let timestamp = parent.timestamp + self.clique.period;
        let rules = self.chain.spec().rules(number, timestamp, false);
        let listed = if self.clique.is_checkpoint(number) { signers } else { &[] };
        Header {
            parent_hash: parent.hash(),
            ommers_hash: EMPTY_OMMER_ROOT_HASH,
            state_root: parent.state_root,
            number,
            timestamp,
            gas_limit: parent.gas_limit,
            difficulty: if in_turn { DIFF_INTURN } else { DIFF_NOTURN },
            beneficiary: vote.map_or(Address::ZERO, |(_, about)| address(about)),
            nonce: if vote.is_some_and(|(for_it, _)| for_it) { NONCE_AUTH } else { B64::ZERO },
            extra_data: extra(listed),
            base_fee_per_gas: next_base_fee(&rules, parent).map(|fee| fee as u64),
            ..Header::default()
        }
    }

    /// Returns a signed transaction by A, which calls the contract or pays some wei to an account.
    pub(crate) fn transaction(&mut self, to: Address) -> TxEnvelope {
        let is_contract = to == COINBASE_KEEPER;
        let tx = TxLegacy {
            chain_id: Some(CHAIN_ID),
            nonce: self.transactions,
            gas_price: 2_000_000_000,
            gas_limit: 100_000,
            to: TxKind::Call(to),
            value: U256::from(u8::from(!is_contract)),
            input: Bytes::new(),
        };
        self.transactions += 1;
        let signature = key('A').sign_hash_sync(&tx.signature_hash()).unwrap();
        tx.into_signed(signature).into()
    }

    /// Adds a valid block.
    pub(crate) fn push(
        &mut self,
        by: char,
        vote: Option<(bool, char)>,
        transactions: Vec<TxEnvelope>,
    ) {
        let mut header = self.header(by, vote);
        header.transactions_root = proofs::calculate_transaction_root(&transactions);
        let block = Block { header, body: BlockBody { transactions, ..Default::default() } };
        let rlp = complete(&mut self.chain, block, &|header| seal(header, by));
        let header = decode_header(&rlp).unwrap();
        let signer = recover_signer(&header).unwrap();
        self.signers.apply(self.clique, &header, signer);
        self.blocks.push(rlp);
    }

    /// Adds `count` blocks, each by the signer that is in turn.
    pub(crate) fn push_in_turn(&mut self, names: &str, count: usize) {
        for _ in 0..count {
            self.push(self.in_turn(names), None, Vec::new());
        }
    }

    /// Returns all blocks and, after them, an empty block with this header.
    pub(crate) fn and(&self, header: Header) -> Vec<Bytes> {
        let block: Block<TxEnvelope> = Block { header, body: BlockBody::default() };
        let last = alloy_rlp::encode(&block).into();
        self.blocks.iter().cloned().chain(iter::once(last)).collect()
    }

    /// Returns the sealed header of the next block.
    pub(crate) fn sealed(&self, by: char, vote: Option<(bool, char)>) -> Header {
        let mut header = self.header(by, vote);
        seal(&mut header, by);
        header
    }

    /// Adds a block after the merge, which pays its fees to `beneficiary`.
    pub(crate) fn push_merged(&mut self, beneficiary: Address, transactions: Vec<TxEnvelope>) {
        let mut header = Header {
            beneficiary,
            difficulty: U256::ZERO,
            nonce: B64::ZERO,
            extra_data: Bytes::new(),
            ..self.header('A', None)
        };
        header.timestamp += 1;
        header.transactions_root = proofs::calculate_transaction_root(&transactions);
        let block = Block { header, body: BlockBody { transactions, ..Default::default() } };
        self.blocks.push(complete(&mut self.chain, block, &|_| {}));
    }

    /// Adds `count` blocks, each by a random one of the allowed signers. Some of them have votes about random names,
    /// and some have transactions.
    pub(crate) fn push_random(&mut self, names: &str, count: usize, random: &mut Random) {
        let any = |random: &mut Random, names: &[char]| names[random.index(names.len())];
        let all: Vec<char> = names.chars().collect();
        for _ in 0..count {
            let by = any(random, &self.allowed(names));
            let signers = self.signers.signers();
            let (about, for_it) = (any(random, &all), random.below(2) == 0);
            let mut votes = !self.clique.is_checkpoint(self.number()) && random.below(3) > 0;
            // Do not vote against a signer if only two are left.
            votes &= signers.len() > 2 || (for_it && !signers.contains(&address(about)));
            let vote = votes.then_some((for_it, about));
            let transactions = match random.below(8) {
                0 => vec![self.transaction(COINBASE_KEEPER)],
                1 => vec![self.transaction(address('Z')), self.transaction(COINBASE_KEEPER)],
                _ => Vec::new(),
            };
            self.push(by, vote, transactions);
        }
    }
}
