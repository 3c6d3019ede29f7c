//! The contracts of the sample chain.

use alloy_hardforks::EthereumHardfork;
use alloy_primitives::{Address, Bytes, U256, b256};
use polytrie_bench::assembler::Assembler;
use revm::bytecode::opcode::{
    ADD, ADDRESS, BALANCE, BASEFEE, BLOBBASEFEE, BLOBHASH, BLOCKHASH, CALL, CALLDATACOPY,
    CALLDATALOAD, CALLDATASIZE, CALLER, CALLVALUE, CHAINID, CLZ, COINBASE, CREATE2, DIFFICULTY,
    DUP1, DUP2, DUP3, EQ, EXTCODEHASH, GAS, GASLIMIT, GASPRICE, ISZERO, KECCAK256, LOG1, LOG3, LT,
    MCOPY, MLOAD, MSTORE, NUMBER, ORIGIN, PUSH0, RETURNDATACOPY, RETURNDATASIZE, REVERT,
    SELFBALANCE, SELFDESTRUCT, SLOAD, SSTORE, STOP, SUB, SWAP1, TIMESTAMP, TLOAD, TSTORE,
};

/// Code that stores pairs of slot and value from its calldata.
pub(crate) fn table() -> Bytes {
    Assembler::new()
        .push(0)
        .label("next")
        .ops(&[CALLDATASIZE, DUP2, LT, ISZERO])
        .jump_if("done")
        .ops(&[DUP1])
        .push(32)
        .ops(&[ADD, CALLDATALOAD, DUP2, CALLDATALOAD, SSTORE])
        .push(64)
        .ops(&[ADD])
        .jump("next")
        .label("done")
        .ops(&[STOP])
        .finish()
}

/// Code of a token. Calldata is recipient and amount. The balance of an account is in the slot keccak256(account); a
/// transfer of more than that reverts.
pub(crate) fn token() -> Bytes {
    let transferred = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");
    Assembler::new()
        .ops(&[CALLER])
        .push(0)
        .ops(&[MSTORE])
        .push(32)
        .push(0)
        .ops(&[KECCAK256, DUP1, SLOAD])
        .push(32)
        .ops(&[CALLDATALOAD, DUP1, DUP3, LT])
        .jump_if("refuse")
        .ops(&[SWAP1, SUB, SWAP1, SSTORE])
        .push(0)
        .ops(&[CALLDATALOAD])
        .push(0)
        .ops(&[MSTORE])
        .push(32)
        .push(0)
        .ops(&[KECCAK256, DUP1, SLOAD])
        .push(32)
        .ops(&[CALLDATALOAD, ADD, SWAP1, SSTORE])
        .push(32)
        .ops(&[CALLDATALOAD])
        .push(0)
        .ops(&[MSTORE])
        .push(0)
        .ops(&[CALLDATALOAD, CALLER])
        .push_bytes(transferred.as_slice())
        .push(32)
        .push(0)
        .ops(&[LOG3, STOP])
        .label("refuse")
        .push(0)
        .push(0)
        .ops(&[REVERT])
        .finish()
}

/// Init code of the token, which gives the whole supply to its deployer.
pub(crate) fn token_init(supply: u64) -> Bytes {
    Assembler::new()
        .ops(&[CALLER])
        .push(0)
        .ops(&[MSTORE])
        .push(supply)
        .push(32)
        .push(0)
        .ops(&[KECCAK256, SSTORE])
        .deploy(&token())
}

/// Code that creates a contract (EIP-1014) with the value of the call. Calldata is a salt and init code. Slot 0 keeps
/// the new address, or zero if the creation failed.
pub(crate) fn factory() -> Bytes {
    Assembler::new()
        .push(32)
        .ops(&[CALLDATASIZE, SUB, DUP1])
        .push(32)
        .push(0)
        .ops(&[CALLDATACOPY])
        .push(0)
        .ops(&[CALLDATALOAD, SWAP1])
        .push(0)
        .ops(&[CALLVALUE, CREATE2])
        .push(0)
        .ops(&[SSTORE, STOP])
        .finish()
}

/// Code of a contract that can be destroyed. Without calldata it takes ether. With one word it destroys itself in
/// favour of that address. With two words it stores the second in the slot of the first.
fn mortal() -> Bytes {
    Assembler::new()
        .ops(&[CALLDATASIZE, ISZERO])
        .jump_if("take")
        .push(32)
        .ops(&[CALLDATASIZE, EQ])
        .jump_if("destroy")
        .push(32)
        .ops(&[CALLDATALOAD])
        .push(0)
        .ops(&[CALLDATALOAD, SSTORE])
        .label("take")
        .ops(&[STOP])
        .label("destroy")
        .push(0)
        .ops(&[CALLDATALOAD, SELFDESTRUCT])
        .finish()
}

