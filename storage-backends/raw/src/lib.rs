//! `raw`: flat state without a commitment.
//!
//! Accounts and slots lie in two tables under their hashed keys, and a block rewrites exactly the rows it
//! changes. Nothing is authenticated, so this is the ceiling the other layers are measured against; and as
//! the smallest complete [`StateLayer`](polytrie_state::StateLayer) it is the one to copy for a new layer.
//!
//! - `layer.rs`: the layer, which implements the seam,
//! - `session.rs`: one block under way,
//! - `flat.rs`: the tables, and a write set turned into a batch,
//! - `load.rs`, `check.rs`: filling an empty layer, and looking for damage.

mod check;
mod flat;
mod layer;
mod load;
mod session;

pub use layer::RawLayer;
