//! The measurement of one part of an experiment, point by point.

use super::{
    Claim, Part, Point, PointWork, Published, Quantity, Role, Setting, UNSYNCED, Variant,
    claim::{Judged, row_name},
    result::{Grid, PartResult, ReportAt, Row, Table},
    roles::{Counted, LAYER, Planned},
};
use crate::{
    ChainBench, Comparison, GivenChain, Mode, Report, Result, Settings, Shape, StoreBench, Subject,
    WorkloadSpec, equip,
};
use polytrie_chain::executor::Prefetch;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Instant;

/// Seed of everything random.
const SEED: u64 = 1;
/// Note for figures whose caches had to be smaller than the figure says.
const CUT: &str = "caches that are said to be larger than a quarter of the memory of a run have that quarter of it";

/// Results at one point of a part.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct MeasuredPoint {
    /// Seconds that the point took, with the chains and stores that were made for it.
    pub(super) seconds: f64,
    /// Report of what was timed: all variants in turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) report: Option<Report>,
    /// Values that are counted, or that belong to no layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) counted: Vec<Counted>,
    pub(super) notes: Vec<String>,
}

/// The values of a variant on an engine at a point.
struct Found {
    series: String,
    variant: &'static str,
    /// The engine, if several were measured.
    engine: Option<String>,
    point: usize,
    /// One value for each quantity.
    values: Vec<f64>,
    /// For each quantity the values of each turn; empty for work that takes no turns.
    turns: Vec<Vec<f64>>,
}

impl Part {
    /// Measures the part at a point, which is one of the small ones if `quick`. `base` gives the engines, the
    /// number of runs and the limits; the layers that are in both `base` and the part are measured. `given` is
    /// the user's chain.
    ///
    /// # Errors
    ///
    /// If there is no result.
    pub(super) fn measure(
        &self,
        base: &Comparison,
        point: &Point,
        quick: bool,
        given: Option<&GivenChain>,
    ) -> Result<MeasuredPoint> {
        let began = Instant::now();
        let (mut notes, mut report, mut counted) = (Vec::new(), None, Vec::new());
        let is_left_out = self.subjects(base, &mut notes).is_empty();
        match point.work.task(quick) {
            Task::Curve { quick } => counted = curve(quick, &mut notes),
            Task::Role { role, chains, quick } if !is_left_out => {
                counted = role.count(base, &chains, quick, given, &mut notes)?;
            }
            Task::Role { .. } if polytrie_layers::layer(LAYER).is_ok() => {
                push(&mut notes, format!("it takes `{LAYER}`, which --states leaves out"));
            }
            Task::Role { .. } => {}
            Task::Chain(spec, bench) => {
                let run = |comparison: &Comparison| comparison.chain(&spec, bench);
                report = self.time(base, point, &mut notes, run)?;
            }
            Task::Store(bench) => {
                let run = |comparison: &Comparison| comparison.store(bench);
                report = self.time(base, point, &mut notes, run)?;
            }
        }
        Ok(MeasuredPoint { seconds: began.elapsed().as_secs_f64(), report, counted, notes })
    }

    /// Times the work at a point on all variants; `None` if no variant can be measured.
    fn time(
        &self,
        base: &Comparison,
        point: &Point,
        notes: &mut Vec<String>,
        run: impl FnOnce(&Comparison) -> Result<Report>,
    ) -> Result<Option<Report>> {
        let Some(comparison) = self.prepare(base, point, notes)? else { return Ok(None) };
        let report = run(&comparison)?;
        report.notes.iter().for_each(|note| push(notes, note.clone()));
        Ok(Some(report))
    }

