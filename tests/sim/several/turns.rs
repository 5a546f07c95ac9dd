//! Whose turn it is among several tubes, by the documents: exactly, but for a shuffled round, whose
//! order is known only as far as it was seen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A tube that was made: which of the names it has, and which one of that name it is.
pub type Made = (usize, u64);
/// The order of the tubes of a handle: the place in a list, which is 0 in a prefix, then the name.
type Rank = (usize, Made);

/// A tube of which a task may be taken.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub rank: Rank,
    /// Of its best task: the smallest is the best of all tubes.
    pub priority: i64,
    pub weight: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    InOrder,
    RoundRobin,
    /// With this number.
    Shuffled(u64),
    Weighted,
    ByPriority,
}

/// What was seen of the first round of a number: the first of two tubes comes before the second. It
/// is so whenever the same number is given.
pub type Drawn = BTreeSet<(u64, Made, Made)>;

/// Whose turn it is at a handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    pub way: Way,
    /// The tube of the last take.
    last: Option<Rank>,
    shares: Shares,
    rounds: Rounds,
}

/// How much of its turns each tube has had, by weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shares {
    had: BTreeMap<Made, Share>,
    last: Share,
}

/// A part of the whole, in sixtieths, and how often the tube has come in behind another one there.
type Share = (u64, u64);

/// What may be known of a shuffled round.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rounds {
    /// Whose next turn is in the round after it: the tubes that have had theirs, and those that
    /// came in too late. It is not seen where a round begins and who was late, so that there may be
    /// several answers.
    served: BTreeSet<BTreeSet<Made>>,
    /// Those that had a task at the last take, and did not get the turn; none before the first.
    waiting: Option<BTreeSet<Made>>,
    /// In the first round: those that have had a task at each take, and no turn yet.
    first: BTreeSet<Made>,
}

impl Turns {
    pub fn new(way: Way) -> Self {
        let served = BTreeSet::from([BTreeSet::new()]);
        let rounds = Rounds { served, waiting: None, first: BTreeSet::new() };
        Self { way, last: None, shares: Shares::default(), rounds }
    }

    /// Gives one of these tubes its turn; in a shuffled round the one that has got it, if it may
    /// have it.
    pub fn serve(&mut self, offers: &[Offer], got: Option<Made>, drawn: &mut Drawn) -> Made {
        let by_rank = |offer: &&Offer| offer.rank;
        let next = match self.way {
            Way::InOrder => offers.iter().min_by_key(by_rank),
            Way::ByPriority => offers.iter().min_by_key(|offer| (offer.priority, offer.rank)),
            // Around from the last one.
            Way::RoundRobin => {
                offers.iter().min_by_key(|offer| (self.last >= Some(offer.rank), offer.rank))
            }
            Way::Weighted => {
                offers.iter().min_by_key(|offer| (self.shares.now(offer, self.last), offer.rank))
            }
            Way::Shuffled(number) => {
                return self.rounds.serve(number, offers, got, drawn);
            }
        };
        let next = next.expect("a tube has a task");
        if self.way == Way::Weighted {
            self.shares.serve(next, self.last);
        }
        self.last = Some(next.rank);
        next.rank.1
    }
}

impl Shares {
    /// A tube that has missed turns does not catch up: it comes in behind the last one.
    fn now(&self, offer: &Offer, last: Option<Rank>) -> Share {
        let had = self.had.get(&offer.rank.1).copied().unwrap_or_default().max(self.last);
        match (had, Some(offer.rank)) > (self.last, last) {
            true => had,
            false => (self.last.0, self.last.1 + 1),
        }
    }

    fn serve(&mut self, offer: &Offer, last: Option<Rank>) {
        self.last = self.now(offer, last);
        let (sixtieths, behind) = self.last;
        self.had.insert(offer.rank.1, (sixtieths + 60 / offer.weight, behind));
    }
}

impl Rounds {
    fn serve(
        &mut self,
        number: u64,
        offers: &[Offer],
        got: Option<Made>,
        drawn: &mut Drawn,
    ) -> Made {
        let tubes: BTreeSet<Made> = offers.iter().map(|offer| offer.rank.1).collect();
        let begins = self.waiting.is_none();
        if begins {
            self.first = tubes.clone();
        }
        self.first.retain(|tube| tubes.contains(tube));
        // The tube that has got it is tried first, then one that should have.
        let mut tries: Vec<Made> = tubes.iter().copied().collect();
        tries.sort_by_key(|tube| Reverse(Some(*tube) == got));
        for tube in tries {
            let mut served = self.after(tube, &tubes);
            let mut left = self.first.clone();
            left.remove(&tube);
            let is_drawn_later = |first: &Made| drawn.contains(&(number, *first, tube));
            if served.is_empty() || left.iter().any(is_drawn_later) {
                continue;
            }
            drawn.extend(left.iter().map(|other| (number, tube, *other)));
            let (mut waiting, before) = (tubes, self.waiting.take().unwrap_or_default());
            waiting.remove(&tube);
            for comes in waiting.difference(&before).filter(|_| !begins) {
                // Its place in this round may be behind, and then its turn is in the next one.
                let later = served.iter().map(|served| served | &BTreeSet::from([*comes]));
                let later: Vec<_> = later.collect();
                served.extend(later);
            }
            (self.served, self.waiting, self.first) = (served, Some(waiting), left);
            return tube;
        }
        panic!("no tube may have the turn: {self:?}, {offers:?}")
    }

    /// What may be the rounds after a turn of this tube; none if it may not have it.
    fn after(&self, tube: Made, tubes: &BTreeSet<Made>) -> BTreeSet<BTreeSet<Made>> {
        let mut after = BTreeSet::new();
        for served in &self.served {
            if !served.contains(&tube) {
                after.insert(served | &BTreeSet::from([tube]));
            }
            // Each tube that waited for its turn has had it, and another round begins.
            let mut waiting = self.waiting.iter().flatten().filter(|it| tubes.contains(it));
            if waiting.all(|waiting| served.contains(waiting)) {
                after.insert(BTreeSet::from([tube]));
            }
        }
        after
    }
}
