//! Makes scripts: random steps that collide. Few tubes, groups, keys and priorities, times around
//! the same instants, picks that prefer what was used last, and stale leases used again.

mod waits;

use crate::step::*;
use tubewell::{State, TubeKind};

/// splitmix64: small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub fn one_in(&mut self, odds: u64) -> bool {
        self.below(odds) == 0
    }

    pub fn of<T: Clone>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize].clone()
    }

    /// Small numbers more often than large ones.
    fn near(&mut self) -> u32 {
        let bound = self.of(&[1, 2, 4, 8, 40]);
        self.below(bound) as u32 | if self.one_in(4) { ANY } else { 0 }
    }
}

/// What a run may contain.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    pub steps: usize,
    /// The wall clock may stop and go back. Not where a reopening needs it.
    pub odd_clocks: bool,
    /// Random ends, drawn by the runner of the script.
    pub ends: bool,
    pub temporary: bool,
    /// Checkpoints are blocked during later steps, and the base is compacted.
    pub beside: bool,
    /// Calls wait, and callbacks are set.
    pub waits: bool,
}

impl Profile {
    pub const MEMORY: Self = Self {
        steps: 100,
        odd_clocks: true,
        ends: false,
        temporary: true,
        beside: false,
        waits: false,
    };
    pub const DISK: Self = Self {
        steps: 80,
        odd_clocks: false,
        ends: true,
        temporary: true,
        beside: true,
        waits: false,
    };
    /// Without a disk that fails: a call in the middle of a wait is not interrupted.
    pub const WAITS: Self = Self { waits: true, ..Self::MEMORY };
    pub const WAITS_ON_DISK: Self = Self { beside: false, waits: true, ..Self::DISK };
}

const SECOND: u64 = 1_000_000;
/// The lengths of time that all steps use.
const SPANS: [u64; 6] = [SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND, 5 * SECOND + 1, 60 * SECOND];
/// Entries and bytes of histories.
const HISTORIES: [(u32, u32); 5] = [(0, 4096), (2, 4096), (3, 4096), (100, 0), (100, 70)];
const KINDS: [TubeKind; 6] = [
    TubeKind::General,
    TubeKind::Fifo,
    TubeKind::FifoTtl,
    TubeKind::LimFifoTtl,
    TubeKind::Utube,
    TubeKind::UtubeTtl,
];

pub fn script(seed: u64, profile: Profile) -> Vec<Step> {
    let (rng, payloads) = (Rng::new(seed), Rng::new(!seed));
    let tunes = Rng::new(seed ^ 1 << 63);
    let uniques = Rng::new(seed ^ 7 << 60);
    let tags = Rng::new(seed ^ 1 << 62);
    let (tracks, several) = (Rng::new(seed ^ 1 << 61), Rng::new(seed ^ 1 << 60));
    let (pauses, batches) = (Rng::new(seed ^ 1 << 59), Rng::new(seed ^ 1 << 58));
    let conditions = Rng::new(seed ^ 1 << 57);
    let (throttles, gates) = (Rng::new(seed ^ 1 << 56), Rng::new(seed ^ 1 << 55));
    let (waits, made) = (Rng::new(seed ^ 1 << 54), [const { None }; 4]);
    let (moves, words) = (Rng::new(seed ^ 1 << 53), Rng::new(seed ^ 1 << 52));
    let kinds = [TubeKind::General; 4];
    let mut maker = Maker {
        rng,
        payloads,
        tunes,
        uniques,
        tags,
        tracks,
        several,
        pauses,
        batches,
        conditions,
        throttles,
        gates,
        waits,
        moves,
        words,
        made,
        profile,
        kinds,
    };
    // One to four tubes at the start; the rest are made later.
    let mut steps: Vec<_> = (0..=maker.rng.below(4) as u8).map(|tube| maker.create(tube)).collect();
    while steps.len() < profile.steps {
        let step = maker.step();
        steps.push(maker.bring(step));
        if maker.tunes.one_in(16) {
            steps.push(maker.tune());
        }
        if maker.tags.one_in(10) {
            steps.push(maker.tag());
        }
        if maker.words.one_in(30) {
            steps.push(maker.word());
        }
        if maker.moves.one_in(30) {
            steps.push(maker.move_one());
        }
        if maker.tracks.one_in(30) {
            steps.push(maker.track());
        }
        if maker.several.one_in(12) {
            let best = maker.several.one_in(2);
            let count = if maker.several.one_in(3) { 1 + maker.several.below(5) as u8 } else { 1 };
            steps.push(Step::TakeFrom { best, count });
        }
        if maker.pauses.one_in(60) {
            let tube = maker.pauses.of(&[0, 0, 0, 1, 1, 2, 3]);
            let length = maker.pauses.of(&[0, 1, SECOND, 3 * SECOND, 60 * SECOND, EVER]);
            steps.push(Step::PauseOut { tube, length });
        }
        if maker.conditions.one_in(20) {
            steps.push(maker.condition());
        }
        if maker.throttles.one_in(25) {
            steps.push(maker.throttle());
        }
        if maker.batches.one_in(25) {
            steps.push(maker.batch());
        }
        if profile.waits {
            steps.extend(maker.some_waits());
        }
        if maker.tunes.one_in(150) {
            steps.extend(maker.adoption());
        }
        if maker.rng.one_in(16) {
            steps.push(Step::Look);
        }
    }
    steps.push(Step::Look);
    steps
}