    /// The result of the part, with `None` in `measured` for points that were left out.
    pub(super) fn result(
        &self,
        base: &Comparison,
        quick: bool,
        measured: Vec<Option<MeasuredPoint>>,
        mut notes: Vec<String>,
    ) -> PartResult {
        let points = (self.points)(quick);
        let (mut found, mut reports) = (Vec::new(), Vec::new());
        let named = |name: &str| self.variants.iter().find(|known| known.name == name);
        for (index, (point, measured)) in points.iter().zip(measured).enumerate() {
            let Some(measured) = measured else { continue };
            measured.notes.into_iter().for_each(|note| push(&mut notes, note));
            for Counted { variant, values } in measured.counted {
                found.extend(named(&variant).map(|of| Found {
                    series: variant,
                    variant: of.name,
                    engine: None,
                    point: index,
                    values,
                    turns: Vec::new(),
                }));
            }
            let Some(report) = measured.report else { continue };
            for layer in &report.layers {
                let Some(variant) = named(&layer.subject.label()) else { continue };
                let kv = &layer.subject.kv;
                let engine = base.subjects.iter().any(|s| s.kv != *kv).then(|| kv.clone());
                let runs = report.runs_of(layer);
                let of_turns = |q: &Quantity| runs.iter().map(q.of).collect();
                found.push(Found {
                    series: row_name(variant.name, engine.as_deref()),
                    variant: variant.name,
                    engine,
                    point: index,
                    values: self.quantities.iter().map(|q| (q.of)(layer)).collect(),
                    turns: self.quantities.iter().map(of_turns).collect(),
                });
            }
            reports.push(ReportAt { at: point.name.clone(), report });
        }
        let judges = if quick { Judged::No } else { Judged::Yes };
        PartResult { small: quick, ..self.tabulate(&points, &found, notes, reports, judges) }
    }

    /// The subjects to measure: each variant on each engine.
    fn subjects(
        &self,
        base: &Comparison,
        notes: &mut Vec<String>,
    ) -> Vec<(&'static Variant, Subject)> {
        let mut subjects = Vec::new();
        for variant in self.variants {
            if let Err(error) = polytrie_layers::layer(variant.state) {
                push(notes, format!("without {}: {error}", variant.name));
            }
            let own = (!variant.set.is_empty()).then(|| variant.name.to_owned());
            let of = base.subjects.iter().filter(|subject| subject.state == variant.state);
            subjects.extend(of.map(|of| (variant, Subject { variant: own.clone(), ..of.clone() })));
        }
        subjects
    }

    /// The comparison at a point; `None` if no variant can be measured. Variants that need a setting which this build
    /// does not have are left out, with a note.
    fn prepare(
        &self,
        base: &Comparison,
        point: &Point,
        notes: &mut Vec<String>,
    ) -> Result<Option<Comparison>> {
        let mut comparison = Comparison { subjects: Vec::new(), ..base.clone() };
        // A figure may ask for large caches; the limit of memory still holds.
        let set = |settings: &Settings, changes: &[Setting], notes: &mut Vec<String>| {
            let wanted = with(settings, changes)?;
            let bounded = base.bounded(wanted.clone());
            if bounded != wanted {
                push(notes, CUT.to_owned());
            }
            Ok::<_, String>(bounded)
        };
        let here: Vec<_> = std::iter::once(&UNSYNCED).chain(point.set).copied().collect();
        match set(&base.settings, &here, notes) {
            Ok(settings) => comparison.settings = settings,
            Err(reason) => {
                push(notes, format!("without {}: {reason}", point.name));
                return Ok(None);
            }
        }
        // Settings that equip one variant must not reach the next.
        let common = comparison.settings.clone();
        for (variant, subject) in self.subjects(base, notes) {
            let mut own = match set(&common, variant.set, notes) {
                Ok(settings) => settings,
                Err(reason) => {
                    push(notes, format!("without {} at {}: {reason}", variant.name, point.name));
                    continue;
                }
            };
            let settings =
                if subject.variant.is_some() { &mut own } else { &mut comparison.settings };
            for note in equip(std::slice::from_ref(&subject), settings, &comparison.cache)? {
                push(notes, note);
            }
            if let Some(name) = &subject.variant {
                comparison.variants.insert(name.clone(), own);
            }
            comparison.subjects.push(subject);
        }
        Ok((!comparison.subjects.is_empty()).then_some(comparison))
    }

