//! Addresses and slots with hashes that share a prefix.
//!
//! Layers handle hashes, and the hashes of arbitrary keys are evenly distributed: among a few hundred of them no two
//! share more than four or five nibbles, and the deep levels of a trie are never reached. The keys here were searched
//! for (see `examples/mine.rs`), so that tests have chains of branches, long extensions, full branches at every
//! depth, and storage leaves that are short enough to be embedded in their parent (which takes eight shared nibbles
//! and a small value).

use alloy_primitives::{Address, U256};

/// Returns the address for a number.
pub fn address(number: u32) -> Address {
    Address::left_padding_from(&number.to_be_bytes())
}

/// Returns the slot for a number.
pub fn slot(number: u32) -> U256 {
    U256::from(number)
}

/// Numbers of keys, grouped by the prefix that their hashes share.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    /// The lowest two and the highest two hashes.
    pub edges: [u32; 4],
    /// Pairs that share 12 nibbles or more.
    pub pairs: [[u32; 2]; 3],
    /// Keys of which the n-th shares exactly n nibbles with the first key of the first pair.
    pub ladder: [u32; 7],
    /// Groups of three that share nine nibbles.
    pub triples: [[u32; 3]; 3],
    /// Groups of four that share eight nibbles.
    pub quads: [[u32; 4]; 3],
    /// Groups of which the n-th shares n + 1 nibbles and differs in the next one: full branches at depth 1 to 4, and
    /// at depth 5 as many of its children as were found.
    pub branches: [&'static [u32]; 5],
}

impl Keys {
    /// Returns all groups. The keys of a group share a prefix.
    pub fn groups(&self) -> Vec<Vec<u32>> {
        let ladder = [&self.pairs[0], &self.ladder[..]].concat();
        let mut groups = vec![self.edges[..2].to_vec(), self.edges[2..].to_vec(), ladder];
        groups.extend(self.pairs.iter().map(|group| group.to_vec()));
        groups.extend(self.triples.iter().map(|group| group.to_vec()));
        groups.extend(self.quads.iter().map(|group| group.to_vec()));
        groups.extend(self.branches.iter().map(|group| group.to_vec()));
        groups
    }

    /// Returns all keys, each once.
    pub fn all(&self) -> Vec<u32> {
        let mut all = self.groups().concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Numbers of addresses.
pub const ADDRESSES: Keys = Keys {
    edges: [65285721, 44308100, 11453791, 63674803],
    pairs: [[18223923, 27191877], [39715505, 41646773], [27007159, 3611439]],
    ladder: [0, 1, 573, 346, 340244, 1409023, 40400548],
    triples: [
        [52329771, 15250943, 10493622],
        [31907163, 2503391, 9623707],
        [24637071, 1858896, 37204816],
    ],
    quads: [
        [9830732, 53701529, 47762000, 33330116],
        [55774875, 30997479, 64976138, 46114964],
        [26494139, 24883442, 16191986, 57048076],
    ],
    branches: [
        &[47, 11, 137, 0, 165, 586, 31, 453, 84, 531, 44, 3, 41, 243, 337, 157],
        &[1466, 461, 410, 864, 90, 3592, 3277, 618, 4440, 1881, 4307, 274, 182, 3015, 964, 832],
        &[
            16632, 68040, 5938, 56753, 13856, 69143, 49793, 77616, 68878, 30810, 88312, 91910,
            48974, 103266, 30091, 10191,
        ],
        &[
            736976, 156817, 736921, 1449503, 1828286, 200892, 746979, 1164, 383688, 1264880,
            1209571, 851349, 84935, 283267, 1900794, 503519,
        ],
        &[
            15389305, 27389416, 24870906, 10471626, 11564964, 28107385, 14416786, 5305432, 440754,
            15800532, 14169969, 42439141, 2037485, 20039652,
        ],
    ],
};

/// Numbers of slots.
pub const SLOTS: Keys = Keys {
    edges: [57610890, 4184881, 13565205, 61802662],
    pairs: [[39975780, 49846478], [27314463, 28501824], [66796911, 40776455]],
    ladder: [0, 27, 17, 11700, 59731, 644488, 4732806],
    triples: [
        [21247004, 59244313, 47792225],
        [56291558, 27160730, 26291846],
        [3604977, 7756119, 51648951],
    ],
    quads: [
        [3604977, 7756119, 51648951, 40525687],
        [60275776, 18491360, 19019191, 36366770],
        [14560607, 26339919, 14719185, 6053433],
    ],
    branches: [
        &[30, 213, 739, 216, 254, 21, 229, 470, 623, 128, 452, 137, 395, 462, 192, 140],
        &[
            2939, 200, 3143, 3216, 14582, 3441, 214, 4256, 769, 5054, 3021, 1573, 3151, 236, 1198,
            7735,
        ],
        &[
            24069, 155136, 25839, 83472, 50469, 120310, 22353, 18102, 118595, 8533, 31943, 36662,
            43022, 14689, 85, 72551,
        ],
        &[
            565325, 2048574, 309316, 3136841, 699767, 341265, 331870, 1015264, 355649, 1137130,
            836051, 307153, 24588, 418472, 809312, 551133,
        ],
        &[
            10048633, 43104862, 4639354, 7862372, 1254644, 15996220, 16641525, 28144922, 21239270,
            28666112, 42657278, 5108814, 29702899, 39979663, 11457250, 26881622,
        ],
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::B256;
    use polytrie_state::{hash_address, hash_slot};

    fn shared(a: B256, b: B256) -> usize {
        let nibbles = |hash: B256| hash.into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        nibbles(a).zip(nibbles(b)).take_while(|(a, b)| a == b).count()
    }

    fn holds_what_it_says(keys: &Keys, hash: impl Fn(u32) -> B256) {
        let least = |group: &[u32]| {
            group.iter().map(|key| shared(hash(group[0]), hash(*key))).min().unwrap_or_default()
        };
        assert!(keys.pairs.iter().all(|group| least(group) >= 12));
        assert!(keys.triples.iter().all(|group| least(group) == 9));
        assert!(keys.quads.iter().all(|group| least(group) == 8));
        for (n, key) in keys.ladder.iter().enumerate() {
            assert_eq!(shared(hash(*key), hash(keys.pairs[0][0])), n);
        }
        for (n, group) in keys.branches.iter().enumerate() {
            assert!(group.iter().skip(1).all(|key| shared(hash(*key), hash(group[0])) == n + 1));
        }
        assert!(
            keys.all()
                .iter()
                .all(|key| { (hash(keys.edges[0])..=hash(keys.edges[3])).contains(&hash(*key)) })
        );
    }

    #[test]
    fn groups_share_what_they_say() {
        holds_what_it_says(&ADDRESSES, |n| hash_address(&address(n)));
        holds_what_it_says(&SLOTS, |n| hash_slot(&slot(n)));
    }
}
