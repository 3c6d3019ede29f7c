//! Decoding of Solidity's `console.log` messages into text.

use alloy_dyn_abi::{DynSolType, DynSolValue};
use alloy_primitives::{Bytes, I256, U256, keccak256};
use std::{collections::HashMap, fmt::Write, sync::LazyLock};

/// Returns the lines of a message. Data in none of the forms of Solidity's libraries is shown as UTF-8 text,
/// else in hex.
pub(crate) fn lines(data: &[u8]) -> Vec<String> {
    let text = match decode(data) {
        Some(values) => join(&values),
        None => match std::str::from_utf8(data) {
            Ok(text) if !text.is_empty() => text.to_owned(),
            _ => Bytes::copy_from_slice(data).to_string(),
        },
    };
    text.split('\n').map(printable).collect()
}

/// Returns a text in which characters that control a terminal or the text direction are escaped.
pub(crate) fn printable(text: &str) -> String {
    let escape = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match escape(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// The parameter types of a message by its selector: up to four values of four types each, and some forms with one
/// value. Older libraries hashed `uint` and `int` where the ABI has `uint256` and `int256`.
static FORMS: LazyLock<HashMap<[u8; 4], DynSolType>> = LazyLock::new(|| {
    let types = [
        ("uint256", DynSolType::Uint(256)),
        ("uint", DynSolType::Uint(256)),
        ("string", DynSolType::String),
        ("bool", DynSolType::Bool),
        ("address", DynSolType::Address),
    ];
    let mut forms = HashMap::new();
    let mut add = |name: &str, types: Vec<DynSolType>| {
        let hash = keccak256(format!("log({name})"));
        forms.insert([hash[0], hash[1], hash[2], hash[3]], DynSolType::Tuple(types));
    };
    let mut rows = vec![(String::new(), Vec::new())];
    for _ in 0..=4 {
        let mut longer = Vec::new();
        for (names, row) in rows {
            for (name, kind) in &types {
                let comma = if row.is_empty() { "" } else { "," };
                let mut row: Vec<_> = row.clone();
                row.push(kind.clone());
                longer.push((format!("{names}{comma}{name}"), row));
            }
            add(&names, row);
        }
        rows = longer;
    }
    add("int256", vec![DynSolType::Int(256)]);
    add("int", vec![DynSolType::Int(256)]);
    add("bytes", vec![DynSolType::Bytes]);
    for size in 1..=32 {
        add(&format!("bytes{size}"), vec![DynSolType::FixedBytes(size)]);
    }
    forms
});

fn decode(data: &[u8]) -> Option<Vec<DynSolValue>> {
    let (selector, body) = data.split_first_chunk::<4>()?;
    match FORMS.get(selector)? {
        DynSolType::Tuple(types) if types.is_empty() => Some(Vec::new()),
        form => match form.abi_decode_params(body).ok()? {
            DynSolValue::Tuple(values) => Some(values),
            _ => None,
        },
    }
}

/// Joins the values into one text. A first text with placeholders like `%s` takes the values in their places; the
/// remaining values follow it.
fn join(values: &[DynSolValue]) -> String {
    let mut values = values.iter();
    let mut text = String::new();
    match values.next() {
        None => return text,
        Some(DynSolValue::String(form)) if form.contains('%') => {
            let mut rest = form.as_str();
            while let Some((before, after)) = rest.split_once('%') {
                text.push_str(before);
                let mut kinds = after.chars();
                let kind = kinds.next();
                let value = match kind {
                    Some('%') => {
                        text.push('%');
                        rest = kinds.as_str();
                        continue;
                    }
                    Some('s' | 'd' | 'i' | 'o' | 'x') => values.next(),
                    _ => None,
                };
                match (value, kind) {
                    (Some(DynSolValue::Uint(number, _)), Some('x')) => {
                        // Writing to a `String` cannot fail.
                        let _ = write!(text, "{number:#x}");
                    }
                    (Some(value), _) => text.push_str(&shown(value)),
                    (None, _) => {
                        text.push('%');
                        rest = after;
                        continue;
                    }
                }
                rest = kinds.as_str();
            }
            text.push_str(rest);
        }
        Some(first) => text = shown(first),
    }
    for value in values {
        text.push(' ');
        text.push_str(&shown(value));
    }
    text
}

fn shown(value: &DynSolValue) -> String {
    match value {
        DynSolValue::String(text) => text.clone(),
        DynSolValue::Bool(value) => value.to_string(),
        DynSolValue::Address(address) => address.to_string(),
        DynSolValue::Uint(number, _) => U256::to_string(number),
        DynSolValue::Int(number, _) => I256::to_string(number),
        DynSolValue::Bytes(bytes) => Bytes::copy_from_slice(bytes).to_string(),
        DynSolValue::FixedBytes(word, size) => Bytes::copy_from_slice(&word[..*size]).to_string(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::Address;

    fn message(form: &str, values: Vec<DynSolValue>) -> Vec<u8> {
        let mut data = keccak256(form)[..4].to_vec();
        data.extend(DynSolValue::Tuple(values).abi_encode_params());
        data
    }

    fn text(text: &str) -> DynSolValue {
        DynSolValue::String(text.to_owned())
    }

    #[test]
    fn messages_are_put_into_words() {
        let number = |number: u64| DynSolValue::Uint(U256::from(number), 256);
        let found = |form: &str, values| lines(&message(form, values)).join("|");
        assert_eq!(found("log(string)", vec![text("hello")]), "hello");
        assert_eq!(found("log(string,uint256)", vec![text("a"), number(7)]), "a 7");
        assert_eq!(found("log(string,uint)", vec![text("old"), number(7)]), "old 7");
        assert_eq!(
            found(
                "log(string,uint256,address,bool)",
                vec![
                    text("%d of %s"),
                    number(7),
                    DynSolValue::Address(Address::ZERO),
                    DynSolValue::Bool(true)
                ]
            ),
            "7 of 0x0000000000000000000000000000000000000000 true"
        );
        assert_eq!(found("log(string,string)", vec![text("100 %"), text("b")]), "100 % b");
        assert_eq!(found("log(string,string)", vec![text("5%% %s"), text("b")]), "5% b");
        assert_eq!(found("log(int256)", vec![DynSolValue::Int(I256::MINUS_ONE, 256)]), "-1");
        assert_eq!(
            found("log(bytes2)", vec![DynSolValue::FixedBytes(keccak256("").0.into(), 2)]),
            "0xc5d2"
        );
        assert_eq!(found("log()", vec![]), "");
        assert_eq!(found("log(string)", vec![text("two\nlines\u{1b}[2J")]), "two|lines\\u{1b}[2J");
    }

    #[test]
    fn what_is_no_message_is_shown_as_it_is() {
        assert_eq!(lines(&[1, 2, 3, 255]), ["0x010203ff"]);
        assert_eq!(lines(b""), ["0x"]);
        let broken = &message("log(string)", vec![text("hello")])[..40];
        assert_eq!(lines(broken).len(), 1);
    }
}
