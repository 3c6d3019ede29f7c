//! `import --prefetch`: blocks run ahead of their turn change nothing but when things are read.

use crate::{
    run::polytrie,
    support::{CONDENSE, Data, RPC_COMPAT, for_each_layer},
};

for_each_layer!(nothing_depends_on_guesses);

fn nothing_depends_on_guesses(layer: &str) {
    for (fixture, to, prefetch) in [
        (RPC_COMPAT, 54, "--prefetch"),
        (CONDENSE, 400, "--prefetch=on"),
        (CONDENSE, 400, "--prefetch=off"),
    ] {
        let Some(chain) = fixture.open() else { return };
        let data = Data::new();
        polytrie![
            "import",
            chain.file,
            "--datadir",
            data.path(),
            "--chain",
            chain.chain,
            "--state",
            layer,
            "--to",
            to.to_string(),
            prefetch,
        ]
        .ok();
        let plain = chain.imported(layer, to);
        assert_eq!(data.head(), plain.head());
        data.check();
        assert!(data.dump() == plain.dump(), "another state");
    }
}
