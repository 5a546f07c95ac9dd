//! How durable a call is when it returns. Names the levels, and syncs nothing.

/// When a call that changes something returns, and so what a power cut can undo. The kill of a
/// process undoes nothing that returned, at either level.
///
/// Set for the queue by [`Builder::durability`](crate::Builder::durability), for one handle by
/// [`Tube::durability`](crate::Tube::durability) and for one put by
/// [`NewTask::durability`](crate::NewTask::durability).
///
/// Take, touch, renew, release and the drop of a guard return as soon as they are written, at
/// either level. A power cut can undo them; the task is then where it was before, and its attempt
/// is not counted. A release with other terms, such as a delay, follows this setting. A
/// [`transact`](crate::Queue::transact) is synced at either level. A temporary tube writes no task
/// to the disk.
///
/// With the feature `serde` it can be serialised: as `durable` or `relaxed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Durability {
    /// Returns when its writes, and all writes that it has read, are synced. The default.
    #[default]
    Durable,
    /// Returns when its writes are handed to the operating system. A power cut undoes at most the
    /// writes of the last `flush_interval` plus one sync, always the newest ones.
    Relaxed,
}
