//! Several tubes from which a take chooses, and whose turn it is. A set keeps in memory which of
//! its tubes may have something to take, so that a take does not look at all the empty ones. It
//! reads no row, and knows nothing of tasks but a priority.

use crate::words::sync::Arc;
use std::collections::{BTreeMap, BTreeSet, btree_set};
use std::iter::Peekable;

/// How a take chooses among the tubes of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// From the first that has a task.
    InOrder,
    /// One task from each in turn.
    RoundRobin,
    /// The same, in an order that each round draws from this number.
    Shuffled(u64),
    /// In turn, from each as often as its weight says.
    Weighted,
    /// The task of the best priority of all.
    ByPriority,
}

/// The step of a tube of weight 1; that of a greater weight is so many times smaller, rounded down.
/// It is exact for the divisors of this number, and within 0.2 % for every weight.
const SHARES: u64 = 720_720;

/// The order of the tubes of a set: that of a list, or that of the names where all places are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TubeOrder {
    pub(crate) place: u32,
    pub(crate) name: Arc<str>,
}

/// When it is the turn of a tube: the smallest is next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TubeTurn {
    /// A round; or, by priority, the best priority that the tube may have.
    at: u64,
    /// Its place in a shuffled round.
    drawn: u64,
    pub(crate) order: TubeOrder,
    pub(crate) tube: u32,
}

/// Tubes from which a take chooses.
pub(crate) struct TubeSet {
    choice: Choice,
    members: BTreeMap<u32, Member>,
    ordered: BTreeSet<(TubeOrder, u32)>,
    /// The turns of the tubes that may have something to take.
    ready: BTreeSet<TubeTurn>,
    /// The turn of the last take. A tube that had nothing comes in behind it: it does not catch up.
    last: Option<TubeTurn>,
}

struct Member {
    weight: u32,
    turn: TubeTurn,
    is_ready: bool,
}

/// What a take has seen of a set: the next turns of some tubes, and whether there may be more in
/// them.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) set: u32,
    turns: BTreeMap<u32, (TubeTurn, bool)>,
    /// The turn of the last task that it took.
    last: Option<TubeTurn>,
}

impl Choice {
    /// The turn at which a tube comes in that may have something to take again.
    fn enter(self, turn: &TubeTurn, last: Option<&TubeTurn>) -> TubeTurn {
        match (self, last) {
            (Self::InOrder | Self::ByPriority, _) => self.moved(turn, 0),
            (_, None) => self.moved(turn, turn.at),
            (_, Some(last)) => {
                let now = self.moved(turn, turn.at.max(last.at));
                if now > *last { now } else { self.moved(turn, last.at.saturating_add(1)) }
            }
        }
    }

    /// The turn after a take of a task of this priority.
    fn after(self, turn: &TubeTurn, weight: u32, priority: i64) -> TubeTurn {
        let at = match self {
            Self::InOrder => turn.at,
            Self::RoundRobin | Self::Shuffled(_) => turn.at.saturating_add(1),
            Self::Weighted => turn.at.saturating_add(SHARES / u64::from(weight.max(1))),
            Self::ByPriority => ordered(priority),
        };
        self.moved(turn, at)
    }

    fn moved(self, turn: &TubeTurn, at: u64) -> TubeTurn {
        let drawn = match self {
            Self::Shuffled(seed) => mixed(seed, at, turn.tube),
            _ => 0,
        };
        TubeTurn { at, drawn, ..turn.clone() }
    }
}

/// A priority as a number that orders like it.
fn ordered(priority: i64) -> u64 {
    priority as u64 ^ (1 << 63)
}

/// A number that looks drawn by chance.
fn mixed(seed: u64, round: u64, tube: u32) -> u64 {
    let mut mixed = seed ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= u64::from(tube).wrapping_mul(0xd6e8_feb8_6659_fd93);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(factor);
    }
    mixed ^ (mixed >> 31)
}

impl TubeSet {
    pub(crate) fn new(choice: Choice) -> Self {
        let (members, ordered, ready) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { choice, members, ordered, ready, last: None }
    }

