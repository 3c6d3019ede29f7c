//! Transactions that can happen in a block.

use crate::{
    block::{Call, Draft, Form},
    contracts::{self, word, words},
    workload::{ACCOUNTS, DEPOSIT_CONTRACT, GENESIS_TABLE, SUPPLY, Sample},
};
use alloy_eips::{
    eip2930::{AccessList, AccessListItem},
    eip2935::HISTORY_STORAGE_ADDRESS,
    eip4788::BEACON_ROOTS_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
    eip7702::Authorization,
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use polytrie_bench::assembler::deploy;
use polytrie_bench::workload::{CHAIN_ID, GWEI};

/// Gas of a transfer to an account without code.
const TRANSFER_GAS: u64 = 21_000;
/// Gas for a call that writes a few slots.
const CALL_GAS: u64 = 150_000;
/// Gas for a call of an observer, whose first call writes some twenty new slots.
const OBSERVER_GAS: u64 = 550_000;
/// Gas to deploy any of the contracts.
const CREATE_GAS: u64 = 250_000;

impl Sample {
    /// Adds a random transaction to the block, if it has room.
    pub(crate) fn act(&mut self, block: &mut Draft) {
        if !block.has_room(CREATE_GAS) {
            return;
        }
        let prague = self.fork >= EthereumHardfork::Prague;
        match self.random.below(32) {
            0..5 => self.pay_someone(block),
            5..7 => self.pay_someone_new(block),
            7..12 => self.transfer_tokens(block),
            12..16 => self.write_table(block),
            16..18 => self.clear_table(block),
            18 => self.create(block),
            19 => self.create_in_vain(block),
            20..22 => self.observe(block),
            22..24 => self.relay(block),
            24..26 if self.fork >= EthereumHardfork::Cancun => self.carry_blobs(block),
            26..29 if prague => self.set_code(block),
            29..32 if prague => self.request(block),
            _ => self.pay_someone(block),
        }
    }

    /// Number of a random account.
    pub(crate) fn anyone(&mut self) -> usize {
        self.random.index(ACCOUNTS)
    }

    /// Sends a call with a random transaction type.
    pub(crate) fn send(&mut self, block: &mut Draft, from: usize, call: Call) {
        let form = match self.random.below(12) {
            0 => Form::Unprotected,
            1..4 => Form::Legacy,
            4..6 => Form::AccessList(self.access_list(&call)),
            _ => Form::DynamicFee(self.random.below(2 * GWEI as u64)),
        };
        self.send_as(block, from, call, form);
    }

    fn send_as(&mut self, block: &mut Draft, from: usize, mut call: Call, form: Form) {
        if let Form::AccessList(list) = &form {
            call.gas +=
                list.iter().map(|item| 2400 + 1900 * item.storage_keys.len() as u64).sum::<u64>();
        }
        if block.has_room(call.gas) {
            block.push(from, self.wallet.use_nonce(from), call, form);
        }
    }

    /// An access list with some of what the call touches, and something that it does not.
    fn access_list(&mut self, call: &Call) -> AccessList {
        let mut items =
            vec![AccessListItem { address: self.contracts.token, storage_keys: vec![] }];
        if let Some(to) = call.to.to() {
            let storage_keys =
                (0..self.random.below(3)).map(|slot| U256::from(slot).into()).collect();
            items.push(AccessListItem { address: *to, storage_keys });
        }
        items.into()
    }

    /// Deploys the contracts that the other transactions use.
    pub(crate) fn deploy_contracts(&mut self, block: &mut Draft) {
        self.contracts.table = self.deploy(block, deploy(&contracts::table()));
        self.contracts.token = self.deploy(block, contracts::token_init(SUPPLY));
        self.tokens[0] = SUPPLY;
        self.contracts.factory = self.deploy(block, deploy(&contracts::factory()));
        self.contracts.relay = self.deploy(block, deploy(&contracts::relay()));
        self.contracts.burner = self.deploy(block, deploy(&contracts::burner()));
    }

    /// Deploys a contract that uses the opcodes of the current fork.
    pub(crate) fn deploy_observer(&mut self, block: &mut Draft) {
        let observer = self.deploy(block, deploy(&contracts::observer(self.fork)));
        self.contracts.observers.push(observer);
    }

    /// Deploys a contract from account 0.
    fn deploy(&mut self, block: &mut Draft, init: Bytes) -> Address {
        let address = self.wallet.address(0).create(self.wallet.nonce(0));
        let gas = 100_000 + 300 * init.len() as u64;
        self.send_as(block, 0, Call::create(init, gas), Form::DynamicFee(GWEI as u64));
        address
    }

    fn pay_someone(&mut self, block: &mut Draft) {
        let (from, to) = (self.anyone(), self.anyone());
        // A delegated account runs code when it is paid.
        let gas = if self.delegated[to] { CALL_GAS } else { TRANSFER_GAS };
        let value = self.random.below(1_000_000_000_000_000_000);
        self.send(block, from, Call::pay(self.wallet.address(to), value, gas));
    }

    fn pay_someone_new(&mut self, block: &mut Draft) {
        let from = self.anyone();
        match self.random.below(4) {
            // Touches an account that does not exist; that must not create it (EIP-161).
            0 => {
                let to = Address::from(self.random.bytes());
                self.send(block, from, Call::pay(to, 0, TRANSFER_GAS));
            }
            // Calls the identity precompile.
            1 => self.send(block, from, Call::pay(Address::with_last_byte(4), 1, CALL_GAS)),
            _ => {
                let (to, value) = (Address::from(self.random.bytes()), 1 + self.random.below(1000));
                self.send(block, from, Call::pay(to, value, TRANSFER_GAS));
            }
        }
    }

    fn transfer_tokens(&mut self, block: &mut Draft) {
        let (from, to) = (self.anyone(), self.anyone());
        let balance = self.tokens[from];
        let amount = match self.random.below(10) {
            // An amount beyond the balance makes the transfer revert.
            0 => balance + 1,
            // The whole balance clears the slot.
            1..4 => balance,
            _ => self.random.below(balance + 1),
        };
        if !block.has_room(CALL_GAS) {
            return;
        }
        if amount <= balance {
            self.tokens[from] -= amount;
            self.tokens[to] += amount;
        }
        let input = words(&[word(self.wallet.address(to)), U256::from(amount)]);
        self.send_as(
            block,
            from,
            Call::to(self.contracts.token, input, CALL_GAS),
            Form::DynamicFee(GWEI as u64),
        );
    }

    fn write_table(&mut self, block: &mut Draft) {
        let mut pairs = Vec::new();
        for _ in 0..=self.random.below(4) {
            pairs.push(U256::from(self.random.below(40)));
            pairs.push(U256::from(self.random.word() >> self.random.below(64)));
        }
        self.put(block, &pairs);
    }

    fn clear_table(&mut self, block: &mut Draft) {
        let first = self.random.below(40);
        let pairs: Vec<_> =
            (first..first + 6).flat_map(|slot| [U256::from(slot), U256::ZERO]).collect();
        self.put(block, &pairs);
    }

    /// Writes pairs into one of the tables, or into an account with a table's code.
    fn put(&mut self, block: &mut Draft, pairs: &[U256]) {
        let from = self.anyone();
        let delegated = self.delegated.iter().position(|delegated| *delegated);
        let to = match (self.random.below(4), delegated) {
            (0, Some(account)) => self.wallet.address(account),
            (1, _) => GENESIS_TABLE,
            _ => self.contracts.table,
        };
        self.send(block, from, Call::to(to, words(pairs), CALL_GAS));
    }

    /// Creates a contract that is never called.
    fn create(&mut self, block: &mut Draft) {
        let from = self.anyone();
        let init = if self.random.percent(50) {
            contracts::mortal_init()
        } else {
            deploy(&contracts::table())
        };
        let value = self.random.below(100);
        self.send(block, from, Call::create(init, CREATE_GAS).with_value(value));
    }

    fn create_in_vain(&mut self, block: &mut Draft) {
        let from = self.anyone();
        let (init, gas) = match self.random.below(4) {
            0 => (contracts::stillborn_init(), CREATE_GAS),
            1 => (contracts::reverting_init(), CREATE_GAS),
            2 => (contracts::reserved_init(), 70_000),
            // The gas is too little to keep the code.
            _ => (deploy(&contracts::table()), 60_000),
        };
        self.send(block, from, Call::create(init, gas).with_value(1));
    }

    fn observe(&mut self, block: &mut Draft) {
        let from = self.anyone();
        let observer = self.contracts.observers[self.random.index(self.contracts.observers.len())];
        self.send(block, from, Call::to(observer, Bytes::new(), OBSERVER_GAS));
    }

    fn relay(&mut self, block: &mut Draft) {
        let number = U256::from(block.number);
        let mut targets = vec![
            // Precompiles: ECRECOVER with garbage, SHA-256, RIPEMD-160, identity, an addition on BN254.
            (Address::with_last_byte(1), words(&[number; 4])),
            (Address::with_last_byte(2), words(&[number])),
            (Address::with_last_byte(3), words(&[number])),
            (Address::with_last_byte(4), words(&[number; 3])),
            (Address::with_last_byte(6), words(&[U256::from(1), U256::from(2)])),
            (self.contracts.table, words(&[number % U256::from(40), number])),
            // The inner call fails: the relay has no tokens.
            (self.contracts.token, words(&[U256::ZERO, number])),
        ];
        if self.fork >= EthereumHardfork::Cancun {
            targets.push((BEACON_ROOTS_ADDRESS, words(&[U256::from(block.plan.timestamp)])));
        }
        if self.fork >= EthereumHardfork::Prague {
            targets.push((HISTORY_STORAGE_ADDRESS, words(&[number - U256::from(1)])));
            // An addition on BLS12-381 of the point at infinity to itself.
            targets.push((Address::with_last_byte(0xb), vec![0; 256].into()));
        }
        if self.fork >= EthereumHardfork::Osaka {
            // P256VERIFY with garbage.
            targets.push((Address::left_padding_from(&[1, 0]), words(&[number; 5])));
        }
        let (target, input) = targets.swap_remove(self.random.index(targets.len()));
        let input = [&word(target).to_be_bytes::<32>(), &input[..]].concat();
        let from = self.anyone();
        self.send(block, from, Call::to(self.contracts.relay, input.into(), CALL_GAS));
    }

    /// Uses up most of the gas that is left in the block.
    pub(crate) fn burn(&mut self, block: &mut Draft) {
        let from = self.anyone();
        let gas = block.gas_left - self.random.below(block.gas_left / 4);
        if gas >= TRANSFER_GAS {
            let call = Call::to(self.contracts.burner, Bytes::new(), gas);
            self.send_as(block, from, call, Form::DynamicFee(0));
        }
    }

    fn carry_blobs(&mut self, block: &mut Draft) {
        let blobs = (1 + self.random.below(3)).min(block.blobs_left);
        if blobs == 0 || !block.has_room(OBSERVER_GAS) {
            return;
        }
        block.blobs_left -= blobs;
        let hashes = (0..blobs).map(|_| {
            let mut hash = keccak256(self.random.bytes::<8>());
            hash[0] = 1;
            hash
        });
        let hashes: Vec<B256> = hashes.collect();
        let from = self.anyone();
        // The observer stores the hash of the first blob.
        let observer = self.contracts.observers[self.contracts.observers.len() - 1];
        self.send_as(
            block,
            from,
            Call::to(observer, Bytes::new(), OBSERVER_GAS),
            Form::Blobs(hashes),
        );
    }

    /// Delegates accounts to a contract, or clears their delegation (EIP-7702). Some authorizations are not valid and
    /// have no effect.
    fn set_code(&mut self, block: &mut Draft) {
        let from = self.anyone();
        let gas = CALL_GAS + 100_000;
        if !block.has_room(gas) {
            return;
        }
        let nonce = self.wallet.use_nonce(from);
        let mut list = Vec::new();
        for _ in 0..=self.random.below(2) {
            let authority = self.anyone();
            let code = match self.random.below(3) {
                0 => Address::ZERO,
                1 => self.contracts.token,
                _ => self.contracts.table,
            };
            let (chain_id, ahead, valid) = match self.random.below(6) {
                0 => (CHAIN_ID, 5, false),
                1 => (CHAIN_ID + 1, 0, false),
                2 => (0, 0, true),
                _ => (CHAIN_ID, 0, true),
            };
            let authorization = Authorization {
                chain_id: U256::from(chain_id),
                address: code,
                nonce: self.wallet.nonce(authority) + ahead,
            };
            list.push(self.wallet.authorize(authority, authorization));
            if valid {
                self.wallet.use_nonce(authority);
                self.delegated[authority] = code != Address::ZERO;
            }
        }
        let input = words(&[U256::from(block.number % 40), U256::from(block.number)]);
        let call = Call::to(self.contracts.table, input, gas);
        block.push(from, nonce, call, Form::SetCode(list));
    }

    /// Sends a request to the consensus layer (EIP-6110, 7002, 7251).
    fn request(&mut self, block: &mut Draft) {
        let from = self.anyone();
        let call = match self.random.below(3) {
            0 => Call::to(DEPOSIT_CONTRACT, self.deposit(), CALL_GAS),
            1 => {
                let mut input = self.random.bytes::<56>();
                input[48..].copy_from_slice(&self.random.below(32_000_000_000).to_be_bytes());
                Call::to(WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, input.into(), CREATE_GAS)
                    .with_value(GWEI as u64)
            }
            _ => {
                let input = self.random.bytes::<96>();
                Call::to(CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, input.into(), CREATE_GAS)
                    .with_value(GWEI as u64)
            }
        };
        self.send(block, from, call);
    }

    /// Data of a deposit's log: public key, withdrawal credentials, amount, signature and index, as byte strings in
    /// the encoding of contract calls.
    fn deposit(&mut self) -> Bytes {
        let (key, credentials) = (self.random.bytes::<48>(), self.random.bytes::<32>());
        let (amount, index) =
            (32_000_000_000_u64.to_le_bytes(), self.random.below(1000).to_le_bytes());
        let signature = self.random.bytes::<96>();
        let fields: [&[u8]; 5] = [&key, &credentials, &amount, &signature, &index];
        let (mut data, mut tail) = (Vec::new(), Vec::new());
        for field in fields {
            let offset = 32 * fields.len() + tail.len();
            data.extend_from_slice(&U256::from(offset).to_be_bytes::<32>());
            tail.extend_from_slice(&U256::from(field.len()).to_be_bytes::<32>());
            tail.extend_from_slice(field);
            tail.resize(tail.len().next_multiple_of(32), 0);
        }
        data.extend_from_slice(&tail);
        data.into()
    }
}