/// Init code of that contract. It stores the block's number, so that storage differs from one creation to the next.
pub(crate) fn mortal_init() -> Bytes {
    Assembler::new()
        .ops(&[NUMBER])
        .push(1)
        .ops(&[SSTORE, CALLVALUE])
        .push(2)
        .ops(&[SSTORE])
        .deploy(&mortal())
}

/// Init code that destroys the contract during its creation.
pub(crate) fn stillborn_init() -> Bytes {
    Assembler::new().push(7).push(7).ops(&[SSTORE, CALLER, SELFDESTRUCT]).finish()
}

/// Init code that reverts.
pub(crate) fn reverting_init() -> Bytes {
    Assembler::new().push(1).push(1).ops(&[SSTORE]).push(0).push(0).ops(&[REVERT]).finish()
}

/// Init code that fails, since the code would begin with 0xef (EIP-3541).
pub(crate) fn reserved_init() -> Bytes {
    polytrie_bench::assembler::deploy(&Bytes::from_static(&[0xef]))
}

/// Code that passes a call on, with its value, and logs the result. Calldata is an address and the input of the call.
pub(crate) fn relay() -> Bytes {
    Assembler::new()
        .push(32)
        .ops(&[CALLDATASIZE, SUB, DUP1])
        .push(32)
        .push(0)
        .ops(&[CALLDATACOPY])
        .push(0)
        .push(0)
        .ops(&[DUP3])
        .push(0)
        .ops(&[CALLVALUE])
        .push(0)
        .ops(&[CALLDATALOAD, GAS, CALL, RETURNDATASIZE])
        .push(0)
        .push(0)
        .ops(&[RETURNDATACOPY, RETURNDATASIZE])
        .push(0)
        .ops(&[LOG1, STOP])
        .finish()
}

/// Code that uses up all its gas.
pub(crate) fn burner() -> Bytes {
    Assembler::new().label("again").jump("again").finish()
}

/// Code that stores the values of context opcodes under the rules of `fork`, one slot for each.
pub(crate) fn observer(fork: EthereumHardfork) -> Bytes {
    let plain = [
        ADDRESS,
        ORIGIN,
        CALLER,
        GASPRICE,
        COINBASE,
        TIMESTAMP,
        NUMBER,
        DIFFICULTY,
        GASLIMIT,
        CHAINID,
        SELFBALANCE,
        BASEFEE,
    ];
    let mut code = Assembler::new();
    let mut slot = 0;
    let mut store = |code: Assembler| {
        slot += 1;
        code.push(slot).ops(&[SSTORE])
    };
    for op in plain {
        code = store(code.ops(&[op]));
    }
    code = store(code.push(1).ops(&[NUMBER, SUB, BLOCKHASH]));
    code = store(code.ops(&[CALLER, EXTCODEHASH]));
    code = store(code.ops(&[COINBASE, BALANCE]));
    if fork >= EthereumHardfork::Shanghai {
        code = store(code.ops(&[PUSH0, ISZERO]));
    }
    if fork >= EthereumHardfork::Cancun {
        code = store(code.ops(&[BLOBBASEFEE]));
        code = store(code.ops(&[PUSH0, BLOBHASH]));
        code = store(code.ops(&[NUMBER, PUSH0, TSTORE, PUSH0, TLOAD]));
        let copied = code.ops(&[TIMESTAMP, PUSH0, MSTORE]).push(32).ops(&[PUSH0]).push(64);
        code = store(copied.ops(&[MCOPY]).push(64).ops(&[MLOAD]));
    }
    if fork >= EthereumHardfork::Osaka {
        code = store(code.ops(&[TIMESTAMP, CLZ]));
    }
    code.ops(&[STOP]).finish()
}

/// Code that logs its calldata as a deposit (EIP-6110).
pub(crate) fn deposit() -> Bytes {
    let deposited = b256!("649bbc62d0e31342afea4e5cd82d4049e7e1ee912fc0889aa790803be39038c5");
    Assembler::new()
        .ops(&[CALLDATASIZE])
        .push(0)
        .push(0)
        .ops(&[CALLDATACOPY])
        .push_bytes(deposited.as_slice())
        .ops(&[CALLDATASIZE])
        .push(0)
        .ops(&[LOG1, STOP])
        .finish()
}

/// Calldata of these words, one after the other.
pub(crate) fn words(words: &[U256]) -> Bytes {
    words.iter().flat_map(U256::to_be_bytes::<32>).collect::<Vec<u8>>().into()
}

/// An address as a word.
pub(crate) fn word(address: Address) -> U256 {
    address.into_word().into()
}

mod tests {
    use super::*;

    #[test]
    fn jumps_stay_within_reach() {
        for code in [table(), token(), factory(), mortal(), relay(), burner(), deposit()] {
            assert!(code.len() < 256);
        }
    }
}
