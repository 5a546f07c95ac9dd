//! Typed tubes over serde. The only file that names `bincode`.

use crate::api::codec::{BoxError, Codec};
use crate::api::tube::Tube;
use crate::words::limits::PAYLOAD_BYTES_MAX;
use bincode::config::{self, Configuration, Limit, LittleEndian, Varint};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The default codec: every type with serde, in bincode's standard form. Decoding has a size limit,
/// and bytes left over are an error.
///
/// The form has no field names: fields are identified by their order. After a change of the type,
/// use a codec with another [`VERSION`](Codec::VERSION), or a tube of another name.
#[derive(Clone, Copy, Debug)]
pub struct Bincode;

type Form = Configuration<LittleEndian, Varint, Limit<PAYLOAD_BYTES_MAX>>;

fn form() -> Form {
    config::standard().with_limit()
}

impl<T: Serialize + DeserializeOwned> Codec<T> for Bincode {
    const ID: u8 = 1;
    const VERSION: u16 = 0;

    fn encode(value: &T, out: &mut Vec<u8>) -> Result<(), BoxError> {
        bincode::serde::encode_into_std_write(value, out, form())?;
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<T, BoxError> {
        let (value, read) = bincode::serde::decode_from_slice(bytes, form())?;
        match bytes.len() - read {
            0 => Ok(value),
            over => Err(format!("{over} bytes are left over").into()),
        }
    }
}

impl<T: ?Sized> Tube<T> {
    /// The tube for values of a type, through [`Bincode`]. The tasks are the same: this handle
    /// encodes what it puts and decodes what it takes.
    ///
    /// ```
    /// use serde::{Deserialize, Serialize};
    /// use tubewell::Queue;
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Mail {
    ///     to: String,
    /// }
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let mail = Queue::in_memory()?.tube("mail")?.typed::<Mail>();
    /// mail.put(&Mail { to: "ada@example.org".into() })?;
    /// let task = mail.take()?;
    /// assert_eq!(task.to, "ada@example.org");
    /// task.ack()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn typed<U: Serialize + DeserializeOwned>(&self) -> Tube<U> {
        self.with_codec::<U, Bincode>()
    }
}
