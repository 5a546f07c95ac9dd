//! How values become payloads and payloads become values. Every task stores the number and the
//! version of the codec that wrote its payload.

use crate::engine::payload::Payload;
use crate::words::error::{Error, ErrorKind};
use std::error::Error as StdError;

/// Any error of a codec.
pub type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// Turns values of one type into bytes and back, for
/// [`Tube::with_codec`](crate::Tube::with_codec).
///
/// ```
/// use tubewell::{Codec, Queue};
///
/// struct Text;
///
/// impl Codec<String> for Text {
///     const ID: u8 = 64;
///     const VERSION: u16 = 1;
///
///     fn encode(value: &String, out: &mut Vec<u8>) -> Result<(), tubewell::BoxError> {
///         out.extend_from_slice(value.as_bytes());
///         Ok(())
///     }
///
///     fn decode(bytes: &[u8]) -> Result<String, tubewell::BoxError> {
///         Ok(std::str::from_utf8(bytes)?.to_owned())
///     }
/// }
///
/// # fn main() -> tubewell::Result<()> {
/// let lines = Queue::in_memory()?.tube("lines")?.with_codec::<String, Text>();
/// lines.put(&"one".to_owned())?;
/// assert_eq!(*lines.take()?, "one");
/// # Ok(())
/// # }
/// ```
pub trait Codec<T> {
    /// The codec's number, stored with every task. 0 means plain bytes and does not compile here.
    /// The library uses 1 to 63; an application chooses one from 64 on.
    ///
    /// ```compile_fail,E0080
    /// # use tubewell::{BoxError, Codec, Queue};
    /// struct Unit;
    ///
    /// impl Codec<()> for Unit {
    ///     const ID: u8 = 0; // with 64 this would compile
    ///     const VERSION: u16 = 1;
    /// #   fn encode(_: &(), _: &mut Vec<u8>) -> Result<(), BoxError> {
    /// #       Ok(())
    /// #   }
    /// #   fn decode(_: &[u8]) -> Result<(), BoxError> {
    /// #       Ok(())
    /// #   }
    /// }
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("units")?.with_codec::<(), Unit>();
    /// # Ok(())
    /// # }
    /// ```
    const ID: u8;

    /// The version of the encoding, stored with every task.
    const VERSION: u16;

    /// Appends the value's bytes to `out`.
    ///
    /// # Errors
    /// The put is refused with [`ErrorKind::Codec`](crate::ErrorKind::Codec); nothing is written.
    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), BoxError>;

    /// Decodes a value of the present version.
    ///
    /// # Errors
    /// The task is buried as [`Reason::Undecodable`](crate::Reason::Undecodable), and the next one
    /// is taken.
    fn decode(bytes: &[u8]) -> Result<T, BoxError>;

    /// Decodes a value that another version wrote.
    ///
    /// # Errors
    /// As [`decode`](Codec::decode). The default implementation refuses every other version.
    fn decode_version(version: u16, bytes: &[u8]) -> Result<T, BoxError> {
        let _ = bytes;
        Err(format!("written in version {version}, this is version {}", Self::VERSION).into())
    }
}

type Encode<T> = for<'a> fn(&'a T, &'a mut Vec<u8>) -> Result<&'a [u8], BoxError>;
/// Consumes the payload: bytes that were put together from pieces are not copied again.
type Decode<T> = fn(u8, u16, Payload) -> Result<Box<T>, BoxError>;

/// The refusal of a value that its codec does not encode.
pub(super) fn not_encoded(cause: BoxError) -> Error {
    Error::new(ErrorKind::Codec).caused_by(cause)
}

/// A codec as a value, so that one `Tube` serves bytes and every type.
pub(crate) struct Coding<T: ?Sized> {
    pub(crate) codec: u8,
    pub(crate) version: u16,
    /// Returns the bytes: of a value that is bytes, the value itself.
    pub(crate) encode: Encode<T>,
    pub(crate) decode: Decode<T>,
}

impl<T: ?Sized> Clone for Coding<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Coding<T> {}

impl Coding<[u8]> {
    /// Bytes unchanged. Decoding accepts the payload of any codec.
    pub(crate) const BYTES: Self = Self {
        codec: 0,
        version: 0,
        encode: |bytes, _| Ok(bytes),
        decode: |_, _, payload| Ok(payload.into_bytes()),
    };
}

impl<T> Coding<T> {
    pub(crate) const fn of<C: Codec<T>>() -> Self {
        const { assert!(C::ID != 0, "codec id 0 means plain bytes") };
        Self { codec: C::ID, version: C::VERSION, encode: encode::<T, C>, decode: decode::<T, C> }
    }
}

fn encode<'a, T, C: Codec<T>>(value: &'a T, out: &'a mut Vec<u8>) -> Result<&'a [u8], BoxError> {
    C::encode(value, out)?;
    Ok(out)
}

fn decode<T, C: Codec<T>>(codec: u8, version: u16, payload: Payload) -> Result<Box<T>, BoxError> {
    if codec == 0 {
        return Err("it was put as plain bytes".into());
    }
    if codec != C::ID {
        return Err(format!("written by codec {codec}, this is codec {}", C::ID).into());
    }
    let value = match version == C::VERSION {
        true => C::decode(&payload)?,
        false => C::decode_version(version, &payload)?,
    };
    Ok(Box::new(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a take of 16 MiB had the payload in memory three times.
    #[test]
    fn bytes_that_were_put_together_from_pieces_are_not_copied() {
        let payload = vec![7; 1 << 20];
        let at = payload.as_ptr();
        let decoded = (Coding::BYTES.decode)(0, 0, Payload::Whole(payload)).unwrap();
        assert_eq!((decoded.as_ptr(), decoded.len()), (at, 1 << 20));
    }
}