    fn tabulate(
        &self,
        points: &[Point],
        found: &[Found],
        notes: Vec<String>,
        reports: Vec<ReportAt>,
        judged: Judged,
    ) -> PartResult {
        let mut series: Vec<(&str, &str)> = Vec::new();
        for one in found {
            if !series.contains(&(one.series.as_str(), one.variant)) {
                series.push((&one.series, one.variant));
            }
        }
        let columns: Vec<_> = points.iter().map(|point| (point.x, point.name.clone())).collect();
        let tables = self.quantities.iter().enumerate().map(|(number, quantity)| {
            let row = |(name, variant): &(&str, &str)| Row {
                name: (*name).to_owned(),
                like: (*variant).to_owned(),
                values: (0..points.len())
                    .map(|point| {
                        let one = found.iter().find(|f| f.series == *name && f.point == point)?;
                        one.values.get(number).copied().filter(|value| value.is_finite())
                    })
                    .collect(),
            };
            Table {
                quantity: quantity.name.to_owned(),
                unit: quantity.unit.to_owned(),
                published: self.published_grid(quantity.name),
                measured: Grid { columns: columns.clone(), rows: series.iter().map(row).collect() },
            }
        });
        let tables: Vec<Table> = tables.collect();
        let turns = |quantity: &str, series: &str, point: usize| {
            let number = self.quantities.iter().position(|q| q.name == quantity)?;
            let one = found.iter().find(|f| f.series == series && f.point == point)?;
            one.turns.get(number).map(Vec::as_slice)
        };
        let mut engines: Vec<Option<&str>> = Vec::new();
        for one in found {
            if !engines.contains(&one.engine.as_deref()) {
                engines.push(one.engine.as_deref());
            }
        }
        if engines.is_empty() {
            // Counted values and notes are shown even if no engine was measured.
            engines.push(None);
        }
        let check = |claim: &Claim| {
            let each = engines.iter().map(|engine| claim.check(&tables, *engine, turns, judged));
            each.collect::<Vec<_>>()
        };
        let claims = self.claims.iter().flat_map(check).collect();
        PartResult {
            title: self.title.to_owned(),
            x: self.x.to_owned(),
            small: false,
            tables,
            claims,
            notes,
            reports,
        }
    }

    /// The paper's numbers of a quantity.
    fn published_grid(&self, quantity: &str) -> Grid {
        let rows = || self.published.iter().filter(|published| published.quantity == quantity);
        let mut columns: Vec<(f64, String)> = Vec::new();
        for (x, name, _) in rows().flat_map(|published| published.values) {
            if !columns.iter().any(|(known, _)| known == x) {
                columns.push((*x, (*name).to_owned()));
            }
        }
        columns.sort_by(|a, b| a.0.total_cmp(&b.0));
        let row = |published: &Published| Row {
            name: published.name.to_owned(),
            like: published.like.to_owned(),
            values: columns
                .iter()
                .map(|(x, _)| published.values.iter().find(|v| v.0 == *x).map(|v| v.2))
                .collect(),
        };
        let rows = rows().map(row).collect();
        Grid { columns, rows }
    }
}

fn push(notes: &mut Vec<String>, note: String) {
    if !notes.contains(&note) {
        notes.push(note);
    }
}

/// Measures the time of curve operations.
#[cfg(feature = "lvmt")]
fn curve(quick: bool, _: &mut Vec<String>) -> Vec<Counted> {
    let values = super::curve::microseconds(quick).to_vec();
    vec![Counted { variant: super::LVMT.name.to_owned(), values }]
}

#[cfg(not(feature = "lvmt"))]
fn curve(_: bool, notes: &mut Vec<String>) -> Vec<Counted> {
    push(notes, "without the curve: the layer `lvmt` is not compiled in".into());
    Vec::new()
}

