//! Ids of requests that are numbers but not whole ones from 0 to 2^64.
//!
//! JSON-RPC allows any number, and clients that count downwards or draw lots do send such. The server beneath takes a
//! request with one of them for a notification, carries it out and answers nothing. So a text that stands for the number
//! goes through it, and the number comes back in the answer. This is done for HTTP, where the whole request is at hand;
//! messages of a WebSocket never pass by here.

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::BTreeMap;

/// How the texts begin that stand for numbers.
const STAND_IN: &str = "polytrie-number-";

/// The numbers that were replaced in a request.
#[derive(Debug, Default)]
pub(super) struct Ids(Vec<Box<RawValue>>);

/// What matters of a request; the rest is only skimmed.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
}

impl Ids {
    /// The request or batch to pass on in place of this one, if that is needed.
    pub(super) fn replace(&mut self, body: &[u8], single: bool) -> Option<Vec<u8>> {
        if single {
            let request = self.replace_one(serde_json::from_slice(body).ok()?)?;
            return Some(request.get().as_bytes().to_owned());
        }
        // Nearly all batches need no more than this one look.
        let heads = serde_json::from_slice::<Vec<Head<'_>>>(body);
        if heads.is_ok_and(|heads| heads.iter().all(|head| head.id.is_none_or(is_known))) {
            return None;
        }
        let batch: Vec<&RawValue> = serde_json::from_slice(body).ok()?;
        let replaced: Vec<_> = batch.iter().map(|request| self.replace_one(request)).collect();
        if replaced.iter().all(Option::is_none) {
            return None;
        }
        let entries = batch.iter().zip(&replaced);
        let entries: Vec<_> =
            entries.map(|(before, after)| after.as_deref().unwrap_or(before)).collect();
        serde_json::to_vec(&entries).ok()
    }

    fn replace_one(&mut self, request: &RawValue) -> Option<Box<RawValue>> {
        let head: Head<'_> = serde_json::from_str(request.get()).ok()?;
        let id = head.id.filter(|id| !is_known(id))?;
        let mut members: BTreeMap<String, &RawValue> = serde_json::from_str(request.get()).ok()?;
        let is_number = id.get().starts_with(|first: char| first == '-' || first.is_ascii_digit());
        let stands_for_it = if is_number {
            to_raw_value(&format!("{STAND_IN}{}", self.0.len())).ok()?
        } else {
            // No id by any rule: without a method it is refused as the invalid request that it is.
            members.remove("method");
            to_raw_value(&()).ok()?
        };
        members.insert("id".to_owned(), &stands_for_it);
        let request = to_raw_value(&members).ok()?;
        if is_number {
            self.0.push(id.to_owned());
        }
        Some(request)
    }

    /// Puts the numbers back, in the answer.
    pub(super) fn restore(&self, answer: &str) -> String {
        let start = format!("\"id\":\"{STAND_IN}");
        let mut parts = answer.split(&start);
        let mut restored = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let found = part.split_once('"').and_then(|(index, rest)| {
                let id = self.0.get(index.parse::<usize>().ok()?)?;
                Some((id.get(), rest))
            });
            match found {
                Some((id, rest)) => restored.extend(["\"id\":", id, rest]),
                None => restored.extend([start.as_str(), part]),
            }
        }
        restored
    }
}

/// Whether the server beneath knows what this is.
fn is_known(id: &RawValue) -> bool {
    id.get().starts_with('"') || id.get().parse::<u64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn numbers_come_back_as_they_were() {
        let mut ids = Ids::default();
        let batch = r#"[{"id":1,"method":"a"}, 7, {"id":-1.50,"method":"b","params":["x"]},{"id":99999999999999999999,"method":"c"}]"#;
        let replaced = ids.replace(batch.as_bytes(), false).expect("two are replaced");
        let replaced = String::from_utf8(replaced).expect("JSON is text");
        assert_eq!(
            replaced,
            r#"[{"id":1,"method":"a"},7,{"id":"polytrie-number-0","method":"b","params":["x"]},{"id":"polytrie-number-1","method":"c"}]"#
        );
        assert_eq!(
            ids.restore(&replaced),
            r#"[{"id":1,"method":"a"},7,{"id":-1.50,"method":"b","params":["x"]},{"id":99999999999999999999,"method":"c"}]"#
        );
        let others = r#"{"id":"polytrie-number-9"} {"id":"polytrie-number-"#;
        assert_eq!(ids.restore(others), others);
    }

    #[test]
    fn what_is_known_stays_untouched() {
        for id in ["0", "18446744073709551615", "\"-1\"", "\"\"", "null"] {
            let request = format!(r#"{{"id":{id},"method":"a"}}"#);
            assert_eq!(Ids::default().replace(request.as_bytes(), true), None, "{id}");
            let batch = format!("[{request}]");
            assert_eq!(Ids::default().replace(batch.as_bytes(), false), None, "{id}");
        }
        assert_eq!(Ids::default().replace(br#"{"method":"a"}"#, true), None);
        assert_eq!(Ids::default().replace(b"{", true), None);
    }

    #[test]
    fn what_is_no_id_makes_no_request() {
        for id in ["true", "[1]", "{}"] {
            let request = format!(r#"{{"id":{id},"method":"a"}}"#);
            let replaced = Ids::default().replace(request.as_bytes(), true).expect("it is");
            assert_eq!(replaced, br#"{"id":null}"#);
        }
    }
}
