//! Taking from several tubes: a list of them, or all with a prefix. The handle says which tubes and
//! in which way; the rules are those of each tube.

use crate::api::codec::Codec;
use crate::api::consumer::Consumer;
use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
#[cfg(feature = "bincode")]
use crate::api::typed::Bincode;
use crate::engine::query;
use crate::engine::tube_set::Choice;
use crate::format::View;
use crate::runtime::reentrancy;
use crate::runtime::several::TubesOf;
use crate::runtime::tube_sets::{ListedTube, NamedWeights, PrefixedTubes};
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{LABEL_BYTES_MAX, LIST_TUBES_MAX, WEIGHT_MAX};
use crate::words::macros::debug;
use crate::words::sync::{Arc, Mutex};
#[cfg(feature = "bincode")]
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet};

/// Several tubes, to take from: those of a list, from [`Queue::tubes_of`], or all whose names begin
/// with a prefix, from [`Queue::tubes_with_prefix`], also those that are made later. The tasks are
/// the same as those of each tube's own handle; their guards know their tubes.
///
/// A take looks at all tubes in one step, in the order that the handle says, and waits at all of
/// them at once. In each tube the longest waiting call is served first, whether it waits there
/// alone or on several. A paused tube, or one of which nothing may be taken, is passed over. A tube
/// that is dropped leaves the list; when none is left, takes return
/// [`TubeNotFound`](ErrorKind::TubeNotFound). A take costs no more with a thousand empty tubes than
/// with one: the queue remembers which may have something.
///
/// Cheap to clone. Clones, and the handles made by [`by`](Tubes::by),
/// [`durability`](Tubes::durability) and [`with_codec`](Tubes::with_codec), share whose turn it is.
/// That is kept in memory. A handle that says an order begins at its start. While it is in use each
/// put into one of its tubes marks the tube for it, so make it once, and clone it.
///
/// ```
/// use tubewell::{Queue, Tube};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let fill = |name: &str, tasks: usize| -> tubewell::Result<()> {
///     let tube: Tube = queue.tube(name)?;
///     tube.put_many(vec![name.as_bytes().to_vec(); tasks]).map(drop)
/// };
/// let mut taken = String::new();
/// let tubes = queue.tubes_of(["C", "B", "A"])?.round_robin();
/// fill("C", 3)?;
/// fill("B", 2)?;
/// fill("A", 5)?;
/// while let Some(task) = tubes.try_take()? {
///     taken += task.tube();
///     task.ack()?;
/// }
/// assert_eq!(taken, "CBACBACAAA");
/// # Ok(())
/// # }
/// ```
pub struct Tubes<T: ?Sized = [u8]> {
    pub(crate) list: Arc<TubeList>,
    /// Without a number and a name of its own: what the handles of the tubes have in common.
    pub(crate) each: Tube<T>,
}

/// What the clones of a handle share.
pub(crate) struct TubeList {
    pub(crate) inner: Arc<QueueInner>,
    of: TubesOf,
    choice: Choice,
    /// The set that is taken from, from the first take on.
    set: Mutex<Option<u32>>,
}

impl Queue {
    /// The tubes of these names, to take from: [in order](Tubes::in_order), unless the handle is
    /// asked for another way. Each is opened or made as [`tube`](Queue::tube) does it. At most
    /// 10 000.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["urgent", "mail"])?;
    /// queue.tube("mail")?.put(b"to ada")?;
    /// queue.tube("urgent")?.put(b"to bob")?;
    /// let task = tubes.take()?;
    /// assert_eq!((task.tube(), &task[..]), ("urgent", &b"to bob"[..]));
    /// task.ack()?;
    /// tubes.take()?.ack()?;
    /// assert!(tubes.try_take()?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for no name, a name twice, or more than 10 000; as
    /// [`tube`](Queue::tube), and then tubes before it in the list may have been made.
    pub fn tubes_of<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<Tubes> {
        let listed = (|| {
            let names: Vec<N> = names.into_iter().take(LIST_TUBES_MAX + 1).collect();
            ensure_list(&names)?;
            let mut tubes = Vec::with_capacity(names.len());
            for name in &names {
                let tube = self.tube(name.as_ref())?;
                tubes.push(ListedTube { tube: tube.number, name: tube.name.clone(), weight: 1 });
            }
            Ok(tubes)
        })();
        let tubes = listed.map_err(|error: Error| error.during("open tubes"))?;
        Ok(Tubes::over(&self.inner, TubesOf::List(tubes)))
    }

