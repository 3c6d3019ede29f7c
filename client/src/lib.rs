//! The library behind the `polytrie` binary: an Ethereum execution client whose state layer is a part
//! you can swap.
