//! An application's own codec, which needs no feature of the crate.

use crate::{counts, kind, lone};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tubewell::{BoxError, Codec, ErrorKind, ManualClock, Result, Tube};

/// Text without exclamation marks; the second version of the codec.
struct Calm;

impl Codec<String> for Calm {
    const ID: u8 = 64;
    const VERSION: u16 = 2;

    fn encode(value: &String, out: &mut Vec<u8>) -> Result<(), BoxError> {
        if value.to_uppercase() == *value {
            return Err("it shouts".into());
        }
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<String, BoxError> {
        Ok(String::from_utf8(bytes.to_vec())?)
    }

    fn decode_version(version: u16, bytes: &[u8]) -> Result<String, BoxError> {
        match version {
            1 => Ok(format!("old: {}", Self::decode(bytes)?)),
            other => Err(format!("version {other}").into()),
        }
    }
}

/// The first version of `Calm`.
struct Old<const VERSION: u16>;

impl<const VERSION: u16> Codec<String> for Old<VERSION> {
    const ID: u8 = 64;
    const VERSION: u16 = VERSION;

    fn encode(value: &String, out: &mut Vec<u8>) -> Result<(), BoxError> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<String, BoxError> {
        Ok(String::from_utf8(bytes.to_vec())?)
    }
}

#[test]
fn a_value_that_does_not_encode_is_refused() {
    let (bytes, _) = lone();
    let tube = bytes.with_codec::<String, Calm>();
    let refused = tube.put(&"HELLO".to_owned()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Codec);
    assert!(refused.to_string().contains("it shouts"), "{refused}");
    assert_eq!(kind(tube.put_many(["hello".to_owned(), "HELLO".to_owned()])), ErrorKind::Codec);
    assert_eq!(bytes.len().unwrap(), 0);
}

#[test]
fn a_codec_reads_the_versions_that_it_knows() {
    let (bytes, _) = lone();
    bytes.with_codec::<String, Old<1>>().put(&"one".to_owned()).unwrap();
    bytes.with_codec::<String, Old<3>>().put(&"three".to_owned()).unwrap();
    let tube = bytes.with_codec::<String, Calm>();
    tube.put(&"two".to_owned()).unwrap();
    let tasks: Vec<_> = (0..2).map(|_| tube.take().unwrap()).collect();
    let values: Vec<String> = tasks.iter().map(|task| (**task).clone()).collect();
    assert_eq!(values, ["old: one", "two"].map(str::to_owned), "three was from the future");
    assert_eq!(counts(&bytes)[3], 1);
}

struct Fragile;

impl Codec<String> for Fragile {
    const ID: u8 = 64;
    const VERSION: u16 = 2;

    fn encode(value: &String, out: &mut Vec<u8>) -> Result<(), BoxError> {
        Calm::encode(value, out)
    }

    fn decode(bytes: &[u8]) -> Result<String, BoxError> {
        let text = Calm::decode(bytes)?;
        assert_ne!(text, "crack");
        Ok(text)
    }
}

/// Regression: the guards were made after the decoding. A codec that panicked left its task, and
/// all others of the delivery, taken without a guard.
#[test]
fn a_codec_that_panics_keeps_no_task() {
    let (bytes, _) = lone();
    let tube = bytes.with_codec::<String, Fragile>();
    tube.put_many(["fine", "crack", "good"].map(str::to_owned)).unwrap();
    type Take = fn(&Tube<String>) -> Result<()>;
    let takes: [Take; 2] = [
        |tube| tube.take_many(3).map(drop),
        |tube| {
            tube.take()?.ack()?;
            tube.take().map(drop)
        },
    ];
    for (take, left) in takes.into_iter().zip([3, 2]) {
        let broke = catch_unwind(AssertUnwindSafe(|| take(&tube)));
        assert!(broke.is_err());
        assert_eq!(counts(&bytes), [left, 0, 0, 0]);
    }
}

/// Regression: a codec that panicked in a batch counted an attempt of every task of it. One such
/// payload buried its neighbours as exhausted.
#[test]
fn a_codec_that_panics_counts_no_attempt_of_its_neighbours() {
    let (bytes, _) = lone();
    let tube = bytes.with_codec::<String, Fragile>();
    let ids = tube.put_many(["fine", "crack", "good"].map(str::to_owned)).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| tube.take_many(3))).is_err());
    let attempts =
        || -> Vec<u32> { ids.iter().map(|id| bytes.peek(*id).unwrap().attempts).collect() };
    assert_eq!(attempts(), [0, 1, 0]);
    drop(bytes.take_many(3).unwrap());
    assert_eq!(attempts(), [1, 2, 1], "those that the caller has seen count");
}

thread_local! {
    /// The clock that `Slow` moves, and the number of its calls.
    static CLOCK: RefCell<Option<(ManualClock, usize)>> = const { RefCell::new(None) };
}

/// Takes a tenth of a second to find that it cannot decode.
struct Slow;

impl Codec<String> for Slow {
    const ID: u8 = 64;
    const VERSION: u16 = 3;

    fn encode(value: &String, out: &mut Vec<u8>) -> Result<(), BoxError> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(_: &[u8]) -> Result<String, BoxError> {
        CLOCK.with_borrow_mut(|clock| {
            let (clock, asked) = clock.as_mut().unwrap();
            clock.advance(Duration::from_millis(100));
            *asked += 1;
        });
        Err("no".into())
    }
}

/// Regression: each undecodable task started the wait again: a take of 300 ms took 4.3 s.
#[test]
fn tasks_that_do_not_decode_do_not_make_a_wait_longer() {
    let (bytes, clock) = lone();
    let tube = bytes.with_codec::<String, Slow>();
    (0..100).for_each(|_| _ = tube.put(&"x".to_owned()).unwrap());
    CLOCK.set(Some((clock, 0)));
    assert!(tube.take_timeout(Duration::from_millis(300)).unwrap().is_none());
    assert_eq!(CLOCK.take().unwrap().1, 3);
    assert_eq!(counts(&bytes), [97, 0, 0, 3]);
}
