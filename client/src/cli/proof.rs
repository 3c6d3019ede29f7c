//! `polytrie proof`: proofs of accounts and slots, made and checked.

use super::{args::StoredArgs, exit::Failure, input, output};
use crate::{
    blocks::input_name,
    chain::layer_at,
    datadir::DataDir,
    layers::{self, LAYERS, LayerKind, LayerNeeds, UnknownKind, VerifyError},
};
use alloy_consensus::EMPTY_ROOT_HASH;
use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use clap::{Args, Subcommand};
use polytrie_state::{Commitment, CommitmentKind, Proof, ProofError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Prove accounts and slots, and check proofs.
#[derive(Debug, Subcommand)]
pub(super) enum ProofCommand {
    Get(GetArgs),
    Verify(VerifyArgs),
}

/// Prove an account and some of its slots, present or absent, against the commitment after a block.
///
/// Undo records lead back to blocks before the head; they are kept for the last 1024 blocks. Nothing that is stored changes.
#[derive(Debug, Args)]
pub(super) struct GetArgs {
    /// The account.
    #[arg(long, value_name = "ADDRESS")]
    address: Address,
    /// A slot, decimal or with 0x; may be repeated.
    #[arg(long = "slot", value_name = "SLOT")]
    slots: Vec<U256>,
    /// The block [default: the head].
    #[arg(long, value_name = "N")]
    block: Option<u64>,
    #[command(flatten)]
    data: StoredArgs,
}

/// Check a proof against a commitment that you trust; exits with 0 if it holds, with 1 if not.
///
/// The proof is what `polytrie proof get` prints, or what `polytrie_getProof` or the `eth_getProof` of any client answers
/// (the result alone, or the whole answer). Only the digest is compared: make sure that --root is that of your block. If an
/// account and its slots are proven by nodes of different shards (`--lvmt.proofs I/N`), give all of their answers.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The proof; `-` for standard input. Several if they are parts of one.
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// The digest to check against: the state root, if the layer has one.
    #[arg(long, value_name = "HASH")]
    root: B256,
    /// The requested account: a proof of any other is refused. Without it, see in the result what is proven.
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Address>,
    /// A requested slot: a proof without it is refused; may be repeated.
    #[arg(long = "slot", value_name = "SLOT")]
    slots: Vec<U256>,
    #[command(flatten)]
    needs: LayerNeeds,
}

impl ProofCommand {
    /// The data directory that the command reads, if it reads one.
    pub(super) fn datadir(&self) -> Option<&Path> {
        match self {
            Self::Get(args) => Some(&args.data.datadir),
            Self::Verify(_) => None,
        }
    }
}

