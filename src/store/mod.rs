//! The only folder that names redb.

mod birth;
pub(crate) mod disk;