fn kept(rng: &mut Rng) -> Kept {
    Kept {
        age: rng.of(&[None, Some(SECOND), Some(5 * SECOND), Some(60 * SECOND)]),
        count: rng.of(&[None, None, Some(1), Some(3)]),
        bytes: rng.of(&[None, None, Some(1), Some(100), Some(10_000)]),
    }
}

struct Maker {
    rng: Rng,
    /// Which steps bring a payload.
    payloads: Rng,
    /// Which options are set between the steps.
    tunes: Rng,
    uniques: Rng,
    /// Which tasks are tagged.
    tags: Rng,
    /// Which tasks are tracked.
    tracks: Rng,
    /// When tasks are taken from several tubes.
    several: Rng,
    /// When a tube is paused and its leases end.
    pauses: Rng,
    /// When several tasks are put, and tubes without tasks are dropped.
    batches: Rng,
    /// Which conditions are required, and when they are set.
    conditions: Rng,
    /// Which tubes have the throttle, and when it is set.
    throttles: Rng,
    /// Which tasks have gates of their own.
    gates: Rng,
    /// Which calls wait, and which callbacks are set.
    waits: Rng,
    /// Which tasks are moved with other names and gates.
    moves: Rng,
    /// The books and details of tubes, and whether they drop payloads.
    words: Rng,
    /// The options of each tube, if calls wait.
    made: [Option<Opts>; 4],
    profile: Profile,
    /// The likely kind of each tube, so that refused options stay rare.
    kinds: [TubeKind; 4],
}

