//! Tarantool's binary protocol, as far as calls of stored procedures go.

use crate::connection::with;
use rmp::{decode, encode};

/// What it says to a new connection.
const GREETING: usize = 128;
/// A length as it is sent: a number that is always written in five bytes.
const LENGTH: usize = 5;

/// The fields of a request and of an answer.
const CODE: u8 = 0x00;
const SYNC: u8 = 0x01;
const ARGUMENTS: u8 = 0x21;
const NAME: u8 = 0x22;
const RETURNED: u8 = 0x30;

const CALL: u8 = 0x0a;
const OK: u32 = 0;

/// Calls a procedure; `arguments` writes the list of them, `read` reads the list of what it
/// returned. There is one call at a time on a connection.
pub fn call<R>(
    procedure: &str,
    arguments: impl FnOnce(&mut Vec<u8>),
    read: impl FnOnce(&mut &[u8]) -> R,
) -> R {
    with(|connection| {
        let out = &mut connection.out;
        encode::write_u32(out, 0).unwrap();
        encode::write_map_len(out, 2).unwrap();
        out.extend_from_slice(&[CODE, CALL, SYNC, 0]);
        encode::write_map_len(out, 2).unwrap();
        out.push(NAME);
        encode::write_str(out, procedure).unwrap();
        out.push(ARGUMENTS);
        arguments(out);
        let length = (out.len() - LENGTH) as u32;
        out[1..LENGTH].copy_from_slice(&length.to_be_bytes());
        connection.send();

        if !connection.greeted {
            connection.bytes(GREETING);
            connection.greeted = true;
        }
        let length: usize = decode::read_int(&mut &connection.bytes(LENGTH)[..]).unwrap();
        let answer = connection.bytes(length);
        read(&mut returned(&answer))
    })
}

/// The list of what a procedure returned.
fn returned(mut answer: &[u8]) -> &[u8] {
    let rest = &mut answer;
    for _ in 0..decode::read_map_len(rest).unwrap() {
        let field: u8 = decode::read_int(rest).unwrap();
        let value: u32 = decode::read_int(rest).unwrap();
        assert!(field != CODE || value == OK, "{}", String::from_utf8_lossy(rest));
    }
    assert_eq!(decode::read_map_len(rest).unwrap(), 1);
    assert_eq!(decode::read_int::<u8, _>(rest).unwrap(), RETURNED);
    rest
}
