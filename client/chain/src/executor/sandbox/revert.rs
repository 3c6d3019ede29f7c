//! The reasons that contracts give when they revert.

/// Selector of `Error(string)`.
const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
/// Selector of `Panic(uint256)`.
const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];

/// Decodes the data of a revert; `None` if they are neither `Error(string)` nor `Panic(uint256)`.
pub fn revert_reason(data: &[u8]) -> Option<RevertReason> {
    let (selector, body) = data.split_first_chunk::<4>()?;
    let word = |at: usize| -> Option<usize> {
        let word = body.get(at..at.checked_add(32)?)?;
        let (high, low) = word.split_at(24);
        let low = u64::from_be_bytes(low.try_into().ok()?);
        if high.iter().all(|byte| *byte == 0) { usize::try_from(low).ok() } else { None }
    };
    let text = || {
        let at = word(0)?;
        let length = word(at)?;
        let from = at.checked_add(32)?;
        std::str::from_utf8(body.get(from..from.checked_add(length)?)?).ok()
    };
    match *selector {
        ERROR => text().map(|text| RevertReason::Error(text.to_owned())),
        PANIC => word(0).map(RevertReason::Panic),
        _ => None,
    }
}

/// Reason why a contract reverted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevertReason {
    /// A text of the contract.
    Error(String),
    /// A panic code of Solidity.
    Panic(usize),
}

impl RevertReason {
    /// Returns the reason in words; for a panic code, geth's words.
    pub fn text(&self) -> String {
        match self {
            Self::Error(text) => text.clone(),
            Self::Panic(code) => panic_meaning(*code)
                .map_or_else(|| format!("unknown panic code: {code:#x}"), str::to_owned),
        }
    }
}

/// Returns the meaning of a panic code of Solidity.
pub fn panic_meaning(panic: usize) -> Option<&'static str> {
    Some(match panic {
        0x00 => "generic panic",
        0x01 => "assert(false)",
        0x11 => "arithmetic underflow or overflow",
        0x12 => "division or modulo by zero",
        0x21 => "enum overflow",
        0x22 => "invalid encoded storage byte array accessed",
        0x31 => "out-of-bounds array access; popping on an empty array",
        0x32 => "out-of-bounds access of an array or bytesN",
        0x41 => "out of memory",
        0x51 => "uninitialized function",
        _ => return None,
    })
}
