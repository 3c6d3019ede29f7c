//! The Markdown page of results: the claim and setting of each paper, the ratios measured here over the paper's
//! baseline and over `mpt`, and their reasons.

use super::{
    BASELINE, ClaimResult, PAPERS, Paper, RatioAt, Replication, claim::Verdict, result::PartResult,
    result::markdown_table,
};
use crate::{
    report::{REFERENCE, command},
    run::Keeper,
};
use polytrie_node::words::counted;
use std::fmt::Write;

/// A store that is not run here, with the ratio that its authors publish.
struct Cited {
    name: &'static str,
    ratio: &'static str,
    of: &'static str,
    source: &'static str,
}

/// Ratios that the authors of each store published, on their machines and workloads.
const CITED: &[Cited] = &[
    Cited {
        name: "QMDB, its authors' program",
        ratio: "up to 8",
        of: "NOMT; up to 6 times RocksDB, which authenticates nothing. A commitment of its own",
        source: "I. Zhang et al.: QMDB: Quick Merkle Database, [arXiv 2501.05262](https://arxiv.org/abs/2501.05262)",
    },
    Cited {
        name: "Carmen",
        ratio: "10",
        of: "the database of geth in Fantom's client, with a hundredth of its disk; for chains without forks. Co-authors of Storage Replica",
        source: "H. Jordan, K. Jezek, P. Subotić, B. Scholz: Efficient Forkless Blockchain Databases, [arXiv 2508.20686](https://arxiv.org/abs/2508.20686)",
    },
];

/// The page of all results, in Markdown. Its plots are files in the folder `plots`.
pub fn page(all: &[Replication], plots: &str) -> String {
    let mut text = String::from("# The papers, measured again\n\n");
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "Each ratio that a paper states is measured twice: over `{BASELINE}`, the trie with a row for every node under its \
         hash, against which the papers measured; and over `{REFERENCE}`, the same trie found by path, with leaves inside their \
         branch. The first says whether the paper's result is found again here, the second what is left of it over a trie that \
         is stored well. A ratio counts as found again within a factor of 1.5 of the paper's. As the papers' clients did, all \
         layers write each block to the engine and leave it to the system when that is on the disk, where an import groups blocks \
         and syncs. Senders are known and blocks decoded before the clock starts.\n"
    );
    // A figure with its own limit of memory names it itself.
    let unbounded = all.iter().find(|one| one.memory_limit.is_none());
    if let Some(one) = unbounded.or(all.first()) {
        let _ = writeln!(text, "{}\n", conditions(one));
    }
    let _ = writeln!(
        text,
        "This page is what this command wrote:\n\n```console\n$ {}\n```\n",
        command()
    );
    text += &headlines(all);
    for paper in PAPERS {
        let found: Vec<_> = all.iter().filter(|one| paper.has(one.id)).collect();
        if !found.is_empty() {
            text += &section(paper, &found, plots);
        }
    }
    text += "## Stores that are not run here\n\nWhat their authors published, on their machines and workloads:\n\n";
    let heads = ["store", "times", "of", "source"].map(str::to_owned).to_vec();
    let rows = CITED
        .iter()
        .map(|cited| [cited.name, cited.ratio, cited.of, cited.source].map(str::to_owned).to_vec());
    text + &markdown_table(&std::iter::once(heads).chain(rows).collect::<Vec<_>>())
}

fn conditions(one: &Replication) -> String {
    let machine = &one.machine;
    let limit = one.memory_limit.map(|limit| {
        let mebibytes = limit.bytes >> 20;
        let by = match limit.by {
            Keeper::Budgets => "by the sizes of caches alone",
            Keeper::Cgroup => "as the kernel enforces",
        };
        format!(", each run within {mebibytes} MiB {by}")
    });
    let engines = one.engines.join(" and ");
    format!(
        "Measured with polytrie {} on {}, {} cores, over {engines}{}{}; the median of {} in turns, the least and the \
         greatest turn in parentheses. What is counted has no turns.{}",
        one.version,
        machine.cpu,
        machine.cores,
        if one.cold { ", past the page cache" } else { "" },
        limit.unwrap_or_default(),
        counted(one.runs, "run"),
        // Without this sentence readers would take the ratios for those of reads from a disk.
        match (one.cold, one.memory_limit) {
            (false, None) =>
                " Where a figure names no limit, nothing bounds the memory, so what was written before a run is in the page \
                 cache when it begins: reads cost processor time, and seldom a disk.",
            _ => "",
        }
    )
}

/// The headline claims of all papers, in one table.
fn headlines(all: &[Replication]) -> String {
    let mut text = String::from("## What they are known for\n\n");
    let heads = ["paper", "ratio", "published", "here", "over mpt", "within 1.5"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let (mut judged, mut found, mut stated) = (0, 0, 0);
    for one in all {
        for part in &one.parts {
            for claim in part.claims.iter().filter(|claim| claim.is_headline) {
                stated += 1;
                judged += usize::from(claim.verdict.is_some());
                found += usize::from(claim.verdict == Some(Verdict::Near));
                rows.push(headline(one, part, claim));
            }
        }
    }
    text += &markdown_table(&rows);
    let _ = writeln!(
        text,
        "\nOf {stated} ratios {judged} could be judged; {found} of these are within a factor of 1.5 of the paper's. Where one is \
         not, its section shows where the time went.\n"
    );
    text
}

fn headline(one: &Replication, part: &PartResult, claim: &ClaimResult) -> Vec<String> {
    // The point that judges the claim, else the largest one.
    let at = |ratios: &[RatioAt], none: &str| {
        let judged = ratios.iter().find(|ratio| Some(&ratio.at) == claim.judged_at.as_ref());
        let size = if part.small { " (small)" } else { "" };
        judged.or(ratios.last()).map_or_else(|| none.to_owned(), |ratio| ratio.text() + size)
    };
    vec![
        format!("{}, {}", paper_name(one), one.place),
        format!("{}: {}", part.title, claim.what),
        claim.published.clone(),
        at(&claim.measured, "not measured"),
        at(&claim.with_mpt, "-"),
        claim.verdict(),
    ]
}

fn paper_name(one: &Replication) -> &'static str {
    PAPERS.iter().find(|paper| paper.has(one.id)).map_or("", |paper| paper.title)
}

fn section(paper: &Paper, found: &[&Replication], plots: &str) -> String {
    let mut text = format!("## {}\n\n{}\n\n", paper.title, paper.reference);
    for (head, words) in [
        ("What it claims.", paper.claim),
        ("Where its authors measured.", paper.setting),
        ("Why.", paper.why),
    ] {
        let _ = writeln!(text, "**{head}** {words}\n");
    }
    for one in found {
        let _ = writeln!(text, "{}", one.markdown(plots));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{
        super::{find, testing::comparison},
        *,
    };

    /// A quarter of a GiB is no 0.2 GiB.
    #[test]
    fn a_limit_of_memory_is_not_rounded() {
        let (_dir, base) = comparison(1);
        let one = Replication::new(find("lmpt-10")[0], &base.within(256 << 20), true, Vec::new());
        let text = conditions(&one);
        assert!(text.contains(", each run within 256 MiB "), "{text}");
    }
}
