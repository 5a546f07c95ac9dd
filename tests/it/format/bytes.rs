//! Numbers, texts and extension sections, taken one after another from bytes.

/// What was read, or what is wrong with it.
pub(crate) type Read<T> = Result<T, String>;

/// An error unless it holds.
pub(crate) fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Read<()> {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// A field of an extension section: its number and its content.
pub(crate) type Field = (u16, Vec<u8>);

/// The bytes that are left.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Read<&'a [u8]> {
        let missing = || format!("{length} bytes are due, and {} are left", self.0.len());
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(missing)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        Ok(self.take(N)?.try_into().unwrap())
    }

    pub(crate) fn u8(&mut self) -> Read<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Read<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Read<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Read<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Read<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(crate) fn id(&mut self) -> Read<[u8; 16]> {
        self.array()
    }

    pub(crate) fn string(&mut self, length: usize) -> Read<String> {
        String::from_utf8(self.take(length)?.to_vec()).map_err(|error| error.to_string())
    }

    /// A text with its length in one byte.
    pub(crate) fn short(&mut self) -> Read<String> {
        let length = self.u8()?;
        self.string(length.into())
    }

    /// A text with its length in two bytes.
    pub(crate) fn text(&mut self) -> Read<String> {
        let length = self.u16()?;
        self.string(length.into())
    }

    /// Flags of these bits and no others.
    pub(crate) fn flags(&mut self, known: u8) -> Read<u8> {
        let flags = self.u8()?;
        ensure(flags & !known == 0, || format!("flags {flags:#x}, and only {known:#x} are known"))?;
        Ok(flags)
    }

    /// The value if the bit is set.
    pub(crate) fn when<T>(
        &mut self,
        bit: bool,
        read: impl FnOnce(&mut Self) -> Read<T>,
    ) -> Read<Option<T>> {
        bit.then(|| read(self)).transpose()
    }

    /// An extension section.
    pub(crate) fn section(&mut self) -> Read<Vec<Field>> {
        let length = self.u16()?;
        let mut inner = Bytes(self.take(length.into())?);
        let mut fields: Vec<Field> = Vec::new();
        while !inner.0.is_empty() {
            let (number, length) = (inner.u16()?, inner.u16()?);
            let last = fields.last().map(|last| last.0);
            ensure(last < Some(number), || format!("field {number} after field {last:?}"))?;
            fields.push((number, inner.take(length.into())?.to_vec()));
        }
        Ok(fields)
    }

    /// Checks that nothing is left.
    pub(crate) fn end(&self) -> Read<()> {
        ensure(self.0.is_empty(), || format!("{} bytes are left over", self.0.len()))
    }
}
