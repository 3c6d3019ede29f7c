//! What the suite cannot see from outside.
