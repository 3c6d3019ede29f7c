//! Tests of headers in the form in which nodes answer.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use serde_json::json;

use super::{super::read_headers, gzip, made_up_chain};

/// Headers can be read from a pipe, which can be read only once.
#[cfg(target_os = "linux")]
#[test]
fn they_come_through_a_pipe() {
    use std::{io::Write, os::fd::AsRawFd};

    let chain = made_up_chain(3);
    let block = &chain[2];
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": block.header }).to_string();
    for bytes in [
        answer.clone().into_bytes(),
        format!("\u{feff}{answer}").into_bytes(),
        gzip(answer.as_bytes()),
        alloy_rlp::encode(block),
    ] {
        // The buffer of the pipe has room for all of the bytes.
        let (read, mut write) = std::io::pipe().unwrap();
        write.write_all(&bytes).unwrap();
        drop(write);
        let path = format!("/proc/self/fd/{}", read.as_raw_fd());
        let headers = read_headers(path, 1).unwrap();
        assert_eq!(headers.len(), 1);
        assert_eq!(*headers[0].header.inner(), block.header);
    }
}

#[test]
fn json_that_is_cut_off_is_no_failure_of_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("header.json.gz");
    let answer = json!({ "result": made_up_chain(3)[2].header }).to_string().into_bytes();
    let whole = gzip(&answer);
    for cut in [gzip(&answer[..answer.len() / 2]), whole[..whole.len() - 9].to_vec()] {
        fs::write(&path, cut).unwrap();
        let error = read_headers(&path, 1).unwrap_err();
        assert!(!error.is_io(), "{error}");
        assert!(error.to_string().contains("header.json.gz: the "), "{error}");
    }
}
