//! Encoding: variable-length integers, and a reader that never trusts its input.

/// The bytes do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(crate) &'static str);

pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Zigzag: small numbers of either sign stay short.
pub(crate) fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put_varint(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

pub(crate) fn put_bytes(bytes: &mut Vec<u8>, value: &[u8]) {
    put_varint(bytes, value.len() as u64);
    bytes.extend_from_slice(value);
}

/// Takes values off the front of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Bytes left to read.
    pub(crate) const fn left(&self) -> usize {
        self.rest.len()
    }

    #[cfg(test)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, Corrupt> {
        let (first, rest) = self.rest.split_first().ok_or(Corrupt("cut short"))?;
        self.rest = rest;
        Ok(*first)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Corrupt> {
        match self.rest.split_first() {
            Some((first, rest)) if *first < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*first))
            }
            _ => self.long_varint(),
        }
    }

    /// Up to eight bytes at once: opening a store and reading a page are mostly this.
    fn long_varint(&mut self) -> Result<u64, Corrupt> {
        const LAST: u64 = 0x8080_8080_8080_8080;
        let word = u64::from_le_bytes(self.rest.first_chunk().copied().unwrap_or([0xff; 8]));
        let ends = !word & LAST;
        if ends == 0 {
            return self.bytewise_varint();
        }
        let length = ends.trailing_zeros() / 8 + 1;
        self.rest = self.rest.get(length as usize..).unwrap_or_default();
        let bits = word & (u64::MAX >> (64 - 8 * length)) & !LAST;
        let bits = (bits & 0x007f_007f_007f_007f) | ((bits & 0x7f00_7f00_7f00_7f00) >> 1);
        let bits = (bits & 0x0000_3fff_0000_3fff) | ((bits & 0x3fff_0000_3fff_0000) >> 2);
        Ok((bits & 0x0fff_ffff) | ((bits & 0x0fff_ffff_0000_0000) >> 4))
    }

    /// Near the end, or of more than eight bytes.
    fn bytewise_varint(&mut self) -> Result<u64, Corrupt> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Corrupt("number too long"))
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> Result<i64, Corrupt> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    #[inline]
    pub(crate) fn length(&mut self) -> Result<usize, Corrupt> {
        usize::try_from(self.varint()?).map_err(|_| Corrupt("length too large"))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Corrupt> {
        u32::try_from(self.varint()?).map_err(|_| Corrupt("number too large"))
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Corrupt("cut short"))?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        let length = self.length()?;
        self.take(length)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        self.take(N)?.try_into().map_err(|_| Corrupt("cut short"))
    }

    pub(crate) fn fixed_u32(&mut self) -> Result<u32, Corrupt> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn fixed_u64(&mut self) -> Result<u64, Corrupt> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn end(self) -> Result<(), Corrupt> {
        if self.rest.is_empty() { Ok(()) } else { Err(Corrupt("bytes left over")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_read_back(value: u64, signed: i64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            put_signed(&mut bytes, signed);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert_eq!(reader.signed(), Ok(signed));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn numbers_of_every_length_are_the_same_bytewise(value: u64, bits in 0..64u32, behind: Vec<u8>) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value >> bits);
            bytes.extend_from_slice(&behind);
            let (mut reader, mut bytewise) = (Reader::new(&bytes), Reader::new(&bytes));
            prop_assert_eq!(reader.varint(), Ok(value >> bits));
            prop_assert_eq!(bytewise.bytewise_varint(), Ok(value >> bits));
            prop_assert_eq!(reader.rest, behind.as_slice());
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let mut reader = Reader::new(&bytes);
            while reader.bytes().is_ok() && !reader.is_empty() {}
            let _ = reader.varint();
        }
    }
}
