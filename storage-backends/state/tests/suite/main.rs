//! Tests of what layers have in common: the merging of writes in a session, and the stamp of a data directory.

mod session;
mod stamp;
