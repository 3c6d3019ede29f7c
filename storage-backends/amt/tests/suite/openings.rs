//! Tests of openings: they hold for the committed entries and for nothing else.

#![expect(clippy::unwrap_used, reason = "tests")]

use polytrie_amt::{
    Claim, Counting, Entry, G1Affine, Opening, PowersOfTau, Setup, VERSION_LIMIT, Versions, commit,
    open, verify,
};

fn setup(height: u8, proofs: bool) -> Setup {
    let powers = PowersOfTau::insecure_dev(height, "openings").unwrap();
    Setup::derive(&powers, proofs, &mut |_| {})
}

/// Returns a vector with entries at all indices, some of them full of large versions.
fn vector(height: u8, count: u32) -> Vec<Entry> {
    let n = 1u32 << height;
    (0..count.min(n))
        .map(|k| {
            let index = k.wrapping_mul(40_503) % n;
            let large = (VERSION_LIMIT - 1) >> (k % 40);
            let versions = match k % 3 {
                0 => [1, 0, 0, 0, 0, 0],
                1 => [u64::from(k), 1, 2, 0, 0, 0],
                _ => [large, 1, large, 3, 4, large],
            };
            Entry { index, versions }
        })
        .collect()
}

fn check(setup: &Setup, entries: &[Entry], indexes: &[u32]) {
    let commitment = commit(setup, entries);
    let opened: Vec<(u32, Versions, Opening)> = indexes
        .iter()
        .map(|index| {
            let entry = entries.iter().find(|entry| entry.index == *index);
            let versions = entry.map_or([0; 6], |entry| entry.versions);
            (*index, versions, open(setup, entries, *index).unwrap())
        })
        .collect();
    let claims: Vec<Claim<'_>> = opened
        .iter()
        .map(|(index, versions, opening)| Claim {
            commitment,
            index: *index,
            versions: *versions,
            opening,
        })
        .collect();
    assert!(verify(setup.key(), &claims), "all at once");
    for claim in &claims {
        assert!(verify(setup.key(), &[*claim]), "entry {}", claim.index);
        let mut wrong = *claim;
        wrong.versions[claim.index as usize % 6] ^= 1;
        assert!(!verify(setup.key(), &[wrong]), "another version of entry {}", claim.index);
    }
}

#[test]
fn every_entry_of_a_vector_of_height_4() {
    let setup = setup(4, true);
    for count in [0, 1, 7, 16] {
        check(&setup, &vector(4, count), &(0..16).collect::<Vec<_>>());
    }
}

#[test]
fn entries_of_a_vector_of_height_8() {
    let setup = setup(8, true);
    check(&setup, &vector(8, 100), &[0, 1, 17, 128, 200, 255]);
}

#[test]
fn entries_of_a_vector_of_height_16() {
    let setup = setup(16, true);
    let entries = vector(16, 300);
    check(&setup, &entries, &[0, entries[1].index, entries[2].index, 65_535]);
}

#[test]
fn a_commitment_follows_its_updates() {
    let setup = setup(6, false);
    let mut entries: Vec<Entry> = (0..64).map(|index| Entry { index, versions: [0; 6] }).collect();
    let mut commitment = commit(&setup, &[]);
    for round in 0..20u32 {
        let mut versions = Vec::new();
        for k in 0..round * 3 {
            let (index, slot) = ((k * k + round) % 64, (k % 6) as usize);
            entries[index as usize].versions[slot] += 1;
            versions.push((slot, index));
        }
        let mut counting = Counting::new(&setup, 1, versions.len());
        counting.vector(commitment, versions);
        commitment = counting.finish()[0];
        assert_eq!(commitment, commit(&setup, &entries), "round {round}");
    }
}

#[test]
fn what_does_not_hold_is_refused() {
    let setup = setup(5, true);
    let entries = vector(5, 20);
    let commitment = commit(&setup, &entries);
    let Entry { index, versions } = entries[5];
    let opening = open(&setup, &entries, index).unwrap();
    let good = Claim { commitment, index, versions, opening: &opening };
    assert!(verify(setup.key(), &[good]));
    assert!(verify(setup.key(), &[]), "nothing claimed, nothing wrong");

    let refused =
        |claim: Claim<'_>| !verify(setup.key(), &[claim]) && !verify(setup.key(), &[good, claim]);
    assert!(refused(Claim { index: entries[6].index, ..good }), "another index");
    assert!(refused(Claim { index: 32, ..good }), "an index beyond the vector");
    assert!(refused(Claim { commitment: commit(&setup, &entries[1..]), ..good }), "another vector");
    assert!(refused(Claim { commitment: polytrie_amt::identity(), ..good }), "no vector");

    let mut overflow = versions;
    overflow[0] += VERSION_LIMIT;
    overflow[1] = overflow[1].wrapping_sub(1);
    assert!(
        refused(Claim { versions: overflow, ..good }),
        "a version that reaches into the next slot"
    );

    let with = |change: &dyn Fn(&mut Opening)| {
        let mut opening = opening.clone();
        change(&mut opening);
        opening
    };
    let forged = [
        with(&|o| o.nodes.truncate(4)),
        with(&|o| o.nodes.push(polytrie_amt::identity())),
        with(&|o| o.nodes.swap(0, 1)),
        with(&|o| o.nodes[0] = -o.nodes[0]),
        with(&|o| o.basis = setup.point(0, index ^ 1)),
        with(&|o| o.basis = setup.point(1, index)),
        // The point is off the curve, once with a coordinate of the right size.
        with(&|o| o.nodes[2] = G1Affine::new_unchecked(o.nodes[2].x, o.nodes[2].x)),
        with(&|o| o.basis = G1Affine::new_unchecked(o.basis.y, o.basis.x)),
    ];
    for (n, opening) in forged.iter().enumerate() {
        assert!(refused(Claim { opening, ..good }), "forgery {n}");
    }
    let off = G1Affine::new_unchecked(commitment.y, commitment.x);
    assert!(refused(Claim { commitment: off, ..good }), "a commitment off the curve");

    // The errors of two claims would cancel each other without weights.
    let shift = setup.point(0, 0);
    let plus = with(&|o| o.nodes[0] = (o.nodes[0] + shift).into());
    let minus = with(&|o| o.nodes[0] = (o.nodes[0] - shift).into());
    let pair = [Claim { opening: &plus, ..good }, Claim { opening: &minus, ..good }];
    assert!(!verify(setup.key(), &pair));

    let other = PowersOfTau::insecure_dev(5, "another").unwrap();
    let other = Setup::derive(&other, false, &mut |_| {});
    assert!(!verify(other.key(), &[good]), "the key of another setup");
    assert!(open(&other, &entries, 0).is_none(), "a setup without tables for proofs");
}

#[test]
fn a_basis_and_versions_cannot_be_traded_for_each_other() {
    // a·B counts in the equation, so half the entry with twice the point must not pass.
    let setup = setup(4, true);
    let entries = [Entry { index: 3, versions: [2, 0, 0, 0, 0, 0] }];
    let commitment = commit(&setup, &entries);
    let mut opening = open(&setup, &entries, 3).unwrap();
    opening.basis = (opening.basis + opening.basis).into();
    let claim = Claim { commitment, index: 3, versions: [1, 0, 0, 0, 0, 0], opening: &opening };
    assert!(!verify(setup.key(), &[claim]));
}
