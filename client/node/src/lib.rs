//! The functions of a node on any layer: data directories, import, prefetchers, dumps of a state in and out, conversion of
//! one layer's state into another's, witnesses, access lists, payloads of the Engine API, and the official tests.

pub mod access_lists;
pub mod conformance;
pub mod convert;
pub mod datadir;
pub mod import;
pub mod payload;
pub mod prefetch;
pub mod prestate;
pub mod process;
pub mod state_dump;
pub mod state_root;
pub mod witness;
pub mod words;
