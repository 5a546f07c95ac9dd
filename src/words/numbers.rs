//! A pair of sequences of numbers: task ids and lease tokens.

/// One number of each sequence, or one count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) ids: u64,
    pub(crate) tokens: u64,
}

impl Numbers {
    /// The first number of both sequences.
    pub(crate) const FIRST: Self = Self::both(1);

    pub(crate) const fn both(number: u64) -> Self {
        Self { ids: number, tokens: number }
    }

    pub(crate) const fn of_ids(count: u64) -> Self {
        Self { ids: count, tokens: 0 }
    }

    pub(crate) const fn of_tokens(count: u64) -> Self {
        Self { ids: 0, tokens: count }
    }

    #[inline]
    pub(crate) fn plus(self, other: Self) -> Self {
        let ids = self.ids.saturating_add(other.ids);
        Self { ids, tokens: self.tokens.saturating_add(other.tokens) }
    }

    #[inline]
    pub(crate) fn less(self, other: Self) -> Self {
        let ids = self.ids.saturating_sub(other.ids);
        Self { ids, tokens: self.tokens.saturating_sub(other.tokens) }
    }

    #[inline]
    pub(crate) fn max(self, other: Self) -> Self {
        Self { ids: self.ids.max(other.ids), tokens: self.tokens.max(other.tokens) }
    }

    /// Whether both counts are at least those of `need`.
    #[inline]
    pub(crate) fn covers(self, need: Self) -> bool {
        self.ids >= need.ids && self.tokens >= need.tokens
    }
}
