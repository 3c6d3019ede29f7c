//! A generated setup for benchmarks, and for chains in memory, if the user has none: a measurement or an experiment
//! need not trust it.

use super::setup::find;
use crate::{LayerOptions, kind::Provision};
use polytrie_amt::{PowersOfTau, Setup};
use polytrie_lvmt::{LvmtLayer, Proofs};
use polytrie_state::{Result, StateError};
use std::path::Path;

/// Height of the trees, the same as in every setup.
const HEIGHT: u8 = 16;

/// Returns the setup to generate if the options name none and the user's cache has none.
pub(super) fn lacking(options: &LayerOptions) -> Option<Provision> {
    let settings = &options.lvmt;
    if settings.needs.setup.is_some() || find(&settings.needs, None, None).is_ok() {
        return None;
    }
    let proofs = settings.proofs() != Proofs::None;
    Some(Provision {
        name: "lvmt-setup-insecure",
        parameters: serde_json::json!({
            "height": HEIGHT,
            "proofs": proofs,
            "version": env!("CARGO_PKG_VERSION"),
        }),
        make: Box::new(move |dir| make(proofs, dir)),
        take: |options, dir| options.lvmt.needs.setup = Some(dir.join("setup")),
        note: "`lvmt` ran on an insecure setup that was made for benchmarks: as fast as one from a ceremony, but whoever knows its seed could prove anything.",
    })
}

fn make(proofs: bool, dir: &Path) -> Result<()> {
    tracing::info!("deriving the tables of lvmt from an insecure setup, once");
    let failed = |reason: String| StateError::Unsupported { layer: LvmtLayer::NAME, reason };
    let powers = PowersOfTau::insecure_dev(HEIGHT, "dev").map_err(|e| failed(e.to_string()))?;
    let setup = Setup::derive(&powers, proofs, &mut |step| {
        tracing::info!("derived {} of {} tables", step.done, step.total);
    });
    setup.write(&dir.join("setup")).map_err(|e| failed(e.to_string()))
}
