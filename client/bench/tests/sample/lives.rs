//! A contract that destroys itself and is created again at the same address (EIP-1014), until Cancun makes
//! it stay (EIP-6780).

use crate::{
    block::{Call, Draft},
    contracts::{self, word, words},
    workload::Sample,
};
use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, U256, keccak256};

/// Blocks in one cycle, after which the next salt is used.
const CYCLE: u64 = 12;
/// Number of salts in use.
const SALTS: u64 = 6;
/// Gas of every call in this file; creation costs the most.
const GAS: u64 = 200_000;

impl Sample {
    /// Adds the calls of the contract in this block. They come first in the block, so that there is always room.
    pub(crate) fn live(&mut self, block: &mut Draft) {
        let salt = block.number / CYCLE % SALTS;
        // A salt that only this block uses.
        let once = 1000 + block.number;
        match block.number % CYCLE {
            2 => self.create_again(block, salt),
            3 => self.write_slot(block, salt, 5),
            // Destroyed in one block and created in the next, after a write.
            4 => self.destroy(block, salt),
            5 => self.create_again(block, salt),
            // Destroyed and created again within a block: slots written before must be gone afterwards.
            7 => {
                self.write_slot(block, salt, 6);
                self.destroy(block, salt);
                self.create_again(block, salt);
                self.write_slot(block, salt, 7);
            }
            // Destroyed and created again within a block, and the address is paid in between.
            9 => {
                self.destroy(block, salt);
                let (from, to) = (self.anyone(), self.mortal(salt));
                self.send(block, from, Call::pay(to, 12_345, GAS));
                self.create_again(block, salt);
            }
            // Created and destroyed within the block, so that it never appears outside of it.
            10 => {
                self.create_again(block, once);
                self.write_slot(block, once, 8);
                self.destroy(block, once);
            }
            // Always the same address; the contract destroys itself before its creation ends.
            11 => {
                let init = contracts::stillborn_init();
                self.create2(block, 0, &init, GAS);
            }
            0 => self.destroy(block, salt),
            _ => {}
        }
    }

    /// Address of the contract with this salt.
    fn mortal(&self, salt: u64) -> Address {
        self.contracts
            .factory
            .create2(U256::from(salt).to_be_bytes::<32>(), keccak256(contracts::mortal_init()))
    }

    /// Creates the contract. If it exists, the creation fails and takes all gas.
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

    /// Calls SELFDESTRUCT. The beneficiary is an account that exists, one that does not yet, or the contract itself.
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
