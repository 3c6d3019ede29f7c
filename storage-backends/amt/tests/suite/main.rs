//! Tests of the vector commitment: its openings, its setups, and losses of power while a setup is written.

mod files;
mod openings;
mod power;
mod setup;
