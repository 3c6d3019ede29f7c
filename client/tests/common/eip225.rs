//! The test cases of EIP-225.

/// One of them. Signers are capital letters.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) epoch: u64,
    pub(crate) signers: String,
    pub(crate) blocks: Vec<Sealed>,
    pub(crate) end: End,
}

/// A block of a case.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) by: char,
    /// Whether it votes for or against a signer.
    pub(crate) vote: Option<(bool, char)>,
    /// The signers that it lists.
    pub(crate) list: Option<String>,
}

/// How a case ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Signers(String),
    /// The last block is invalid.
    Unauthorized,
    RecentlySigned,
}

/// All of them, in their order.
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
