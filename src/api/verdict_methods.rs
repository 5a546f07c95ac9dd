//! How the methods of a verdict are made of one line, so that no type that can settle a task lacks
//! one.

/// Makes a public method of each verdict for each of the types. A verdict that settles a task
/// consumes the guard, or borrows it inside a transaction; one that keeps the task takes a
/// reference. What can be read of a ticket can be read of the two guards. [`Lease`] and [`Task`]
/// have the docs that are written here, the two others refer to them.
macro_rules! verdicts {
    (
        settles { $(
            $(#[$settling:meta])*
            $settle:ident($($word:ident: $type:ty),*) => $settled:expr;
        )* }
        keeps { $(
            $(#[$keeping:meta])*
            $keep:ident($($length:ident: $span:ty),*) => $kept:expr;
        )* }
        reads { $(
            $(#[$reading:meta])*
            $read:ident() -> $found:ty;
        )* }
    ) => {
        impl Lease {
            $($(#[$settling])* pub fn $settle(self, $($word: $type),*) -> Result<()> {
                self.settle($settled)
            })*
            $($(#[$keeping])* pub fn $keep(&self, $($length: $span),*) -> Result<()> {
                self.active().settle($kept)
            })*
            $($(#[$reading])* pub fn $read(&self) -> $found {
                self.held.$read()
            })*
        }

        impl<T: ?Sized> Task<T> {
            $($(#[$settling])* pub fn $settle(self, $($word: $type),*) -> Result<()> {
                self.lease.settle($settled)
            })*
            $($(#[$keeping])* pub fn $keep(&self, $($length: $span),*) -> Result<()> {
                self.lease.active().settle($kept)
            })*
            $($(#[$reading])* pub fn $read(&self) -> $found {
                self.lease.held.$read()
            })*
        }

        impl TicketHandle {
            $(#[doc = as_of!($settle, ".")] pub fn $settle(self, $($word: $type),*) -> Result<()> {
                self.settle($settled)
            })*
            $(#[doc = as_of!($keep, ".")] pub fn $keep(&self, $($length: $span),*) -> Result<()> {
                self.settle($kept)
            })*
        }

        impl WithPayload<'_> {
            $(#[doc = as_of!($settle, ", and as [`WithPayload`] says.")]
            pub fn $settle(self, $($word: $type),*) -> Result<()> {
                self.settle($settled)
            })*
            $(#[doc = as_of!($keep, ", and as [`WithPayload`] says.")]
            pub fn $keep(self, $($length: $span),*) -> Result<()> {
                self.keep($kept)
            })*
        }

        impl WithPayloadIn<'_, '_> {
            $(#[doc = as_of!($settle, ", and as [`WithPayload`] says.")]
            pub fn $settle(self, $($word: $type),*) -> Result<()> {
                self.settle($settled)
            })*
        }

        impl Transaction<'_> {
            $(#[doc = as_of!(
                $settle,
                "; [`Invalid`](crate::ErrorKind::Invalid) if the task is of another queue."
            )]
            pub fn $settle(&self, task: &impl AsRef<Lease>, $($word: $type),*) -> Result<()> {
                self.settle(task, $settled)
            })*
        }
    };
}

/// Docs that refer to those of a verdict of [`Lease`].
macro_rules! as_of {
    ($verb:ident, $more:literal) => {
        concat!(
            as_of!(link $verb),
            ".\n\n# Errors\n",
            as_of!(link $verb),
            $more
        )
    };
    (link $verb:ident) => {
        concat!("As [`Lease::", stringify!($verb), "`](crate::Lease::", stringify!($verb), ")")
    };
}

pub(super) use {as_of, verdicts};