/// A copy of the settings with some changed. Fails if a path does not exist in this build.
fn with(settings: &Settings, changes: &[Setting]) -> Result<Settings, String> {
    let wrong = |path: &str| format!("this build has no setting {path}");
    let mut value = serde_json::json!(settings);
    for (path, text) in changes {
        let new: Value = serde_json::from_str(text).map_err(|_| wrong(path))?;
        *value.pointer_mut(path).ok_or_else(|| wrong(path))? = new;
    }
    serde_json::from_value(value).map_err(|e| e.to_string())
}

/// The work at a point with every parameter that decides it. It is run, and it describes the point that is kept.
#[derive(Debug)]
pub(super) enum Task {
    /// The chain of a workload.
    Chain(WorkloadSpec, ChainBench),
    /// Operations on the state layer alone.
    Store(StoreBench),
    /// Operations of the curve; fewer if `quick`.
    Curve { quick: bool },
    /// A role, counted on these chains; on fewer blocks of the user's chain if `quick`.
    Role { role: Role, chains: Vec<Planned>, quick: bool },
}

impl PointWork {
    /// Amount of work, filling the store included, in a unit that makes sense only in ratios.
    pub(super) fn size(self) -> f64 {
        match self {
            Self::Chain { accounts, txs, .. } => 2.0 * accounts as f64 + 6.0 * txs as f64,
            Self::Store { keys, blocks, ops, mode, .. } => {
                keys as f64 + 3.0 * ((warmup(keys, ops, mode) + blocks) * ops) as f64
            }
            Self::Curve | Self::Role(_) => 1.0,
        }
    }

    /// Whether the work is done once, whatever the number of runs and layers.
    pub(super) const fn is_done_once(self) -> bool {
        matches!(self, Self::Curve | Self::Role(_))
    }

    /// The work with all its parameters, for a small point if `quick`.
    pub(super) fn task(self, quick: bool) -> Task {
        match self {
            Self::Chain { workload, accounts, senders, txs, block_txs, popularity } => {
                // All receivers exist from the start, as in the papers.
                let new_recipients = 0;
                let shape = Shape { accounts, txs, block_txs, popularity, senders, new_recipients };
                let spec = WorkloadSpec { workload, seed: SEED, shape };
                let bench = ChainBench {
                    warmup_blocks: ChainBench::default_warmup(spec.blocks()),
                    recover: false,
                    prefetch: Prefetch::Off,
                    bal_threads: 1,
                    flush_every: 1,
                };
                Task::Chain(spec, bench)
            }
            Self::Store { keys, blocks, ops, fresh, mode } => Task::Store(StoreBench {
                keys,
                blocks,
                ops,
                fresh,
                mode,
                seed: SEED,
                warmup_blocks: warmup(keys, ops, mode),
            }),
            Self::Curve => Task::Curve { quick },
            Self::Role(role) => Task::Role { role, chains: role.chains(quick), quick },
        }
    }
}

