//! Methods that many types have and that differ in names only, each spelled once.

/// Methods that set one field and return the rest as it is.
macro_rules! setters {
    ([$($generics:tt)*] $type:ty; $(
        $(#[$meta:meta])*
        $name:ident($($arg:ident: $kind:ty)?) => $($field:ident).+ = $value:expr;
    )*) => {
        impl<$($generics)*> $type {$(
            $(#[$meta])*
            pub fn $name(mut self $(, $arg: $kind)?) -> Self {
                self.$($field).+ = $value;
                self
            }
        )*}
    };
}

/// Methods that return a field that is copied.
macro_rules! getters {
    ($type:ty; $($(#[$meta:meta])* $name:ident() -> $kind:ty => $($field:tt).+;)*) => {
        impl $type {$(
            $(#[$meta])*
            pub fn $name(&self) -> $kind {
                self.$($field).+
            }
        )*}
    };
}

/// A `Debug` that shows a few fields of a type and says that there are more.
macro_rules! debug {
    ([$($generics:tt)*] $type:ty, $name:literal, $this:ident $(, $field:literal: $value:expr)*) => {
        impl<$($generics)*> std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $this = self;
                f.debug_struct($name)$(.field($field, $value))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use {debug, getters, setters};
