//! Tests of `import --prefetch`: running blocks in advance changes only when data is read, and no
//! result.

use crate::support::{CONDENSE, Data, RPC_COMPAT, for_each_layer, import};

for_each_layer!(nothing_depends_on_guesses);

fn nothing_depends_on_guesses(layer: &str) {
    for (fixture, to, prefetch) in [
        (RPC_COMPAT, 54, "--prefetch"),
        (CONDENSE, 400, "--prefetch=on"),
        (CONDENSE, 400, "--prefetch=off"),
    ] {
        let Some(chain) = fixture.open() else { return };
        let data = Data::new();
        import![data.path(), chain.file, chain.chain, layer, "--to", to.to_string(), prefetch].ok();
        let plain = chain.imported(layer, to);
        assert_eq!(data.head(), plain.head());
        data.check();
        assert!(data.dump() == plain.dump(), "another state");
    }
}
