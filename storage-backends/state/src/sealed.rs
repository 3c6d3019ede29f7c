//! Small files that describe a directory: readable JSON with a checksum, so that a changed digit is found and not
//! believed.

use alloy_primitives::{B256, keccak256};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::collections::BTreeMap;

/// The field that holds the checksum.
const CHECKSUM: &str = "checksum";

/// The fields of a file by name, so that neither their order nor white space matters.
type Fields = BTreeMap<String, Value>;

/// Encodes a value, which must be a JSON object, as the content of a file with a checksum.
///
/// # Errors
///
/// If the value is not an object.
pub fn seal(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut fields: Fields = serde_json::from_value(serde_json::to_value(value)?)?;
    let sum = checksum(&fields)?;
    fields.insert(CHECKSUM.to_owned(), serde_json::to_value(sum)?);
    let mut text = serde_json::to_vec_pretty(&fields)?;
    text.push(b'\n');
    Ok(text)
}

/// Decodes a file that [`seal`] made.
///
/// # Errors
///
/// A text that says what is wrong with the file.
pub fn unseal<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    let mut fields: Fields = serde_json::from_slice(text).map_err(|e| e.to_string())?;
    let sum = fields.remove(CHECKSUM).ok_or("it has no checksum")?;
    let expected = checksum(&fields).map_err(|e| e.to_string())?;
    if serde_json::from_value::<B256>(sum).ok() != Some(expected) {
        return Err(format!("its checksum should be {expected}: it was changed or is damaged"));
    }
    serde_json::from_value(fields.into_iter().collect()).map_err(|e| e.to_string())
}

fn checksum(fields: &Fields) -> serde_json::Result<B256> {
    serde_json::to_vec(fields).map(keccak256)
}