/// The JSON that `proof get` prints.
#[derive(Debug, Serialize, Deserialize)]
struct ProofFile {
    /// The block whose state is proven, as `proof get` writes it. `polytrie_getProof` writes none. It is not
    /// verified: only the trusted digest counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block: Option<ProvenBlock>,
    commitment: CommitmentJson,
    #[serde(flatten)]
    proof: Proof,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProvenBlock {
    number: u64,
    hash: B256,
    state_root: B256,
}

#[derive(Debug, Serialize, Deserialize)]
struct CommitmentJson {
    /// `stateRoot`, `own` or `none`.
    kind: String,
    digest: B256,
    /// The full commitment, where the digest alone is not enough to verify a proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<Bytes>,
}

pub(super) fn run(command: ProofCommand) -> Result<(), Failure> {
    match command {
        ProofCommand::Get(args) => get(args),
        ProofCommand::Verify(args) => verify(&args),
    }
}

fn get(args: GetArgs) -> Result<(), Failure> {
    let mut options = args.data.options(true);
    options.layer = options.layer.proving();
    let dir = DataDir::open(&options, false)?;
    let db = dir.chain_db();
    db.check_settled()?;
    let head = db.head()?.ok_or_else(Failure::no_block)?;
    let (block, layer) = match args.block {
        Some(number) if number != head.number() => {
            let layer = layer_at(dir.layer.fork()?, number, None)?;
            (db.block_head(number)?, layer)
        }
        _ => (head, dir.layer),
    };
    let proof = layers::proofs(&*layer)?.prove(&args.address, &args.slots)?;
    let file = ProofFile {
        block: Some(ProvenBlock {
            number: block.number(),
            hash: block.hash(),
            state_root: block.header.state_root,
        }),
        commitment: CommitmentJson::from(&layer.commitment()),
        proof,
    };
    output::json(Path::new("-"), &file)
}

fn verify(args: &VerifyArgs) -> Result<(), Failure> {
    input::expect_stdin_once(args.files.iter().map(PathBuf::as_path))?;
    let names: Vec<_> = args.files.iter().map(|file| input_name(file)).collect();
    let name = names.join(" with ");
    let mut proofs = Vec::with_capacity(args.files.len());
    for (file, name) in args.files.iter().zip(&names) {
        proofs.push(read_proof(file, name, args.root)?);
    }
    let malformed = |reason: String| holds_no_proof(&name, &reason);
    let refused = |reason: String| {
        Failure::Invalid(format!(
            "{name} does not hold against {}: {reason}; get the proof and the root from the same block",
            args.root
        ))
    };
    let names_block = proofs.iter().all(|read| read.names_block);
    let (kind, commitment, proof) = joined(&proofs).map_err(|error| match error {
        ProofError::Malformed(reason) => malformed(reason),
        ProofError::Invalid(reason) => refused(reason),
    })?;
    let check = kind.verify.ok_or_else(|| {
        Failure::Invalid(format!(
            "{name}: the state layer `{}` makes no proofs that could be verified; get one from another layer",
            kind.name
        ))
    })?;
    let proven = check(&args.needs, &commitment, &proof).map_err(|error| match error {
        VerifyError::Unable(error) => error.into(),
        VerifyError::Proof(ProofError::Malformed(reason)) => malformed(reason),
        VerifyError::Proof(ProofError::Invalid(reason)) => refused(reason),
    })?;
    if let Some(missing) = unanswered(args, &proven) {
        return Err(Failure::Invalid(format!(
            "{name} holds against {}, but {missing}; ask for a proof of what you want to know",
            args.root
        )));
    }
    if !names_block {
        tracing::info!(
            "the proof names no block: it was compared with --root alone, see that this is the root of the block you mean"
        );
    }
    output::json(Path::new("-"), &proven)
}

fn holds_no_proof(name: &str, reason: &str) -> Failure {
    Failure::Invalid(format!(
        "{name} holds no proof ({reason}), expected what `polytrie proof get` prints or eth_getProof answers"
    ))
}

/// A proof that was read from a file.
struct ReadProof {
    kind: &'static LayerKind,
    commitment: Commitment,
    proof: Proof,
    names_block: bool,
}

fn read_proof(file: &Path, name: &str, root: B256) -> Result<ReadProof, Failure> {
    let text = input::read(file)?;
    let value =
        serde_json::from_slice(&text).map_err(|error| holds_no_proof(name, &error.to_string()))?;
    let value = unwrapped(value);
    let names_block = value.get("block").is_some();
    let (kind, commitment, proof) = parse(value, root).map_err(|error| match error {
        // The name stands in the file, not on the command line.
        ParseError::Layer(error @ UnknownKind::Layer { .. }) => {
            Failure::Invalid(format!("{name}: {error}"))
        }
        ParseError::Layer(error) => error.into(),
        ParseError::Form(reason) => holds_no_proof(name, &reason),
    })?;
    Ok(ReadProof { kind, commitment, proof, names_block })
}

/// Joins the proofs of several files, which may be parts of one, under the commitment that they share.
///
/// Fails if they are of different layers or commitments.
fn joined(proofs: &[ReadProof]) -> Result<(&'static LayerKind, Commitment, Proof), ProofError> {
    let [ReadProof { kind, commitment, proof, .. }, others @ ..] = proofs else {
        return Err(ProofError::Malformed("no file is named".to_owned()));
    };
    for other in others {
        let (kind, found) = (kind.name, other.kind.name);
        if found != kind {
            return Err(ProofError::Invalid(format!("one is of `{kind}`, another of `{found}`")));
        }
        if other.commitment != *commitment {
            return Err(ProofError::Invalid("they are of different commitments".to_owned()));
        }
    }
    let proof = match others {
        [] => proof.clone(),
        _ => {
            let all: Vec<Proof> = proofs.iter().map(|read| read.proof.clone()).collect();
            kind.join(&all)?
        }
    };
    Ok((*kind, commitment.clone(), proof))
}

/// A sentence that names the account or slot which was asked for and is not proven; `None` if all are proven.
fn unanswered(args: &VerifyArgs, proven: &Value) -> Option<String> {
    #[derive(Deserialize)]
    struct Proven {
        address: Address,
        slots: Vec<(U256, Value)>,
    }
    let Ok(Proven { address, slots }) = Proven::deserialize(proven) else {
        return Some("it does not say which account and slots it proves".to_owned());
    };
    if let Some(asked) = args.address.filter(|asked| *asked != address) {
        return Some(format!("it proves the account {address}, and {asked} was asked for"));
    }
    let asked = args.slots.iter().find(|asked| slots.iter().all(|(slot, _)| slot != *asked))?;
    Some(format!("it says nothing of the slot {asked:#x}, which was asked for"))
}

enum ParseError {
    Layer(UnknownKind),
    Form(String),
}

/// The proof in a file, its layer, and the commitment that it is verified against.
fn parse(value: Value, root: B256) -> Result<(&'static LayerKind, Commitment, Proof), ParseError> {
    let form = |e: serde_json::Error| ParseError::Form(e.to_string());
    if value.get("layer").is_some() {
        let ProofFile { commitment, proof, .. } = serde_json::from_value(value).map_err(form)?;
        let kind = layers::layer(&proof.layer).map_err(ParseError::Layer)?;
        let commitment = if kind.canonical {
            Commitment::state_root(root)
        } else {
            // The layer's verifier compares the full form with the trusted digest.
            Commitment::own(root, commitment.body.unwrap_or_default())
        };
        return Ok((kind, commitment, proof));
    }
    let Some(proof) = eth_get_proof(value) else {
        return Err(ParseError::Form("neither `layer` nor `accountProof` is in it".to_owned()));
    };
    let kind = LAYERS.iter().find(|kind| kind.canonical).ok_or_else(|| {
        ParseError::Layer(UnknownKind::NotCompiledIn {
            what: "the state layer",
            name: "mpt".to_owned(),
        })
    })?;
    let proof = Proof { layer: kind.name.to_owned(), proof };
    Ok((kind, Commitment::state_root(root), proof))
}

/// The `result` of a JSON-RPC response, or the value itself if it is no response.
fn unwrapped(value: Value) -> Value {
    match value {
        Value::Object(mut object)
            if object.contains_key("result") && !object.contains_key("layer") =>
        {
            object.remove("result").unwrap_or_default()
        }
        value => value,
    }
}

/// The object of `eth_getProof` (EIP-1186) without the fields that some clients add.
fn eth_get_proof(value: Value) -> Option<Value> {
    const FIELDS: [&str; 7] =
        ["address", "accountProof", "balance", "codeHash", "nonce", "storageHash", "storageProof"];
    let Value::Object(mut object) = value else { return None };
    if !object.contains_key("accountProof") {
        return None;
    }
    object.retain(|name, _| FIELDS.contains(&name.as_str()));
    // Some clients write null if no slot was asked for.
    if object.get("storageProof").is_none_or(Value::is_null) {
        object.insert("storageProof".to_owned(), Value::Array(Vec::new()));
    }
    // An account that does not exist has no hashes; geth writes zeros for them, other clients the hashes of nothing.
    let zero = Value::String(B256::ZERO.to_string());
    if object.get("codeHash") == Some(&zero) && object.get("storageHash") == Some(&zero) {
        object.insert("codeHash".to_owned(), KECCAK256_EMPTY.to_string().into());
        object.insert("storageHash".to_owned(), EMPTY_ROOT_HASH.to_string().into());
    }
    Some(Value::Object(object))
}

impl From<&Commitment> for CommitmentJson {
    fn from(commitment: &Commitment) -> Self {
        let (kind, body) = match commitment.kind() {
            CommitmentKind::StateRoot => ("stateRoot", None),
            CommitmentKind::None => ("none", None),
            CommitmentKind::Own => ("own", Some(commitment.body().clone())),
        };
        Self { kind: kind.to_owned(), digest: commitment.digest(), body }
    }
}
