//! Search for the numbers in `src/keys.rs`: addresses and slots whose hashes share a prefix.
//!
//! `cargo run --release -p polytrie-testing --example mine` prints them; it takes a minute and 1 GiB.

use alloy_primitives::{Address, U256};
use polytrie_state::{hash_address, hash_slot};
use std::io::{self, Write};

/// Number of keys tried: pairs share up to log2(TRIES) * 2 bits, 13 nibbles.
const TRIES: u32 = 1 << 26;

/// The first 16 nibbles of a hash, and the number it belongs to.
type Key = (u64, u32);

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    mine(&mut out, "address", |n| hash_address(&Address::left_padding_from(&n.to_be_bytes())).0)?;
    mine(&mut out, "slot", |n| hash_slot(&U256::from(n)).0)
}

fn mine(out: &mut impl Write, what: &str, hash: impl Fn(u32) -> [u8; 32]) -> io::Result<()> {
    let mut keys: Vec<Key> = (0..TRIES).map(|n| (first_nibbles(&hash(n)), n)).collect();
    keys.sort_unstable();
    writeln!(out, "{what}")?;
    print(out, "lowest", &keys[..2])?;
    print(out, "highest", &keys[keys.len() - 2..])?;

    for size in [2, 3, 4] {
        let mut groups: Vec<&[Key]> = keys.windows(size).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(shared(group[0].0, group[size - 1].0)));
        for group in &groups[..3] {
            let nibbles = shared(group[0].0, group[size - 1].0);
            print(out, &format!("{size} sharing {nibbles} nibbles"), group)?;
        }
        if size == 2 {
            let base = groups[0][0];
            let ladder: Vec<Key> = (0..16)
                .map_while(|n| {
                    keys.iter().copied().filter(|k| shared(k.0, base.0) == n).min_by_key(|k| k.1)
                })
                .collect();
            print(out, "ladder towards the first pair", &ladder)?;
        }
    }
    for depth in 1..=5 {
        // The prefix differs from depth to depth, so that the groups are far from each other.
        let prefix = (0xa5e7_1b3d_u64 << 32).rotate_left(depth * 4) >> (64 - depth * 4);
        let branch: Vec<Key> = (0..16)
            .filter_map(|nibble| {
                let wanted = prefix << 4 | nibble;
                keys.iter()
                    .copied()
                    .filter(|k| k.0 >> (60 - depth * 4) == wanted)
                    .min_by_key(|k| k.1)
            })
            .collect();
        print(out, &format!("branch under the {depth} nibbles {prefix:x}"), &branch)?;
    }
    Ok(())
}

fn first_nibbles(hash: &[u8; 32]) -> u64 {
    hash.iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Returns the number of nibbles that two hashes have in common at the start.
fn shared(a: u64, b: u64) -> u32 {
    (a ^ b).leading_zeros() / 4
}

fn print(out: &mut impl Write, name: &str, keys: &[Key]) -> io::Result<()> {
    let numbers: Vec<u32> = keys.iter().map(|key| key.1).collect();
    writeln!(out, "  {name}: {numbers:?}")
}
