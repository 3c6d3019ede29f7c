//! Target for the methods of a devnet: arbitrary JSON, or requests made of the fuzzer's bytes.

#![no_main]

use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use polytrie_fuzz::{devnet::Devnet, requests::request};
use std::sync::{LazyLock, Mutex};

/// Most requests of one run.
const MOST: usize = 4;

static DEVNET: LazyLock<Mutex<Devnet>> = LazyLock::new(Mutex::default);

fuzz_target!(|data: &[u8]| {
    let mut devnet = DEVNET.lock().expect("a panic ends the process");
    match std::str::from_utf8(data) {
        Ok(text) if text.starts_with('{') => {
            let request: Option<serde_json::Value> = serde_json::from_str(text).ok();
            match request
                .as_ref()
                .and_then(|request| Some((request["method"].as_str()?, &request["params"])))
            {
                Some((method, params)) => devnet.ask(method, params),
                // A text that is no request has no method, but must be answered without failure.
                None => drop(devnet.answer_text(text)),
            }
        }
        _ => {
            let mut bytes = Unstructured::new(data);
            for _ in 0..MOST {
                if bytes.is_empty() {
                    break;
                }
                let Ok((method, params)) = request(&mut bytes, devnet.methods()) else { break };
                devnet.ask(&method, &params);
            }
        }
    }
    devnet.go_back();
});