    /// Adds a tube, which may have something to take. One that it has stays as it is.
    pub(crate) fn add(&mut self, tube: u32, order: TubeOrder, weight: u32) {
        if self.members.contains_key(&tube) {
            return;
        }
        self.ordered.insert((order.clone(), tube));
        let turn = TubeTurn { at: 0, drawn: 0, order, tube };
        self.members.insert(tube, Member { weight, turn, is_ready: false });
        self.wake(tube);
    }

    /// Removes a tube that was dropped.
    pub(crate) fn remove(&mut self, tube: u32) {
        if let Some(Member { turn, .. }) = self.members.remove(&tube) {
            self.ready.remove(&turn);
            self.ordered.remove(&(turn.order, tube));
        }
    }

    pub(crate) fn has(&self, tube: u32) -> bool {
        self.members.contains_key(&tube)
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The numbers of its tubes, from this one on.
    pub(crate) fn tubes_from(&self, first: u32) -> impl Iterator<Item = u32> {
        self.members.range(first..).map(|(tube, _)| *tube)
    }

    /// The first names of its tubes, in their order.
    pub(crate) fn names(&self, most: usize) -> Vec<String> {
        let first = self.ordered.iter().take(most);
        first.map(|(order, _)| String::from(&*order.name)).collect()
    }

    /// Something became takeable in this tube.
    pub(crate) fn wake(&mut self, tube: u32) {
        let Some(member) = self.members.get_mut(&tube) else { return };
        if member.is_ready {
            if self.choice != Choice::ByPriority {
                return;
            }
            // It may be better than all that was seen there.
            self.ready.remove(&member.turn);
        }
        member.is_ready = true;
        member.turn = self.choice.enter(&member.turn, self.last.as_ref());
        self.ready.insert(member.turn.clone());
    }

    /// Whose turn it is, again and again, for one take.
    pub(crate) fn turns(&self, number: u32) -> TubeTurns<'_> {
        let looked = Looked { set: number, turns: BTreeMap::new(), last: None };
        let ready = self.ready.iter().peekable();
        TubeTurns { set: self, ready, again: BTreeSet::new(), looked }
    }

    /// Follows a take that is committed.
    pub(crate) fn apply(&mut self, looked: Looked) {
        self.last = looked.last.or(self.last.take());
        for (tube, (turn, is_ready)) in looked.turns {
            let Some(member) = self.members.get_mut(&tube) else { continue };
            if member.is_ready {
                self.ready.remove(&member.turn);
            }
            if is_ready {
                self.ready.insert(turn.clone());
            }
            (member.turn, member.is_ready) = (turn, is_ready);
        }
    }
}

/// The turns of one take. The set follows when the take is committed.
pub(crate) struct TubeTurns<'a> {
    set: &'a TubeSet,
    ready: Peekable<btree_set::Iter<'a, TubeTurn>>,
    /// The later turns of the tubes that this take has looked at.
    again: BTreeSet<TubeTurn>,
    looked: Looked,
}

