//! One run of all tests on one layer.

use super::WorstTest;
use crate::{
    BenchError, PreparedChain, Result,
    fixture::{OpenStore, copy::forget_tree},
    report::BEHIND,
    run::candidates,
};
use polytrie_chain::{Candidate, Chain, ChainOptions, InsertError};
use polytrie_node::process::DeviceIo;
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, path::Path, time::Instant};

/// Tests of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstBench {
    /// Tests in their order.
    pub tests: Vec<WorstTest>,
}

/// Figures of one test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorstFigures {
    /// Name of the case.
    pub case: String,
    /// Planned gas of a block before blocks are merged.
    pub gas_limit: u64,
    /// Whether the blocks had been executed just before; if not, the layer was opened anew for them.
    pub warm: bool,
    /// Gas that all blocks used.
    pub gas: u64,
    /// Seconds of all blocks, until they were durable.
    pub seconds: f64,
    /// Seconds of each block, until its commitment was compared and its batch was passed to the store.
    pub blocks: Vec<f64>,
    /// What the first block read, if the test is cold: what the others read may be what that one has left in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_block: Option<ReadBytes>,
}

/// How much was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadBytes {
    /// Bytes of the rows that the engine returned.
    pub rows: u64,
    /// Bytes that came from devices; `None` where the system does not tell.
    pub device: Option<u64>,
}

impl ReadBytes {
    /// Since the chain was opened, and since this process began.
    fn until_now(chain: &Chain) -> Self {
        let rows = chain.db().store().counters().read_bytes;
        Self { rows, device: DeviceIo::now().map(|io| io.read_bytes) }
    }

    fn since(self, earlier: Self) -> Self {
        let device = self.device.zip(earlier.device);
        Self {
            rows: self.rows.saturating_sub(earlier.rows),
            device: device.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

impl WorstBench {
    /// Runs all tests on a store with the genesis state; `reopen` opens it. A store in memory cannot be opened twice,
    /// so it has warm tests only. Returns the figures, and the largest number of blocks that the layer's own files lacked
    /// at the end of a test.
    pub(crate) fn run(
        &self,
        store: Option<&Path>,
        reopen: &mut dyn FnMut() -> Result<OpenStore>,
    ) -> Result<(Vec<WorstFigures>, u64)> {
        let Some(first) = self.tests.first() else { return Ok((Vec::new(), 0)) };
        let spec = PreparedChain::at(first.chain.clone()).spec()?;
        let mut chain = reopen()?.begin(spec.clone(), ChainOptions::default())?;
        chain.flush()?;
        let (mut figures, mut behind) = (Vec::new(), 0);
        for test in &self.tests {
            let blocks = candidates(&PreparedChain::at(test.chain.clone()), &spec)?;
            if let Some(store) = store {
                drop(chain);
                forget_tree(store)?;
                chain = reopen()?.go_on(spec.clone())?;
            }
            let cold = measure(&mut chain, test, blocks.clone(), &mut behind)?;
            figures.extend(store.is_some().then_some(cold));
            let warm = measure(&mut chain, test, blocks, &mut behind)?;
            figures.push(WorstFigures { warm: true, first_block: None, ..warm });
        }
        Ok((figures, behind))
    }
}

/// Inserts the blocks, and takes them back. `behind` becomes the number of blocks that the layer's own files lack then, if
/// it is less.
fn measure(
    chain: &mut Chain,
    test: &WorstTest,
    blocks: VecDeque<Candidate>,
    behind: &mut u64,
) -> Result<WorstFigures> {
    let begin = chain.head().number();
    let (mut gas, mut seconds, mut first_block) = (0, Vec::new(), None);
    let before = ReadBytes::until_now(chain);
    for block in blocks {
        gas += block.header.gas_used;
        let start = Instant::now();
        let taken = chain.insert(block).and_then(|_| chain.settle());
        taken.map_err(|error| wrong(chain, test, error))?;
        seconds.push(start.elapsed().as_secs_f64());
        if first_block.is_none() {
            first_block = Some(ReadBytes::until_now(chain).since(before));
        }
    }
    let start = Instant::now();
    chain.flush()?;
    let flush = start.elapsed().as_secs_f64();
    let figures = chain.layer().figures();
    let lacking = figures.iter().find(|(name, _)| *name == BEHIND).map_or(0, |(_, blocks)| *blocks);
    *behind = lacking.max(*behind);
    chain.unwind_to(begin)?;
    chain.flush()?;
    Ok(WorstFigures {
        case: test.case.clone(),
        gas_limit: test.gas,
        warm: false,
        gas,
        seconds: seconds.iter().sum::<f64>() + flush,
        blocks: seconds,
        first_block,
    })
}

fn wrong(chain: &Chain, test: &WorstTest, error: InsertError) -> BenchError {
    match error {
        InsertError::Invalid(block) => BenchError::Wrong(format!(
            "with the layer `{}`, in the test {}, {block}",
            chain.layer().name(),
            test.case
        )),
        InsertError::Broken(error) => error.into(),
    }
}