impl Maker {
    fn tube(&mut self) -> u8 {
        self.rng.of(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3])
    }

    fn span(&mut self) -> u64 {
        match self.rng.below(24) {
            0 => 0,
            1 => EVER,
            2 => 500 * 365 * 86_400 * SECOND,
            3 => 1,
            _ => self.rng.of(&SPANS),
        }
    }

    fn maybe_span(&mut self, odds: u64) -> Option<u64> {
        self.rng.one_in(odds).then(|| self.span())
    }

    fn waits(&mut self) -> Waits {
        let (once, steep) = ((SECOND, 1, 0, SECOND), (SECOND, 3, 0, 5 * SECOND));
        self.rng.of(&[(0, 1, 0, 0), once, steep, (SECOND, 1, SECOND, 3 * SECOND)])
    }

    fn priority(&mut self) -> i64 {
        self.rng.of(&[-1, 0, 0, 1, 1, i64::MIN, i64::MAX])
    }

    fn create(&mut self, tube: u8) -> Step {
        let kind = if self.rng.one_in(3) { self.rng.of(&KINDS) } else { TubeKind::General };
        let mut opts = Opts::plain(kind);
        let general = kind == TubeKind::General;
        let timed = !matches!(kind, TubeKind::Fifo | TubeKind::Utube);
        let grouped = matches!(kind, TubeKind::General | TubeKind::Utube | TubeKind::UtubeTtl);
        opts.temporary = self.profile.temporary && self.rng.one_in(8);
        if timed {
            let lived = [None, None, None, Some(5 * SECOND), Some(60 * SECOND)];
            (opts.ttl, opts.ttr) = (self.rng.of(&lived), self.rng.of(&lived));
            opts.spares = self.rng.one_in(4);
            opts.priority = self.rng.of(&[0, 0, 0, 1]);
            if general {
                let kept = [opts.backoff, self.waits()];
                opts.backoff = self.rng.of(&kept);
            }
            opts.higher = self.rng.one_in(6);
            if self.rng.one_in(3) {
                opts.grace = self.rng.of(&[0, SECOND, 3 * SECOND, 5 * SECOND, 60 * SECOND, EVER]);
                let after = To::After(self.span());
                opts.to = self.rng.of(&[To::Place, To::Front, To::Back, after]);
                opts.free = self.rng.one_in(2);
            }
        }
        if self.rng.one_in(3) {
            let in_queue = !opts.temporary && self.rng.one_in(2);
            let [taken, buried, done] = [4, 2, 2].map(|rare| !self.rng.one_in(rare));
            // Apart, so that the steps of older seeds are those that they were.
            let [delayed, ready] = [3, 3].map(|rare| !self.uniques.one_in(rare));
            // Keys that count in no state are refused.
            let ready = ready || !(delayed || taken || buried || done);
            opts.unique = Keys { in_queue, delayed, ready, taken, buried, done };
        }
        opts.max_attempts = self.rng.of(&[0, 1, 2, 3, opts.max_attempts]);
        if grouped {
            opts.in_flight = self.rng.of(&[1, 1, 1, 2]);
            opts.hold = self.rng.one_in(3);
        }
        if general && self.rng.one_in(4) || kind == TubeKind::LimFifoTtl {
            opts.capacity = Some(1 + self.rng.below(8));
        }
        opts.finished = self.rng.one_in(3).then(|| kept(&mut self.rng));
        // Without a draw, so that the steps after it are those that they were.
        (opts.drops, opts.kinds) = (tube % 2 == 1, !tube.is_multiple_of(3));
        opts.buried = self.rng.one_in(6).then(|| kept(&mut self.rng));
        if self.tunes.one_in(6) {
            opts.limit = self.tunes.of(&[1, 2, 5]);
        }
        if self.conditions.one_in(5) {
            opts.required = self.required();
        }
        opts.throttled = self.throttles.one_in(2);
        (opts.book, opts.detail) = (self.book(), self.detail());
        if self.tunes.one_in(4) {
            opts.history = self.tunes.of(&HISTORIES);
        }
        if self.profile.waits {
            self.make_narrow(&mut opts);
            self.made[usize::from(tube)] = Some(opts.clone());
        }
        self.kinds[usize::from(tube)] = kind;
        Step::Create { tube, opts, if_not_exists: self.rng.one_in(3) }
    }

    fn put(&mut self, tube: u8) -> Step {
        Step::Put { tube, new: self.new_task(tube) }
    }

    fn new_task(&mut self, tube: u8) -> New {
        let kind = self.kinds[usize::from(tube)];
        // Sometimes an option that the kind refuses.
        let slip = self.rng.one_in(40);
        let timed = slip || !matches!(kind, TubeKind::Fifo | TubeKind::Utube);
        let grouped =
            slip || matches!(kind, TubeKind::General | TubeKind::Utube | TubeKind::UtubeTtl);
        let mut new =
            New { front: self.rng.one_in(8), relaxed: self.rng.one_in(4), ..New::default() };
        if timed {
            new.priority = self.rng.one_in(2).then(|| self.priority());
            new.delay = self.maybe_span(4);
            if new.delay.is_none() && self.rng.one_in(8) {
                let by = self.rng.of(&SPANS) as i64;
                new.run_in = Some(self.rng.of(&[by, by, by, 0, -by]));
            }
            new.ttl = self.maybe_span(4);
            new.ttr = self.maybe_span(3);
            new.backoff = self.rng.one_in(16).then(|| self.waits());
        }
        new.max_attempts = self.rng.one_in(12).then(|| self.rng.of(&[0, 1, 2]));
        if grouped && self.rng.one_in(2) {
            new.group = Some(self.rng.of(&[0, 0, 1, 2, 3, 4, 5, 6]));
        }
        new.kind = self.rng.one_in(6).then(|| self.rng.below(3) as u8);
        new.book = self.rng.one_in(12).then(|| self.rng.below(3) as u8);
        new.detail =
            self.rng.one_in(10).then(|| (self.rng.below(2) as u8, self.rng.below(3) as u8));
        if self.rng.one_in(4) {
            new.key = Some(self.rng.below(3) as u8);
            new.conflict = self.rng.of(&[
                OnConflict::Keep,
                OnConflict::Reject,
                OnConflict::Replace,
                OnConflict::Replace,
                OnConflict::Debounce,
            ]);
            new.must_exist = self.rng.one_in(8);
        }
        if self.tags.one_in(5) {
            new.tags = self.some_tags();
        }
        if self.gates.one_in(6) {
            let required = self.gates.of(&[[true, false], [false, true], [true, true]]);
            new.gates = Some(match self.gates.below(3) {
                0 => ([false; 2], true),
                1 => (required, true),
                _ => (required, false),
            });
        }
        new
    }

    /// Several tasks in one step, or an end of a tube that has none.
    fn batch(&mut self) -> Step {
        let tube = self.batches.of(&[0, 0, 0, 0, 1, 1, 2, 3]);
        match self.batches.below(12) {
            0 => Step::DropEmpty { tube },
            1..4 => Step::PutAll { tube, count: self.batches.below(6) as u8 },
            _ => {
                // The draws of single puts stay those that they were.
                let (single, tags) = (self.rng.clone(), self.tags.clone());
                self.rng = self.batches.clone();
                let count = 1 + self.rng.below(5);
                let mut tasks: Vec<New> = (0..count).map(|_| self.new_task(tube)).collect();
                let mut keys = Vec::new();
                for task in &mut tasks {
                    task.relaxed = false;
                    // After a crash in the call a payload must tell which of its puts made a task.
                    if self.profile.ends && task.key.is_some() && keys.contains(&task.key) {
                        (task.key, task.must_exist) = (None, false);
                    }
                    keys.push(task.key);
                }
                self.batches = self.rng.clone();
                (self.rng, self.tags) = (single, tags);
                Step::Batch { tube, tasks }
            }
        }
    }

    /// A move with other names and gates.
    fn move_one(&mut self) -> Step {
        // The draws of puts stay those that they were.
        let own = [&self.rng, &self.tags, &self.gates].map(Rng::clone);
        self.rng = self.moves.clone();
        let (tube, task, to) = (self.tube(), self.rng.near(), self.tube());
        let New { priority, key, group, kind, book, detail, tags, gates, .. } = self.new_task(to);
        let given = New { priority, key, group, kind, book, detail, tags, gates, ..New::default() };
        self.moves = self.rng.clone();
        [self.rng, self.tags, self.gates] = own;
        Step::Move { tube, task, to, given: Box::new(given), brings: task % 2 == 0 }
    }

    fn some_tags(&mut self) -> Vec<u8> {
        let count = 1 + self.tags.below(3);
        (0..count).map(|_| self.tags.below(TAGS.into()) as u8).collect()
    }

    /// Gives tags to a task, or takes them.
    fn tag(&mut self) -> Step {
        let tube = self.tags.of(&[0, 0, 0, 0, 1, 1, 2, 3]);
        let (task, is_added) = (self.tags.near(), !self.tags.one_in(3));
        Step::Tag { tube, task, tags: self.some_tags(), is_added }
    }

    /// Tracks a task, or does so no more.
    fn track(&mut self) -> Step {
        let tube = self.tracks.of(&[0, 0, 0, 0, 1, 1, 2, 3]);
        Step::Track { tube, task: self.tracks.near(), is_on: !self.tracks.one_in(3) }
    }

    /// What the tasks of a tube have that are given none.
    fn book(&mut self) -> Option<u8> {
        self.words.one_in(3).then(|| self.words.below(3) as u8)
    }

    fn detail(&mut self) -> Option<(u8, u8)> {
        self.words.one_in(3).then(|| (self.words.below(2) as u8, self.words.below(4) as u8))
    }

    /// Changes what the tasks of a tube have or keep.
    fn word(&mut self) -> Step {
        let to = match self.words.below(3) {
            0 => Tune::Book(self.book()),
            1 => Tune::Detail(self.detail()),
            _ => Tune::Drops(self.words.one_in(2)),
        };
        let tube = self.words.of(&[0, 0, 0, 0, 1, 1, 2, 3]);
        Step::Tune { tube, to, is_set: !self.words.one_in(3) }
    }

    fn required(&mut self) -> Required {
        self.conditions.of(&[[true, false], [false, true], [true, true]])
    }

    /// Sets a condition, mostly, or changes what a tube requires.
    fn condition(&mut self) -> Step {
        if self.conditions.one_in(4) {
            let tube = self.conditions.of(&[0, 0, 0, 0, 1, 1, 2, 3]);
            let names = if self.conditions.one_in(2) { [false; 2] } else { self.required() };
            return Step::Tune {
                tube,
                to: Tune::Require(names),
                is_set: !self.conditions.one_in(3),
            };
        }
        let to = self.conditions.of(&[Some(true), Some(true), Some(true), Some(false), None]);
        let (condition, is_stored) = (self.conditions.below(2) as u8, !self.conditions.one_in(3));
        Step::Condition { condition, to, is_stored }
    }

    /// Sets or removes the throttle, changes whether a tube has it, or takes its slots away.
    fn throttle(&mut self) -> Step {
        match self.throttles.below(8) {
            0..4 => Step::Throttle { limit: self.throttles.of(&[None, Some(0), Some(1 << 40)]) },
            4..6 => {
                let tube = self.throttles.of(&[0, 0, 0, 0, 1, 1, 2, 3]);
                let to = Tune::Throttle(self.throttles.one_in(2));
                Step::Tune { tube, to, is_set: !self.throttles.one_in(3) }
            }
            _ => Step::ReleaseSlots,
        }
    }

    fn back(&mut self, timed: bool) -> Back {
        if self.rng.one_in(2) {
            return Back::default();
        }
        let slip = self.rng.one_in(20);
        Back {
            delay: if timed || slip { self.maybe_span(2) } else { None },
            priority: (timed && self.rng.one_in(4)).then(|| self.priority()),
            ttl: if timed || slip { self.maybe_span(8) } else { None },
            to_back: self.rng.one_in(3),
        }
    }

    fn change(&mut self, timed: bool) -> Change {
        let slip = self.rng.one_in(20);
        if !timed && !slip {
            return Change::default();
        }
        let mut change = Change {
            priority: self.rng.one_in(2).then(|| self.priority()),
            delay: self.maybe_span(3),
            ttl: self.maybe_span(4),
            ttr: self.maybe_span(4),
            max_attempts: self.rng.one_in(8).then(|| self.rng.of(&[0, 1, 2])),
            backoff: self.rng.one_in(8).then(|| self.waits()),
            ..Change::default()
        };
        if change.delay.is_none() && self.rng.one_in(6) {
            let by = self.rng.of(&SPANS) as i64;
            change.run_in = Some(self.rng.of(&[by, by, 0, -by]));
        }
        change
    }

    fn who(&mut self) -> u8 {
        self.rng.of(&[0, 0, 0, 1, 2])
    }

    fn turn(&mut self) -> Turn {
        let by = self.rng.of(&SPANS);
        if !self.profile.odd_clocks {
            return if self.rng.one_in(4) { Turn::Suspend(by) } else { Turn::Advance(by) };
        }
        match self.rng.below(10) {
            0 => Turn::Suspend(by),
            1 => Turn::FreezeWall(by),
            2 => Turn::SetWall(by as i64),
            3 => Turn::SetWall(-(by as i64)),
            4 => Turn::SetWall(self.rng.of(&[-3_600, 3_600, 86_400]) * SECOND as i64),
            _ => Turn::Advance(by),
        }
    }

    fn stop(&mut self) -> At {
        match self.rng.below(3) {
            0 => At::Call(1 + self.rng.below(24) as u8),
            _ => At::Sync(1 + self.rng.below(3) as u8),
        }
    }

    /// The step, perhaps with a payload.
    fn bring(&mut self, step: Step) -> Step {
        let is_held = matches!(
            step,
            Step::Ack { .. }
                | Step::AckWith { .. }
                | Step::Release { .. }
                | Step::Retry { .. }
                | Step::Bury { .. }
                | Step::Fail { .. }
                | Step::Trash { .. }
                | Step::Advance { .. }
                | Step::Touch { .. }
                | Step::Renew { .. }
                | Step::RenewFor { .. }
        );
        if is_held && self.payloads.one_in(2) { Step::Bring { step: Box::new(step) } } else { step }
    }

    /// A consumer leaves a task, which another one takes over if nothing comes between.
    fn adoption(&mut self) -> [Step; 6] {
        let rng = &mut self.tunes;
        let tube = rng.of(&[0, 0, 0, 1, 2]);
        let (who, of) = rng.of(&[(0, 1), (1, 0)]);
        let grace = rng.of(&[SECOND, 60 * SECOND, EVER]);
        [
            Step::Join { who, grace },
            Step::Join { who: of, grace },
            Step::TakeBy { who: of, tube },
            Step::Leave { who: of },
            Step::Adopt { who, of },
            Step::TakeOver { tube },
        ]
    }

    fn tune(&mut self) -> Step {
        let kept = (!self.tunes.one_in(4)).then(|| kept(&mut self.tunes));
        let rng = &mut self.tunes;
        let tube = rng.of(&[0, 0, 0, 0, 1, 1, 2, 3]);
        let lived = rng.of(&[None, Some(SECOND), Some(5 * SECOND), Some(60 * SECOND)]);
        let once = (SECOND, 1, 0, SECOND);
        let to = match rng.below(15) {
            0 => Tune::Priority(rng.of(&[-1, 0, 1, i64::MAX])),
            1 => Tune::Ttl(lived),
            2 => Tune::Ttr(lived),
            3 => Tune::Capacity(rng.of(&[None, Some(1), Some(4)])),
            4 => Tune::Attempts(rng.of(&[0, 1, 2, 20])),
            5 => Tune::History(rng.of(&HISTORIES)),
            6 => Tune::Finished(kept),
            7 => Tune::Buried(kept),
            8..10 => {
                let grace = rng.of(&[0, SECOND, 3 * SECOND, EVER]);
                let after = To::After(rng.of(&SPANS));
                let to = rng.of(&[To::Place, To::Front, To::Back, after]);
                Tune::Lapse(grace, to, rng.one_in(2))
            }
            10..12 => Tune::InFlight(rng.of(&[1, 2, 3])),
            12..14 => Tune::Limit(rng.of(&[0, 1, 2, 5])),
            _ => Tune::Backoff(rng.of(&[(0, 1, 0, 0), once, (SECOND, 1, SECOND, 3 * SECOND)])),
        };
        Step::Tune { tube, to, is_set: !rng.one_in(3) }
    }

    fn step(&mut self) -> Step {
        let tube = self.tube();
        let (task, lease) = (self.rng.near(), self.rng.near());
        let timed = !matches!(self.kinds[usize::from(tube)], TubeKind::Fifo | TubeKind::Utube);
        if self.rng.one_in(20) {
            return Step::Update { tube, task, change: self.change(timed) };
        }
        if self.rng.one_in(50) {
            let (group, to) = (self.rng.below(3) as u8, self.tube());
            return match self.rng.one_in(2) {
                true => Step::Unfail { tube, group },
                false => Step::UnfailInto { tube, group, to },
            };
        }
        if self.rng.one_in(40) {
            let (to, delay) = (self.tube(), self.rng.one_in(3).then(|| self.span()));
            return Step::Advance { lease, to, delay, with_result: self.rng.one_in(2) };
        }
        if self.rng.one_in(50) {
            let (to, priority) = (self.tube(), self.rng.one_in(3).then(|| self.priority()));
            let given = Box::new(New { priority, ..New::default() });
            return Step::Move { tube, task, to, given, brings: false };
        }
        if self.rng.one_in(25) {
            return match self.rng.below(8) {
                0..3 => Step::Trash { lease },
                3..5 => Step::TrashAny { tube, task },
                5..7 => Step::Restore { tube, task },
                _ => Step::EmptyTrash { tube },
            };
        }
        if self.rng.one_in(30) {
            return match self.rng.one_in(2) {
                true => Step::Log { lease },
                false => Step::LogAny { tube, task },
            };
        }
        if self.rng.one_in(30) {
            let what = match self.rng.below(3) {
                0 => Reported::Start,
                1 => Reported::Progress(self.rng.below(101) as u8),
                _ => Reported::Checkpoint(self.rng.below(200) as u8),
            };
            return Step::Report { lease, what };
        }
        if self.rng.one_in(60) {
            return Step::TakeGroup { tube, group: self.rng.of(&[0, 0, 1, 2, 7]) };
        }
        if self.rng.one_in(40) {
            let tasks = (0..=self.rng.below(2)).map(|_| self.rng.near()).collect();
            return Step::Timeout { tube, tasks };
        }
        if self.rng.one_in(120) {
            return match self.rng.below(8) {
                0..3 => Step::Adopt { who: self.who(), of: self.rng.below(2) as u8 },
                3..6 => Step::TakeOver { tube },
                6 => Step::Deregister { who: self.rng.below(2) as u8 },
                _ => Step::KickWhere { tube },
            };
        }
        if self.rng.one_in(40) {
            let how = self.rng.of(&[Finish::Completes, Finish::WithResult, Finish::Fails]);
            return Step::Finish { tube, task, how };
        }
        match self.rng.below(if self.profile.beside { 242 } else { 224 }) {
            0..45 => self.put(tube),
            45..50 => Step::PutMany { tube, count: self.rng.below(6) as u8 },
            50..80 => Step::Take { tube },
            80..86 => Step::TakeMany { tube, count: self.rng.below(5) as u8 },
            86..90 => Step::Claim { tube, task },
            90..95 => Step::Ack { lease },
            95..100 => Step::AckWith { lease },
            100..104 => {
                let count = self.rng.below(5);
                let mut leases: Vec<u32> = (0..count).map(|_| self.rng.near()).collect();
                leases.sort_unstable();
                leases.dedup();
                Step::AckMany { leases }
            }
            104..113 => Step::Release { lease, back: self.back(timed) },
            113..122 => {
                let after = if self.rng.one_in(4) { self.maybe_span(1) } else { None };
                let grouped = self.rng.one_in(3);
                Step::Retry { lease, after: after.filter(|_| timed), grouped }
            }
            122..126 => {
                let priority = (timed && self.rng.one_in(3)).then(|| self.priority());
                Step::Bury { lease, priority }
            }
            126..129 => Step::Fail { lease },
            129..134 => Step::Touch { lease, by: self.span() },
            134..136 => Step::Renew { lease },
            136..139 => Step::RenewFor { lease, by: self.span() },
            139..144 => Step::DropGuard { lease },
            144..146 => Step::Detach { lease },
            146..151 => Step::Kick { tube, count: self.rng.of(&[1, 1, 2, 100, EVER]) },
            151..154 => Step::KickOne { tube, task },
            154..158 => Step::BuryAny { tube, task },
            158..163 => {
                let states =
                    [State::Ready, State::Delayed, State::Taken, State::Buried, State::Done];
                let only = self.rng.one_in(3).then(|| self.rng.of(&states));
                Step::Delete { tube, task, only }
            }
            163..164 => Step::DeleteMany { tube, tasks: [task, self.rng.near(), self.rng.near()] },
            164..166 => Step::Peek { tube, task },
            166..168 => Step::ReleaseAll { tube },
            168..169 => Step::Truncate { tube },
            169..171 => Step::Pause { tube, length: Some(self.span()) },
            171..174 => Step::Pause { tube, length: None },
            174..179 => self.create(tube),
            179..180 => Step::DropTube { tube, force: self.rng.one_in(3) },
            180..193 => Step::Clock(self.turn()),
            193..195 => Step::Tick,
            195..197 => Step::Flush,
            197..199 if self.profile.ends => Step::Reopen(self.rng.of(&[End::Close, End::Kill])),
            197..200 => Step::Checkpoint,
            200..203 => {
                let grace = self.rng.of(&[0, SECOND, 3 * SECOND, 5 * SECOND, 60 * SECOND, EVER]);
                Step::Join { who: self.who(), grace }
            }
            203..210 => Step::TakeBy { who: self.who(), tube },
            210..212 => Step::Leave { who: self.who() },
            212..213 => Step::CloseConsumer { who: self.who() },
            // A session without a name leaves nothing to resume.
            213..217 => Step::Resume { who: self.who() % NAMELESS, tube },
            217..221 => {
                let states =
                    [State::Ready, State::Delayed, State::Taken, State::Buried, State::Done];
                Step::PeekNext { tube, state: self.rng.of(&states) }
            }
            224..230 => Step::BeginCheckpoint { at: self.stop() },
            230..240 => Step::EndCheckpoint,
            240..242 => Step::Compact,
            _ => {
                let count = self.rng.below(3);
                let leases = (0..count).map(|_| self.rng.near()).collect();
                let endings = [Ending::Commit, Ending::Commit, Ending::Error, Ending::Panic];
                Step::Transact { tube, leases, ending: self.rng.of(&endings) }
            }
        }
    }
}
