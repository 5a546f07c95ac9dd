//! The position of a task among the ready ones, as it is written into keys. It compares as bytes.

use crate::words::limits::ORDER_BYTES_MAX;

/// The order of a task among those of equal priority. All orders of one tube have one length, so
/// that they compare as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Its put number, big-endian.
    Number([u8; 8]),
    /// What a `Placement` made.
    Placed([u8; ORDER_BYTES_MAX]),
}

impl Order {
    /// In the middle of all numbers, so that a front put has room before it.
    const MIDDLE: u64 = 1 << 63;

    /// At the back: after everything that was put before `number` was drawn.
    pub(crate) fn back(number: u64) -> Self {
        Self::Number((Self::MIDDLE | number).to_be_bytes())
    }

    /// At the front: before everything that was put before `number` was drawn.
    pub(crate) fn front(number: u64) -> Self {
        Self::Number((Self::MIDDLE - 1 - (number & (Self::MIDDLE - 1))).to_be_bytes())
    }

    /// Before every order at the front, and after each one of this kind that was drawn before.
    /// Ids stay far below it, so it never meets an order at the front.
    fn ahead(number: u64) -> Self {
        Self::Number((number & (Self::MIDDLE / 2 - 1)).to_be_bytes())
    }

    /// By a `Placement`.
    pub(crate) fn placed(order: &[u8]) -> Option<Self> {
        let mut bytes = [0; ORDER_BYTES_MAX];
        bytes.get_mut(..order.len())?.copy_from_slice(order);
        Some(Self::Placed(bytes))
    }

    pub(crate) fn is_placed(&self) -> bool {
        matches!(self, Self::Placed(_))
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Number(number) => number,
            Self::Placed(order) => order,
        }
    }

    /// Reads an order back from its 8 or 16 bytes.
    #[inline]
    pub(crate) fn of_bytes(order: &[u8]) -> Option<Self> {
        match order.try_into() {
            Ok(number) => Some(Self::Number(number)),
            Err(_) => Some(Self::Placed(order.try_into().ok()?)),
        }
    }
}

/// Where the row that the put of a task wrote is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// The rank at which the task was put.
    pub(crate) rank: Rank,
    /// Whether the row is under `Tag::Fresh`.
    pub(crate) is_fresh: bool,
}

/// The position of a task among the ready ones: by priority, smaller first, then by order. Tasks of
/// one rank are in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) priority: i64,
    pub(crate) order: Order,
}

impl Rank {
    /// Whether it is ahead of every priority.
    pub(crate) fn is_ahead(&self) -> bool {
        self.priority == i64::MIN
    }

    /// Ahead of every priority. Of the tasks that are, the one that came there first is first. Only
    /// a placement can put a task of the first priority before it.
    pub(crate) fn ahead(self, number: u64) -> Self {
        let order = match self.order {
            Order::Number(_) => Order::ahead(number),
            Order::Placed(_) => {
                let mut order = [0; ORDER_BYTES_MAX];
                let (_, last) = order.split_at_mut(ORDER_BYTES_MAX - 8);
                last.copy_from_slice(&number.to_be_bytes());
                Order::Placed(order)
            }
        };
        Self { priority: i64::MIN, order }
    }
}
