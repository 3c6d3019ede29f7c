//! The answers of a node in JSON, of which the fields of headers are kept. A text can hold much else: all transactions of a
//! block, or what takes many times its length in memory.

use serde::de::{
    Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
    value::MapAccessDeserializer,
};
use serde_json::{Map, Value};
use std::fmt;

/// Most fields of an answer that are kept; a block has half as many.
const MOST_FIELDS: usize = 64;

/// An answer: the fields that are a text, a number or the like.
#[derive(Debug)]
pub(crate) struct Answer(pub(crate) Map<String, Value>);

/// Reads JSON with an answer, or an array of them, each a whole answer of JSON-RPC or its result. Calls `add` with each, until
/// it returns `false`; what comes after that is not read.
///
/// # Errors
///
/// If the text is not JSON of this form.
pub(crate) fn read_answers(
    text: &[u8],
    add: &mut dyn FnMut(Answer) -> bool,
) -> Result<(), serde_json::Error> {
    let mut is_ended = false;
    let mut add = |answer| {
        is_ended = !add(answer);
        !is_ended
    };
    let mut json = serde_json::Deserializer::from_slice(text);
    let read = json.deserialize_any(Answers { add: &mut add });
    let read = read.and_then(|()| json.end());
    if is_ended { Ok(()) } else { read }
}

/// The visitor of one or more answers.
struct Answers<'a> {
    add: &'a mut dyn FnMut(Answer) -> bool,
}

impl<'de> Visitor<'de> for Answers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer of a node, or an array of them")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut answers: A) -> Result<(), A::Error> {
        while let Some(answer) = answers.next_element::<Answer>()? {
            if !(self.add)(answer) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<(), A::Error> {
        let answer = Answer::deserialize(MapAccessDeserializer::new(fields))?;
        (self.add)(answer);
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

/// The visitor of the fields of an answer.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Answer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer of a node")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Answer, A::Error> {
        let (mut kept, mut result) = (Map::new(), None);
        while let Some(name) = fields.next_key::<String>()? {
            if name == "result" {
                result = Some(fields.next_value::<Answer>()?);
                continue;
            }
            if let Field(Some(value)) = fields.next_value::<Field>()? {
                kept.insert(name, value);
            }
            if kept.len() > MOST_FIELDS {
                return Err(A::Error::custom(format!("it has more than {MOST_FIELDS} fields")));
            }
        }
        Ok(result.unwrap_or(Answer(kept)))
    }
}

/// The value of a field; `None` if it is an array or an object.
struct Field(Option<Value>);

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value of a field")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Field, E> {
        Ok(Field(Some(Value::from(value))))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Field, E> {
        Ok(Field(Some(Value::from(value))))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Field, E> {
        Ok(Field(Some(Value::from(value))))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Field, E> {
        Ok(Field(Some(Value::from(value))))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Field, E> {
        Ok(Field(Some(Value::from(value))))
    }

    fn visit_unit<E: Error>(self) -> Result<Field, E> {
        Ok(Field(Some(Value::Null)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Field, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Field, A::Error> {
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Field(None))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Vec<Value>, serde_json::Error> {
        let mut found = Vec::new();
        read_answers(text.as_bytes(), &mut |answer| {
            found.push(Value::Object(answer.0));
            true
        })?;
        Ok(found)
    }

    #[test]
    fn arrays_and_objects_within_an_answer_are_left_out() {
        let block = json!({ "number": "0x1", "size": 7, "nonce": null, "transactions": [{ "a": [[]] }], "x": {} });
        let kept = json!({ "number": "0x1", "size": 7, "nonce": null });
        assert_eq!(read(&block.to_string()).unwrap(), std::slice::from_ref(&kept));
        let whole = json!([{ "jsonrpc": "2.0", "id": 1, "result": block }, block]);
        assert_eq!(read(&whole.to_string()).unwrap(), [kept.clone(), kept]);
        assert!(read("[]").unwrap().is_empty());
    }

    /// What is no answer ends the reading. Kept as values it would take many times its length.
    #[test]
    fn what_is_no_answer_is_not_read_on() {
        for (text, words) in [
            ("[0, and no more JSON", "invalid type: integer `0`, expected an answer of a node"),
            ("[[], and no more JSON", "invalid type: sequence"),
            ("{} {}", "trailing characters"),
            ("\"0x1\"", "an answer of a node, or an array of them"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let fields: Map<_, _> = (0..=MOST_FIELDS).map(|n| (n.to_string(), Value::Null)).collect();
        let error = read(&Value::Object(fields).to_string()).unwrap_err().to_string();
        assert!(error.contains("more than 64 fields"), "{error}");
        let mut answers = 0;
        let ended = read_answers(b"[{}, {}, and no more JSON", &mut |_| {
            answers += 1;
            answers < 2
        });
        assert!(ended.is_ok() && answers == 2, "{ended:?}");
    }
}