/// Blocks of operations on a store before the clock starts. The only paper that times reads alone has its trees in
/// memory, so reads begin when nearly all is there: three for each key leave 5 % of the keys out.
const fn warmup(keys: u64, ops: u64, mode: Mode) -> u64 {
    match mode {
        Mode::Read => (3 * keys).div_ceil(ops),
        Mode::Both | Mode::Write => StoreBench::DEFAULT_WARMUP,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::paper::{BASELINE, PAPERS, find, testing::comparison};
    #[cfg(feature = "lmpt")]
    use polytrie_layers::lmpt::interval_of_run;

    /// The figures of `lmpt` use intervals of 1,000 blocks.
    #[test]
    #[cfg(feature = "lmpt")]
    fn lmpt_merges_as_in_its_paper() {
        let lmpt = PAPERS.iter().find(|paper| paper.name == "lmpt").unwrap();
        let interval = |point: &Point| {
            let PointWork::Chain { txs, block_txs, .. } = point.work else { return 0 };
            let blocks = txs.div_ceil(block_txs);
            let warmup = ChainBench::default_warmup(blocks);
            interval_of_run(warmup, blocks - warmup)
        };
        for experiment in lmpt.experiments {
            for part in experiment.parts {
                if !part.variants.iter().any(|variant| variant.state == "lmpt") {
                    continue;
                }
                assert!((part.points)(false).iter().all(|point| interval(point) == 1_000));
                let quick = (part.points)(true);
                assert!(quick.iter().all(|point| [14, 100].contains(&interval(point))));
            }
        }
    }

    /// The trees of RainBlock's figure are in memory, as its authors had them.
    #[test]
    fn reads_begin_when_the_tree_is_in_memory() {
        let parts = find("rainblock-7")[0].parts;
        for point in (parts[0].points)(false) {
            let PointWork::Store { keys, ops, mode, .. } = point.work else { panic!("a store") };
            assert!(mode == Mode::Read && warmup(keys, ops, mode) * ops >= 3 * keys);
        }
        for point in (parts[1].points)(false) {
            let PointWork::Store { keys, ops, mode, .. } = point.work else { panic!("a store") };
            assert_eq!(warmup(keys, ops, mode), StoreBench::DEFAULT_WARMUP);
        }
    }

    #[test]
    fn settings_are_found() {
        let settings = with(&Settings::default(), &[("/layer/trie_cache", "7")]).unwrap();
        assert_eq!(settings.layer.trie_cache, 7);
        assert!(
            with(&settings, &[("/layer/nothing", "7")]).unwrap_err().contains("/layer/nothing")
        );
    }

    /// A figure gives layers the caches of the paper, and a limit of memory still holds.
    #[test]
    fn a_variant_has_no_more_than_the_limit_leaves() {
        const LIMIT: u64 = 256 << 20;
        let (_dir, base) = comparison(1);
        let subjects: Vec<_> =
            ["mpt", BASELINE, "rain"].map(|state| Subject::new(state, "rocksdb")).into();
        let base = Comparison { subjects, ..base };
        let limited = base.clone().within(LIMIT);
        let quarter = LIMIT as usize / 4;
        let mut largest = 0;
        for part in PAPERS.iter().flat_map(|paper| paper.experiments).flat_map(|e| e.parts) {
            for point in (part.points)(false) {
                let (mut free, mut notes) = (Vec::new(), Vec::new());
                let wanted = part.prepare(&base, &point, &mut free).unwrap();
                let Some(found) = part.prepare(&limited, &point, &mut notes).unwrap() else {
                    assert!(wanted.is_none());
                    continue;
                };
                for settings in found.variants.values().chain([&found.settings]) {
                    let Settings { layer, engine } = settings;
                    assert!(layer.trie_cache.max(layer.mpt_hash.cache) <= quarter, "{layer:?}");
                    assert!(engine.cache.unwrap() <= quarter, "{engine:?}");
                }
                let (mut is_cut, wanted) = (false, wanted.unwrap());
                for settings in wanted.variants.values().chain([&wanted.settings]) {
                    let cache = settings.layer.mpt_hash.cache;
                    is_cut |= cache > quarter && cache != base.settings.layer.mpt_hash.cache;
                    largest = largest.max(cache);
                }
                assert!(!is_cut || notes.contains(&CUT.to_owned()), "{notes:?}");
                assert!(!free.contains(&CUT.to_owned()), "{free:?}");
            }
        }
        // Without a limit the caches are as large as the figure says.
        assert_eq!(largest, 1_000_000_000);
    }

    #[test]
    fn every_setting_of_an_experiment_is_one() {
        for part in PAPERS.iter().flat_map(|paper| paper.experiments).flat_map(|e| e.parts) {
            let points = (part.points)(false).into_iter().map(|point| point.set);
            for set in points.chain(part.variants.iter().map(|variant| variant.set)) {
                let of_lvmt = set.iter().any(|(path, _)| path.contains("lvmt"));
                if cfg!(feature = "lvmt") || !of_lvmt {
                    with(&Settings::default(), set).unwrap();
                }
            }
        }
    }
}
