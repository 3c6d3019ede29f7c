//! Powers in the `.ptau` files of snarkjs.
//!
//! ```text
//! "ptau" ‖ u32 version (1) ‖ u32 number of sections
//! section:   u32 type ‖ u64 length ‖ content              all little-endian
//!   1  u32 bytes of a coordinate (32) ‖ the modulus ‖ u32 power ‖ u32 power of the ceremony
//!   2  τ^i·G1 for i < 2·2^power - 1: x ‖ y, in Montgomery form
//!   3  τ^i·G2 for i < 2^power: x0 ‖ x1 ‖ y0 ‖ y1
//! ```
//!
//! Other sections are not needed here.

use super::{PowersError, PowersOfTau, check_height};
use crate::point::{from_montgomery, is_reduced};
use ark_bn254::{Fq, Fq2, G1Affine, G2Affine};
use ark_ec::AffineRepr;
use ark_ff::{BigInteger, PrimeField};
use polytrie_kv::{AtPath, KvError};
use rayon::prelude::*;
use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

const HEADER: u32 = 1;
const TAU_G1: u32 = 2;
const TAU_G2: u32 = 3;

/// The largest supported power: the field has roots of unity of order `2^28`.
const MAX_POWER: u32 = 28;

impl PowersOfTau {
    /// Reads the powers from a `.ptau` file and checks them. Only the needed points are read.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, does not have that form or curve, holds too few points, or the points are not
    /// powers of one number.
    pub fn read_ptau(height: u8, path: &Path) -> Result<Self, PowersError> {
        check_height(height)?;
        let mut file = PtauFile::open(path)?;
        let power = file.power()?;
        if power < u32::from(height) {
            let (found, needed) = (1 << power, 1 << height);
            return Err(PowersError::TooFew { path: path.into(), found, needed, height });
        }
        let bytes = file.read(TAU_G1, 0, 64 << height)?;
        let g1 = bytes
            .par_chunks_exact(64)
            .enumerate()
            .map(|(index, bytes)| file.point(index as u64, g1_point(bytes)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut g2 = Vec::new();
        for k in 0..height {
            let index = 1u64 << k;
            let bytes = file.read(TAU_G2, index * 128, 128)?;
            g2.push(file.point(index, g2_point(&bytes))?);
        }
        Self { height, g1, g2, tau: None }.check()
    }
}

/// A `.ptau` file with the positions of its sections.
struct PtauFile<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    /// The type, offset and length of each section.
    sections: Vec<(u32, u64, u64)>,
}

impl<'a> PtauFile<'a> {
    fn open(path: &'a Path) -> Result<Self, PowersError> {
        let file = File::open(path).at("read", path)?;
        let length = file.metadata().at("read", path)?.len();
        let mut found = Self { path, reader: BufReader::new(file), sections: Vec::new() };
        let mut magic = [0; 4];
        found.fill(&mut magic)?;
        if magic != *b"ptau" {
            return Err(found.wrong("it does not begin with `ptau`".into()));
        }
        let version = found.u32()?;
        if version != 1 {
            return Err(found.wrong(format!("its version is {version}, expected 1")));
        }
        let count = found.u32()?;
        let mut at = 12u64;
        for _ in 0..count {
            found.reader.seek(SeekFrom::Start(at)).at("read", path)?;
            let kind = found.u32()?;
            let mut size = [0; 8];
            found.fill(&mut size)?;
            let (start, size) = (at + 12, u64::from_le_bytes(size));
            at = start.checked_add(size).filter(|end| *end <= length).ok_or_else(|| {
                found.wrong(format!("section {kind} of {size} bytes goes beyond its end"))
            })?;
            found.sections.push((kind, start, size));
        }
        Ok(found)
    }

    /// Returns the binary logarithm of the number of powers, and checks the curve.
    fn power(&mut self) -> Result<u32, PowersError> {
        let header = self.read(HEADER, 0, 40)?;
        let modulus = Fq::MODULUS.to_bytes_le();
        if header[..4] != 32u32.to_le_bytes() || header[4..36] != modulus[..] {
            return Err(self.wrong("it is of another curve than BN254".into()));
        }
        let mut power = [0; 4];
        power.copy_from_slice(&header[36..]);
        let power = u32::from_le_bytes(power);
        let sizes = 1u64.checked_shl(power).filter(|_| power <= MAX_POWER);
        let sizes = sizes.map(|n| [(TAU_G1, (2 * n - 1) * 64), (TAU_G2, n * 128)]);
        for (kind, size) in sizes.into_iter().flatten() {
            if !self.sections.iter().any(|(found, _, length)| (*found, *length) == (kind, size)) {
                let reason = format!("section {kind} does not hold the powers up to 2^{power}");
                return Err(self.wrong(reason));
            }
        }
        if sizes.is_none() {
            return Err(self.wrong(format!("2^{power} powers are more than the field allows")));
        }
        Ok(power)
    }

    /// Reads `length` bytes of a section, from offset `from` on.
    fn read(&mut self, kind: u32, from: u64, length: usize) -> Result<Vec<u8>, PowersError> {
        let section = self.sections.iter().find(|(found, ..)| *found == kind);
        let Some((_, start, size)) = section.copied() else {
            return Err(self.wrong(format!("section {kind} is missing")));
        };
        if from + length as u64 > size {
            return Err(self.wrong(format!("section {kind} ends too soon")));
        }
        self.reader.seek(SeekFrom::Start(start + from)).at("read", self.path)?;
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, PowersError> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), PowersError> {
        self.reader.read_exact(bytes).map_err(|source| {
            if source.kind() == io::ErrorKind::UnexpectedEof {
                self.wrong("it ends too soon".into())
            } else {
                KvError::io("read", self.path, source).into()
            }
        })
    }

    fn point<T>(&self, index: u64, point: Option<T>) -> Result<T, PowersError> {
        point.ok_or_else(|| PowersError::Point { path: self.path.into(), index })
    }

    fn wrong(&self, reason: String) -> PowersError {
        PowersError::Format { path: self.path.into(), expected: "`.ptau` file", reason }
    }
}

fn coordinate(bytes: &[u8]) -> Option<Fq> {
    Some(from_montgomery(bytes.try_into().ok()?)).filter(is_reduced)
}

fn g1_point(bytes: &[u8]) -> Option<G1Affine> {
    let point = G1Affine::new_unchecked(coordinate(&bytes[..32])?, coordinate(&bytes[32..])?);
    (!point.is_zero() && point.is_on_curve()).then_some(point)
}

fn g2_point(bytes: &[u8]) -> Option<G2Affine> {
    let mut parts = bytes.chunks_exact(32).map(coordinate);
    let mut next = || parts.next().flatten();
    let point = G2Affine::new_unchecked(Fq2::new(next()?, next()?), Fq2::new(next()?, next()?));
    let good =
        !point.is_zero() && point.is_on_curve() && point.is_in_correct_subgroup_assuming_on_curve();
    good.then_some(point)
}
