//! Tests of `kill -9` at decisive moments: a chosen head survives, and payloads that were not
//! chosen are lost.

use crate::{
    run::polytrie,
    support::{Node, args, attributes, layers, payment, quantity},
};
use alloy_primitives::Address;
use serde_json::json;
use std::path::Path;

#[test]
fn kill_9_loses_nothing_that_was_chosen() {
    let bob = Address::repeat_byte(0xb0);
    for layer in layers() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let mut node = Node::new(&data, layer.name, Path::new("dev"), args![]);
        let mut head = node.head();
        for number in 1..=4 {
            let (_, raw) = payment(number - 1, bob, 1);
            node.public("eth_sendRawTransaction", json!([raw]));
            let other = node.build(head, &attributes(number * 10, 2));
            let next = node.build(head, &attributes(number * 10, 1));
            // Two payloads are known and not chosen, one on the head and one on another branch.
            node.valid(&next);
            node.valid(&other);
            node.kill();
            node = Node::open(&data, args![]);
            assert_eq!(node.head(), head, "{} {number}", layer.name);
            assert_eq!(
                node.choose_as(next.hash, head, &json!(null))["payloadStatus"]["status"],
                "SYNCING"
            );

            // One payload is chosen in the place of the other.
            node.valid(&other);
            node.choose(other.hash);
            node.valid(&next);
            node.choose(next.hash);
            node.kill();
            node = Node::open(&data, args![]);
            head = next.hash;
            assert_eq!(node.head(), head, "{} {number}", layer.name);
            let balance = node.public("eth_getBalance", json!([bob, "latest"]));
            assert_eq!(quantity(&balance), number, "{}", layer.name);
            // The abandoned branch is still known.
            node.choose(other.hash);
            node.choose(next.hash);
        }
        node.kill();
        let check = polytrie!["db", "check", "--datadir", &data].ok();
        assert!(check.text().starts_with("clean: "), "{}: {}", layer.name, check.text());
    }
}
