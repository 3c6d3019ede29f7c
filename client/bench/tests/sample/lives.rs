//! A contract that dies and comes back at the same address (EIP-1014), until Cancun makes it immortal (EIP-6780).

use crate::{
    block::{Call, Draft},
    contracts::{self, word, words},
    workload::Sample,
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, U256, keccak256};

/// Blocks from one life of the contract of one salt to the next.
const CYCLE: u64 = 12;
/// Salts in use.
const SALTS: u64 = 6;
/// Gas of every call here; creating costs the most.
const GAS: u64 = 200_000;

impl Sample {
    /// What the contract does in this block. Comes first in the block, so there is always room.
    pub(crate) fn live(&mut self, block: &mut Draft) {
        let salt = block.number / CYCLE % SALTS;
        // A salt of its own, used in one block only.
        let once = 1000 + block.number;
        match block.number % CYCLE {
            2 => self.create_again(block, salt),
            3 => self.write_slot(block, salt, 5),
            // From one block to the next, and with a write in between.
            4 => self.destroy(block, salt),
            5 => self.create_again(block, salt),
            // Within a block: what was written before the end must not be there afterwards.
            7 => {
                self.write_slot(block, salt, 6);
                self.destroy(block, salt);
                self.create_again(block, salt);
                self.write_slot(block, salt, 7);
            }
            // Within a block, with ether sent to where it was.
            9 => {
                self.destroy(block, salt);
                let (from, to) = (self.anyone(), self.mortal(salt));
                self.send(block, from, Call::pay(to, 12_345, GAS));
                self.create_again(block, salt);
            }
            // Never seen outside of the block.
            10 => {
                self.create_again(block, once);
                self.write_slot(block, once, 8);
                self.destroy(block, once);
            }
            // One address again and again, gone before its creation ends.
            11 => {
                let init = contracts::stillborn_init();
                self.create2(block, 0, &init, GAS);
            }
            0 => self.destroy(block, salt),
            _ => {}
        }
    }

    /// The address of the contract with this salt.
    fn mortal(&self, salt: u64) -> Address {
        self.contracts
            .factory
            .create2(U256::from(salt).to_be_bytes::<32>(), keccak256(contracts::mortal_init()))
    }

    /// Creates it; where it is alive, that fails and takes all gas.
    fn create_again(&mut self, block: &mut Draft, salt: u64) {
        self.create2(block, salt, &contracts::mortal_init(), GAS);
        self.alive.insert(salt, true);
    }

    fn create2(&mut self, block: &mut Draft, salt: u64, init: &[u8], gas: u64) {
        let input = [&U256::from(salt).to_be_bytes::<32>(), init].concat();
        let (from, value) = (self.anyone(), self.random.below(1000));
        let call = Call::to(self.contracts.factory, input.into(), gas).with_value(value);
        self.send(block, from, call);
    }

    fn write_slot(&mut self, block: &mut Draft, salt: u64, slot: u64) {
        let from = self.anyone();
        let input = words(&[U256::from(slot), U256::from(block.number)]);
        let call = Call::to(self.mortal(salt), input, GAS);
        self.send(block, from, call);
    }

    /// SELFDESTRUCT in favour of an account that exists, of one that does not yet, or of itself.
    fn destroy(&mut self, block: &mut Draft, salt: u64) {
        if self.alive.get(&salt) != Some(&true) {
            return;
        }
        let mortal = self.mortal(salt);
        let heir = match self.random.below(3) {
            0 => Address::from(self.random.bytes()),
            1 => mortal,
            _ => self.wallet.address(0),
        };
        let from = self.anyone();
        self.send(block, from, Call::to(mortal, words(&[word(heir)]), GAS));
        self.alive.insert(salt, self.fork >= EthereumHardfork::Cancun);
    }
}