impl TubeTurns<'_> {
    fn peek(&mut self) -> Option<&TubeTurn> {
        self.ready.peek().copied().into_iter().chain(self.again.first()).min()
    }

    /// The next tube.
    pub(crate) fn next_turn(&mut self) -> Option<TubeTurn> {
        let next = self.peek()?.clone();
        if !self.again.remove(&next) {
            self.ready.next();
        }
        Some(next)
    }

    /// Whether there is another.
    pub(crate) fn has_next(&mut self) -> bool {
        self.peek().is_some()
    }

    /// The best task of the tube has this priority: whether the task of another tube comes first.
    /// Then the tube has another turn.
    pub(crate) fn comes_later(&mut self, turn: &TubeTurn, priority: i64) -> bool {
        if self.set.choice != Choice::ByPriority {
            return false;
        }
        let real = self.set.choice.moved(turn, ordered(priority));
        let is_later = self.peek().is_some_and(|next| *next < real);
        if is_later {
            self.put_back(real);
        }
        is_later
    }

    /// The tube has its turn again, later.
    pub(crate) fn put_back(&mut self, turn: TubeTurn) {
        self.looked.turns.insert(turn.tube, (turn.clone(), true));
        self.again.insert(turn);
    }

    /// A task of this priority was taken from the tube.
    pub(crate) fn serve(&mut self, turn: &TubeTurn, priority: i64) {
        self.looked.last = Some(turn.clone());
        let weight = self.set.members.get(&turn.tube).map_or(1, |member| member.weight);
        self.put_back(self.set.choice.after(turn, weight, priority));
    }

    /// There is nothing to take in the tube until something wakes it.
    pub(crate) fn pass(&mut self, turn: TubeTurn) {
        self.looked.turns.insert(turn.tube, (turn, false));
    }

    /// What the take has seen.
    pub(crate) fn seen(self) -> Looked {
        self.looked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(choice: Choice, tubes: u32) -> TubeSet {
        let mut set = TubeSet::new(choice);
        for tube in 0..tubes {
            set.add(tube, TubeOrder { place: tube, name: tube.to_string().into() }, 1);
        }
        set
    }

    /// One take of a task of priority 0. Returns the tube, and how many were looked at.
    fn take(set: &mut TubeSet, has: impl Fn(u32) -> bool) -> (Option<u32>, usize) {
        let (mut turns, mut looks) = (set.turns(0), 0);
        let taken = loop {
            let Some(turn) = turns.next_turn() else { break None };
            looks += 1;
            if has(turn.tube) {
                turns.serve(&turn, 0);
                break Some(turn.tube);
            }
            turns.pass(turn);
        };
        let seen = turns.seen();
        set.apply(seen);
        (taken, looks)
    }

    /// A take looks at each empty tube once, and then not before something wakes it.
    #[test]
    fn empty_tubes_are_not_looked_at_again() {
        let choices = [Choice::InOrder, Choice::RoundRobin, Choice::Shuffled(1), Choice::Weighted];
        for choice in choices.into_iter().chain([Choice::ByPriority]) {
            let mut set = set(choice, 1000);
            assert_eq!(take(&mut set, |_| false), (None, 1000));
            assert_eq!(take(&mut set, |_| false), (None, 0));
            (0..3).for_each(|_| set.wake(500));
            assert_eq!(take(&mut set, |tube| tube == 500), (Some(500), 1));
            assert_eq!(take(&mut set, |_| false), (None, 1));
            assert_eq!(take(&mut set, |_| true), (None, 0));
        }
    }

    /// What a take has seen changes nothing until it is committed.
    #[test]
    fn a_take_that_is_not_committed_moves_no_turn() {
        let mut set = set(Choice::RoundRobin, 3);
        let mut turns = set.turns(0);
        let turn = turns.next_turn().unwrap();
        turns.serve(&turn, 0);
        drop(turns.seen());
        let served: Vec<_> = (0..5).map(|_| take(&mut set, |_| true).0.unwrap()).collect();
        assert_eq!(served, [0, 1, 2, 0, 1]);
        set.remove(2);
        assert_eq!((take(&mut set, |_| true).0, set.len()), (Some(0), 2));
    }

    /// The best priority that a tube may have is looked at only where it may be better.
    #[test]
    fn by_priority_a_take_looks_at_those_that_may_be_better() {
        let mut set = set(Choice::ByPriority, 100);
        let mut best: Vec<i64> = (0..100).collect();
        let look = |set: &mut TubeSet, best: &mut Vec<i64>| {
            let (mut turns, mut looks) = (set.turns(0), 0);
            let taken = loop {
                let turn = turns.next_turn().unwrap();
                looks += 1;
                let priority = best[turn.tube as usize];
                if !turns.comes_later(&turn, priority) {
                    turns.serve(&turn, priority);
                    best[turn.tube as usize] += 1000;
                    break turn.tube;
                }
            };
            let seen = turns.seen();
            set.apply(seen);
            (taken, looks)
        };
        assert_eq!(look(&mut set, &mut best), (0, 101), "all once, and the best one again");
        for tube in 1..50 {
            let (taken, looks) = look(&mut set, &mut best);
            assert!(taken == tube && looks <= 2, "{taken}, {looks} looks");
        }
        best[99] = -1;
        set.wake(99);
        assert_eq!(look(&mut set, &mut best), (99, 1));
        assert_eq!(look(&mut set, &mut best).0, 50);
    }
}