    /// All tubes whose names begin with this, to take from, also those that are made later, in the
    /// order of their names. With an empty prefix all tubes. While there is none, takes wait for
    /// the first. Such a wait keeps no tube from being dropped.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let mail = queue.tubes_with_prefix("mail/")?.round_robin();
    /// assert!(mail.try_take()?.is_none());
    /// queue.tube("mail/ada")?.put(b"hello")?;
    /// queue.tube("other")?.put(b"not mail")?;
    /// let task = mail.take()?;
    /// assert_eq!(task.tube(), "mail/ada");
    /// assert_eq!(mail.names()?, ["mail/ada"]);
    /// # task.ack()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a prefix that no name of a tube can have.
    pub fn tubes_with_prefix(&self, prefix: &str) -> Result<Tubes> {
        if prefix.len() > LABEL_BYTES_MAX || prefix.contains(char::is_control) {
            let text = "no name of a tube begins with this prefix; give at most 255 bytes without \
                        control characters";
            return Err(Error::new(ErrorKind::Invalid).because(text).during("open tubes"));
        }
        let prefixed = PrefixedTubes { prefix: prefix.into(), weights: NamedWeights::EQUAL };
        Ok(Tubes::over(&self.inner, TubesOf::Prefix(Arc::new(prefixed))))
    }
}

/// # Errors
/// `Invalid` for a list that makes no sense.
fn ensure_list<N: AsRef<str>>(names: &[N]) -> Result<()> {
    let mut met = BTreeSet::new();
    let twice = names.iter().map(N::as_ref).find(|name| !met.insert(*name));
    let text = match (names.len(), twice) {
        (0, _) => "the list has no tube".to_owned(),
        (_, Some(twice)) => {
            format!("tube {:?} is in the list twice; give it a weight", twice)
        }
        (count, None) if count > LIST_TUBES_MAX => {
            format!("the list has more than {LIST_TUBES_MAX} tubes; take from a prefix")
        }
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Invalid).because(text))
}

/// # Errors
/// `Invalid` unless it is from 1 to [`WEIGHT_MAX`].
fn ensure_weight(weight: u32) -> Result<()> {
    match (1..=WEIGHT_MAX).contains(&weight) {
        true => Ok(()),
        false => invalid(format!("weight {weight}; give 1 to {WEIGHT_MAX}")),
    }
}

fn invalid<T>(text: String) -> Result<T> {
    Err(Error::new(ErrorKind::Invalid).because(text).during("weight tubes"))
}

impl Tubes {
    fn over(inner: &Arc<QueueInner>, of: TubesOf) -> Self {
        Self { list: TubeList::new(inner, of, Choice::InOrder), each: Tube::of_several(inner) }
    }
}

impl TubeList {
    fn new(inner: &Arc<QueueInner>, of: TubesOf, choice: Choice) -> Arc<Self> {
        Arc::new(Self { inner: inner.clone(), of, choice, set: Mutex::default() })
    }

    /// The number of the set.
    pub(crate) fn set(&self) -> Result<u32> {
        let core = &self.inner.core;
        // In a transaction this would wait for itself.
        core.enter()?;
        let mut set = self.set.lock();
        let number = set.map_or_else(|| core.begin_set(&self.of, self.choice), Ok)?;
        *set = Some(number);
        Ok(number)
    }
}

impl Drop for TubeList {
    fn drop(&mut self) {
        if let Some(set) = self.set.lock().take() {
            let inner = self.inner.clone();
            reentrancy::defer_until_outside(move || inner.core.end_set(set));
        }
    }
}

impl<T: ?Sized> Tubes<T> {
    fn with(&self, of: TubesOf, choice: Choice) -> Self {
        Self { list: TubeList::new(&self.list.inner, of, choice), each: self.each.clone() }
    }

