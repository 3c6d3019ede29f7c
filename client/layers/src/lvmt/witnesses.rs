//! The witnesses that a data directory keeps. They belong to its data, so the stamp names them.

use super::{LvmtSettings, setup};
use crate::{kind::Parameters, options::LayerOptions};
use polytrie_lvmt::{LvmtLayer, Proofs};
use polytrie_state::{Result, StateError};

/// Parameter of the stamp: `none`, `full` or I/N.
const WITNESSES: &str = "lvmt.witnesses";

/// Settles which witnesses are kept and which keys can be proven. Returns the parameters for the stamp.
pub(super) fn settle(
    options: &mut LayerOptions,
    stamped: Option<&Parameters>,
    height: Option<u8>,
) -> Result<Parameters> {
    let settings = &mut options.lvmt;
    let default = if settings.proving { Proofs::OnRequest } else { Proofs::None };
    let asked = settings.proofs;
    let kept = stamped.map(|parameters| parameters.get(WITNESSES));
    let (proofs, parameter) = match (kept, asked) {
        (None, asked) => {
            let proofs = asked.unwrap_or(default);
            if let Some(height) = height {
                proofs.expect_fits(height)?;
            }
            (proofs, name(proofs))
        }
        (Some(None), _) => {
            let reason = format!(
                "cannot use this data directory: an earlier build made it, and its stamp has no {WITNESSES}; import again into an empty --datadir"
            );
            return Err(StateError::Unsupported { layer: LvmtLayer::NAME, reason });
        }
        (Some(Some(kept)), asked) => {
            let made_with: Proofs = kept.parse().unwrap_or_default();
            match asked {
                None if made_with.are_kept() => (made_with, kept.clone()),
                None => (default, kept.clone()),
                Some(asked) if asked == made_with || name(asked) == *kept => (asked, kept.clone()),
                // The stamp is compared with this value, and the error names both.
                Some(asked) => (asked, asked.to_string()),
            }
        }
    };
    settings.proofs = Some(proofs);
    Ok(Parameters::from([(WITNESSES.to_owned(), parameter)]))
}

/// Fails if the options keep witnesses but the setup lacks the tables for them, so that a new directory
/// gets no stamp that it cannot fulfil.
pub(super) fn expect_tables(settings: &LvmtSettings) -> Result<()> {
    match settings.proofs().are_kept() {
        true => setup::open(settings, None).map(drop),
        false => Ok(()),
    }
}

fn name(proofs: Proofs) -> String {
    if proofs.are_kept() { proofs } else { Proofs::None }.to_string()
}
