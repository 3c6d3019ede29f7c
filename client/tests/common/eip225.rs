//! The test cases of EIP-225.

/// A test case. Signers are capital letters.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) epoch: u64,
    pub(crate) signers: String,
    pub(crate) blocks: Vec<Sealed>,
    pub(crate) end: End,
}

/// A block of a test case.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) by: char,
    /// The vote for or against a signer, if the block has one.
    pub(crate) vote: Option<(bool, char)>,
    /// The list of signers in the block, if it has one.
    pub(crate) list: Option<String>,
}

/// The expected end of a test case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Signers(String),
    /// The last block is invalid, because its signer is not authorized.
    Unauthorized,
    RecentlySigned,
}

/// Returns all test cases in the order of the EIP.
pub(crate) fn cases() -> Vec<Case> {
    let text = include_str!("../data/eip225.txt");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(';').map(str::trim).collect();
            let [epoch, signers, blocks, end] = fields[..] else { panic!("{line}") };
            Case {
                epoch: epoch.parse().unwrap_or(0),
                signers: signers.to_owned(),
                blocks: blocks.split_whitespace().map(sealed).collect(),
                end: match end {
                    "unauthorized" => End::Unauthorized,
                    "recently" => End::RecentlySigned,
                    signers => End::Signers(signers.trim_matches('-').to_owned()),
                },
            }
        })
        .collect()
}

fn sealed(text: &str) -> Sealed {
    let mut letters = text.chars();
    let by = letters.next().expect("a signer");
    let (sign, rest) = (letters.next(), letters.as_str());
    let vote = rest.chars().next().filter(|_| sign != Some('='));
    Sealed {
        by,
        vote: vote.map(|about| (sign == Some('+'), about)),
        list: (sign == Some('=')).then(|| rest.to_owned()),
    }
}