    /// Takes from the first tube that has a task, in the order of the list, or of the names.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["urgent", "mail"])?.in_order();
    /// queue.tube("mail")?.put_many([*b"a", *b"b"])?;
    /// queue.tube("urgent")?.put_many([*b"c", *b"d"])?;
    /// let tasks = tubes.take_many(4)?;
    /// let names: Vec<&str> = tasks.iter().map(|task| task.tube()).collect();
    /// assert_eq!(names, ["urgent", "urgent", "mail", "mail"]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn in_order(&self) -> Self {
        self.with(self.list.of.clone(), Choice::InOrder)
    }

    /// Takes one task from each in turn, in the order of the list, or of the names. A tube without
    /// a task is passed over, and does not catch up on the turns that it has missed.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["a", "b"])?.round_robin();
    /// let (a, b) = (queue.tube("a")?, queue.tube("b")?);
    /// a.put_many([*b"x"; 4])?;
    /// let alone = tubes.take_many(2)?; // b is passed over
    /// b.put_many([*b"x"; 4])?;
    /// let both = tubes.take_many(4)?; // and does not catch up
    /// assert!(alone.iter().all(|task| task.tube() == "a"));
    /// assert_eq!(both.iter().filter(|task| task.tube() == "a").count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn round_robin(&self) -> Self {
        self.with(self.list.of.clone(), Choice::RoundRobin)
    }

    /// As [`round_robin`](Tubes::round_robin), each round in another order, which is drawn from
    /// this number: in one queue the same number gives the same orders. So takers with different
    /// numbers do not all begin with the same tube.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["a", "b", "c"])?.shuffled(7);
    /// for name in ["a", "b", "c"] {
    ///     queue.tube(name)?.put_many(vec![b"x".to_vec(); 2])?;
    /// }
    /// let mut round = || -> tubewell::Result<Vec<String>> {
    ///     let mut names = Vec::new();
    ///     for task in tubes.take_many(3)? {
    ///         names.push(task.tube().to_owned());
    ///         task.ack()?;
    ///     }
    ///     names.sort();
    ///     Ok(names)
    /// };
    /// assert_eq!((round()?, round()?), (vec!["a".into(), "b".into(), "c".into()], vec![
    ///     "a".into(),
    ///     "b".into(),
    ///     "c".into()
    /// ]));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn shuffled(&self, seed: u64) -> Self {
        self.with(self.list.of.clone(), Choice::Shuffled(seed))
    }

    /// Takes from each tube of the list in proportion to its weight, as long as all have tasks. A
    /// tube without a task is passed over and does not catch up.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["orders", "news"])?.weighted(&[3, 1])?;
    /// queue.tube("orders")?.put_many(vec![b"x".to_vec(); 100])?;
    /// queue.tube("news")?.put_many(vec![b"x".to_vec(); 100])?;
    /// let tasks = tubes.take_many(40)?;
    /// assert_eq!(tasks.iter().filter(|task| task.tube() == "orders").count(), 30);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) unless there is one weight for each tube, from 1 to 1000;
    /// and for a prefix, which has no list: see [`weighted_by_name`](Tubes::weighted_by_name).
    pub fn weighted(&self, weights: &[u32]) -> Result<Self> {
        let TubesOf::List(tubes) = &self.list.of else {
            return invalid("tubes with a prefix have no list; give weights by name".into());
        };
        if tubes.len() != weights.len() {
            return invalid(format!("{} weights for {} tubes", weights.len(), tubes.len()));
        }
        weights.iter().try_for_each(|weight| ensure_weight(*weight))?;
        let weighted =
            |(tube, weight): (&ListedTube, &u32)| ListedTube { weight: *weight, ..tube.clone() };
        let tubes = tubes.iter().zip(weights).map(weighted).collect();
        Ok(self.with(TubesOf::List(tubes), Choice::Weighted))
    }

    /// As [`weighted`](Tubes::weighted), with the weight of each tube by its name, also of one that
    /// is made later. Those that are not named have the weight `others`.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let mail = queue.tubes_with_prefix("mail/")?.weighted_by_name([("mail/ada", 3)], 1)?;
    /// queue.tube("mail/ada")?.put_many(vec![b"x".to_vec(); 100])?;
    /// queue.tube("mail/bob")?.put_many(vec![b"x".to_vec(); 100])?;
    /// let tasks = mail.take_many(40)?;
    /// assert_eq!(tasks.iter().filter(|task| task.tube() == "mail/ada").count(), 30);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a weight that is not from 1 to 1000, a name twice, and
    /// for more than 10 000 names.
    pub fn weighted_by_name<N: AsRef<str>>(
        &self,
        weights: impl IntoIterator<Item = (N, u32)>,
        others: u32,
    ) -> Result<Self> {
        let mut named = BTreeMap::new();
        for (name, weight) in weights {
            let name = name.as_ref();
            ensure_weight(weight)?;
            if named.insert(name.into(), weight).is_some() {
                return invalid(format!("tube {name:?} has two weights"));
            }
            if named.len() > LIST_TUBES_MAX {
                return invalid(format!("more than {LIST_TUBES_MAX} weights"));
            }
        }
        ensure_weight(others)?;
        let weights = NamedWeights { named, others };
        let of = match &self.list.of {
            TubesOf::List(tubes) => {
                let weighted = |tube: &ListedTube| ListedTube {
                    weight: weights.of(&tube.name),
                    ..tube.clone()
                };
                TubesOf::List(tubes.iter().map(weighted).collect())
            }
            TubesOf::Prefix(prefixed) => {
                let prefix = prefixed.prefix.clone();
                TubesOf::Prefix(Arc::new(PrefixedTubes { prefix, weights }))
            }
        };
        Ok(self.with(of, Choice::Weighted))
    }

    /// Takes the task of the best priority of all tubes. Of equal ones that of the first tube comes
    /// first, in the order of the list, or of the names; in one tube they are in its own order. A
    /// tube with [`higher_first`](crate::TubeOptions::higher_first) is compared by how its tasks
    /// stand there: priority 5 of it is as good as −5 of another.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["a", "b"])?.by_priority();
    /// queue.tube("a")?.task(b"second").put()?;
    /// queue.tube("b")?.task(b"third").put()?;
    /// queue.tube("b")?.task(b"first").priority(-1).put()?;
    /// for text in [&b"first"[..], b"second", b"third"] {
    ///     let task = tubes.take()?;
    ///     assert_eq!(&task[..], text);
    ///     task.ack()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn by_priority(&self) -> Self {
        self.with(self.list.of.clone(), Choice::ByPriority)
    }

    fn each(&self, each: Tube<T>) -> Self {
        Self { list: self.list.clone(), each }
    }

    /// The tubes as used by this consumer, as [`Tube::by`].
    #[must_use]
    pub fn by(&self, consumer: &Consumer) -> Self {
        self.each(self.each.by(consumer))
    }

    /// The tubes with this durability for the verdicts on what is taken, as [`Tube::durability`].
    #[must_use]
    pub fn durability(&self, durability: Durability) -> Self {
        self.each(self.each.durability(durability))
    }

    /// The tubes for values of another type, through this codec, as [`Tube::with_codec`].
    pub fn with_codec<U, C: Codec<U>>(&self) -> Tubes<U> {
        Tubes { list: self.list.clone(), each: self.each.with_codec::<U, C>() }
    }

    /// The tubes for values of a type, through [`Bincode`](crate::Bincode), as [`Tube::typed`].
    #[cfg(feature = "bincode")]
    pub fn typed<U: Serialize + DeserializeOwned>(&self) -> Tubes<U> {
        self.with_codec::<U, Bincode>()
    }

    /// The names of the tubes that are there now, in their order. They are read in steps, and are
    /// not of one instant.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["letters", "parcels", "mail"])?;
    /// queue.drop_tube("parcels")?;
    /// assert_eq!(tubes.names()?, ["letters", "mail"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn names(&self) -> Result<Vec<String>> {
        let core = &self.list.inner.core;
        let names = match &self.list.of {
            TubesOf::Prefix(prefixed) => core.names(&prefixed.prefix),
            TubesOf::List(tubes) => {
                let is_there = |view: &dyn View, it: &ListedTube| {
                    Ok(query::tube_named(view, &it.name)? == Some(it.tube))
                };
                let mut names = Vec::new();
                tubes
                    .iter()
                    .try_for_each(|it| {
                        let is_there = core.look(|view, _| is_there(view, it))?;
                        names.extend(is_there.then(|| String::from(&*it.name)));
                        Ok(())
                    })
                    .map(|()| names)
            }
        };
        names.map_err(|error: Error| error.during("list tubes"))
    }
}

impl<T: ?Sized> Clone for Tubes<T> {
    fn clone(&self) -> Self {
        self.each(self.each.clone())
    }
}

debug!([T: ?Sized] Tubes<T>, "Tubes", this, "of": &this.list.of);
