//! The proofs that a file may hold of its blocks before the merge.

use alloy_consensus::{Block, TxEnvelope};
use alloy_primitives::{B256, U256};
use sha2::{Digest, Sha256};

use super::{
    ACCUMULATOR, PROOF, TOTAL_DIFFICULTY, assemble, blocks_of, chain, file_of, framed, parts,
    problem, read,
};
use crate::e2store::{E2StoreProblem, header_record_root};

/// Returns the proof of each block before the merge. They are computed the slow way, with all levels of the tree
/// written out.
fn proofs(chain: &(Vec<Block<TxEnvelope>>, Vec<U256>), merge: usize) -> Vec<Vec<u8>> {
    let pair = |left: &B256, right: &B256| {
        let hash: [u8; 32] = Sha256::new().chain_update(left).chain_update(right).finalize().into();
        B256::new(hash)
    };
    let hashes: Vec<B256> = chain.0.iter().map(|block| block.header.hash_slow()).collect();
    let records = hashes.iter().zip(&chain.1).take(merge);
    let records: Vec<B256> = records.map(|(hash, sum)| header_record_root(*hash, *sum)).collect();
    (0..chain.0.len())
        .map(|index| {
            let mut level = records.clone();
            level.resize(8192, B256::ZERO);
            let mut proof = chain.1[index].to_le_bytes::<32>().to_vec();
            let mut at = index;
            while level.len() > 1 {
                proof.extend(level[at ^ 1]);
                at /= 2;
                level = level.chunks(2).map(|both| pair(&both[0], &both[1])).collect();
            }
            proof.extend(U256::from(merge).to_le_bytes::<32>());
            proof
        })
        .collect()
}

fn proof_record(kind: u64, proof: &[u8]) -> Vec<u8> {
    let mut fields = alloy_rlp::encode(kind);
    fields.extend(alloy_rlp::encode(proof));
    let mut record = Vec::new();
    alloy_rlp::Header { list: true, payload_length: fields.len() }.encode(&mut record);
    record.extend(fields);
    record
}

#[test]
fn proofs_against_the_accumulator_are_checked() {
    let chain = chain(5, 3);
    let file = file_of(&chain, &[]);
    let proofs = proofs(&chain, 3);
    let with = |records: &[Vec<u8>], left_out: &[u16]| {
        let mut all = parts(&file);
        let at = all.iter().position(|(kind, _)| *kind == TOTAL_DIFFICULTY).unwrap();
        for (n, record) in records.iter().enumerate() {
            all.insert(at + n, (PROOF, framed(record)));
        }
        all.retain(|(kind, _)| !left_out.contains(kind));
        assemble(&all)
    };
    // The blocks after the merge have proofs of another kind.
    let good: Vec<_> = proofs
        .iter()
        .enumerate()
        .map(|(index, proof)| proof_record(if index < 3 { 0 } else { 2 }, proof))
        .collect();
    let everything = blocks_of(file.clone());
    for left_out in [&[][..], &[ACCUMULATOR], &[TOTAL_DIFFICULTY], &[ACCUMULATOR, TOTAL_DIFFICULTY]]
    {
        assert_eq!(blocks_of(with(&good, left_out)), everything, "{left_out:?}");
        let mut wrong = good.clone();
        wrong.swap(1, 2);
        let problem = problem(with(&wrong, left_out));
        assert!(matches!(problem, E2StoreProblem::NotProven { .. }), "{problem}");
    }
    let mut wrong = good.clone();
    wrong[3] = proof_record(0, &proofs[3]);
    let error = read(with(&wrong, &[])).unwrap_err().to_string();
    let words = "(block 3) does not prove that the block belongs to the accumulator 0x";
    assert!(error.contains(words), "{error}");
    for (record, words) in [
        (proof_record(0, &proofs[0][32..]), "it is 448 bytes long, 480 were expected"),
        (vec![0x80], "does not hold a proof: "),
        ([&good[0][..], b"\0"].concat(), "something follows it"),
    ] {
        let mut wrong = good.clone();
        wrong[0] = record;
        let error = read(with(&wrong, &[])).unwrap_err().to_string();
        assert!(error.contains("the Proof record at offset") && error.contains(words), "{error}");
    }
}
