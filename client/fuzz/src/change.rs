//! Changes of JSON by the fuzzer's bytes. They are few, so that most of a valid file stays valid.

use alloy_primitives::{B256, hex, keccak256};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use serde_json::{Value, json};
use std::mem;

/// Most changes of one run.
const MOST: u8 = 4;
/// Most hashes that one change recomputes.
const MOST_HASHES: usize = 256;
/// Texts that replace others at places where they are not expected.
const TEXTS: [&str; 8] = [
    "",
    "0x",
    "0x0",
    "0x00",
    "0xffffffffffffffff",
    "0xffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "0x0000000000000000000000000000000000000000",
    "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421",
];

/// Changes a value in up to four places, with parts of `others`. Where the change hits bytes in hex, their hash is
/// replaced by the new one wherever it stands, then the hash of each text that contains it, and so on, so that the
/// first comparison of a hash does not reveal the change. Returns the replaced hashes with their replacements.
pub fn change(
    value: &mut Value,
    others: &[Value],
    bytes: &mut Unstructured<'_>,
) -> Result<Vec<(B256, B256)>> {
    let mut replaced = Vec::new();
    for _ in 0..bytes.int_in_range(0..=MOST)? {
        let place = bytes.choose_index(count(value))?;
        let Some(node) = nth(value, &mut { place }) else { break };
        if bytes.ratio(1, 8)? {
            *node = match others.is_empty() {
                false => any_part(bytes.choose(others)?, bytes)?,
                true => bytes
                    .choose(&[Value::Null, json!({}), json!([]), json!(true), json!("0x1")])?
                    .clone(),
            };
            continue;
        }
        match node {
            Value::String(text) => {
                let old = text.clone();
                change_text(text, bytes)?;
                let new = text.clone();
                give_hashes_anew(value, old, new, &mut replaced);
            }
            Value::Array(items) => change_list(items, bytes)?,
            Value::Object(fields) if !fields.is_empty() => {
                let index = bytes.choose_index(fields.len())?;
                let Some(mut name) = fields.keys().nth(index).cloned() else { continue };
                let field = fields.remove(&name).unwrap_or_default();
                if bytes.ratio(1, 2)? {
                    change_text(&mut name, bytes)?;
                    fields.insert(name, field);
                }
            }
            Value::Object(fields) => drop(fields.insert("0x1".to_owned(), json!("0x1"))),
            Value::Number(_) => {
                let number: i64 = bytes.arbitrary()?;
                *node = bytes
                    .choose(&[json!(number), json!(0), json!(-1), json!(u64::MAX), json!(1.5)])?
                    .clone();
            }
            Value::Null | Value::Bool(_) => *node = json!(bytes.arbitrary::<bool>()?),
        }
    }
    Ok(replaced)
}

fn any_part(of: &Value, bytes: &mut Unstructured<'_>) -> Result<Value> {
    let mut copy = of.clone();
    let place = bytes.choose_index(count(of))?;
    Ok(nth(&mut copy, &mut { place }).map(Value::take).unwrap_or_default())
}

fn change_list(items: &mut Vec<Value>, bytes: &mut Unstructured<'_>) -> Result<()> {
    if items.is_empty() {
        items.push(json!("0x"));
        return Ok(());
    }
    let (one, other) = (bytes.choose_index(items.len())?, bytes.choose_index(items.len())?);
    match bytes.int_in_range(0..=3)? {
        0 => drop(items.remove(one)),
        1 => items.insert(other, items[one].clone()),
        2 => items.swap(one, other),
        _ => items.truncate(one),
    }
    Ok(())
}

/// Changes hex digits of a text in pairs, so that it still holds whole bytes, or replaces the text by
/// one of [`TEXTS`].
fn change_text(text: &mut String, bytes: &mut Unstructured<'_>) -> Result<()> {
    if !text.is_ascii() || text.len() < 2 || bytes.ratio(1, 16)? {
        *text = (*bytes.choose(&TEXTS)?).to_owned();
        return Ok(());
    }
    let at = bytes.choose_index(text.len() / 2)? * 2;
    let end = (at + 2 * bytes.int_in_range(1..=4)?).min(text.len());
    let some: Vec<u8> =
        (0..bytes.int_in_range(1..=4)?).map(|_| bytes.arbitrary()).collect::<Result<_>>()?;
    match bytes.int_in_range(0..=5)? {
        0 => text.replace_range(at..end, ""),
        1 => text.insert_str(at, &hex::encode(some)),
        2 => {
            let part = text[at..end].to_owned();
            text.insert_str(at, &part);
        }
        3 => text.truncate(at),
        _ => text.replace_range(at..(at + 2 * some.len()).min(text.len()), &hex::encode(some)),
    }
    Ok(())
}

/// Replaces the hash of `old` by the hash of `new`, and does the same for every text that contained it.
fn give_hashes_anew(value: &mut Value, old: String, new: String, replaced: &mut Vec<(B256, B256)>) {
    let mut changed = vec![(old, new)];
    while let Some((old, new)) = changed.pop() {
        let (Ok(old), Ok(new)) = (hex::decode(&old), hex::decode(&new)) else { continue };
        let (from, to) = (keccak256(old), keccak256(new));
        if from == to || replaced.len() >= MOST_HASHES {
            continue;
        }
        replaced.push((from, to));
        let (from, to) = (hex::encode(from), hex::encode(to));
        each_text(value, &mut |text| {
            if text.contains(&from) {
                let with = text.replace(&from, &to);
                changed.push((mem::replace(text, with.clone()), with));
            }
        });
    }
}

fn each_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, visit)),
        Value::Object(fields) => fields.values_mut().for_each(|field| each_text(field, visit)),
        _ => {}
    }
}

/// The number of values: this one, and all values inside it.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The value with this number, in the order in which [`count`] counts.
fn nth<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|field| nth(field, left)),
        _ => None,
    }
}
