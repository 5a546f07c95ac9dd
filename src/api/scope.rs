//! Tubes under a common prefix of their names. A scope only makes names: it has no rows, and knows
//! no tube.

use crate::api::callback_list::Callback;
use crate::api::queue::Queue;
use crate::api::tube::Tube;
use crate::api::tubes::Tubes;
use crate::runtime::events::Event;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::macros::debug;
use crate::words::options::TubeOptions;

/// The tubes of a queue whose names begin with a prefix, for a part of a program that should not
/// meet the tubes of the others. From [`Queue::scope`]. Names that it is given and returns are
/// without the prefix, which is put before them as it is.
///
/// ```
/// use tubewell::Queue;
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let shop = queue.scope("shop:");
/// let mail = shop.scope("mail:");
/// mail.tube("letters")?.put(b"hello")?;
/// shop.tube("orders")?;
/// queue.tube("other")?;
///
/// assert_eq!(queue.tubes()?, ["other", "shop:mail:letters", "shop:orders"]);
/// assert_eq!(shop.tubes()?, ["mail:letters", "orders"]);
/// assert_eq!(mail.tubes()?, ["letters"]);
/// assert_eq!(mail.tube("letters")?, queue.tube("shop:mail:letters")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Scope {
    queue: Queue,
    prefix: String,
}

impl Queue {
    /// The tubes whose names begin with this prefix. Any text; of a prefix that no name of a tube
    /// can have [`tubes`](Scope::tubes) lists none, and its other verbs refuse the names.
    pub fn scope(&self, prefix: &str) -> Scope {
        Scope { queue: self.clone(), prefix: prefix.to_owned() }
    }
}

impl Scope {
    /// The scope inside this one, whose prefix is this one's with another behind it.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let mail = queue.scope("shop:").scope("mail:");
    /// assert_eq!(mail.prefix(), "shop:mail:");
    /// mail.tube("letters")?;
    /// assert!(queue.find_tube("shop:mail:letters")?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn scope(&self, prefix: &str) -> Self {
        Self { queue: self.queue.clone(), prefix: self.name(prefix) }
    }

    /// What the names of its tubes begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// As [`Queue::tube`].
    ///
    /// # Errors
    /// As [`Queue::tube`]; the name has at most 255 bytes together with the prefix.
    pub fn tube(&self, name: &str) -> Result<Tube> {
        self.queue.tube(&self.name(name))
    }

    /// As [`Queue::create_tube`].
    ///
    /// # Errors
    /// As [`Queue::create_tube`] and [`tube`](Scope::tube).
    pub fn create_tube(&self, name: &str, options: TubeOptions) -> Result<Tube> {
        self.queue.create_tube(&self.name(name), options)
    }

    /// As [`Queue::create_tube_with`].
    ///
    /// # Errors
    /// As [`Queue::create_tube_with`] and [`tube`](Scope::tube).
    pub fn create_tube_with(
        &self,
        name: &str,
        options: TubeOptions,
        on_change: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<(Tube, Option<Callback>)> {
        self.queue.create_tube_with(&self.name(name), options, on_change)
    }

    /// As [`Queue::find_tube`].
    ///
    /// # Errors
    /// As [`Queue::find_tube`] and [`tube`](Scope::tube).
    pub fn find_tube(&self, name: &str) -> Result<Option<Tube>> {
        self.queue.find_tube(&self.name(name))
    }

    /// As [`Queue::drop_tube`].
    ///
    /// # Errors
    /// As [`Queue::drop_tube`] and [`tube`](Scope::tube).
    pub fn drop_tube(&self, name: &str) -> Result<()> {
        self.queue.drop_tube(&self.name(name))
    }

    /// As [`Queue::drop_tube_if_empty`].
    ///
    /// # Errors
    /// As [`Queue::drop_tube_if_empty`] and [`tube`](Scope::tube).
    pub fn drop_tube_if_empty(&self, name: &str) -> Result<()> {
        self.queue.drop_tube_if_empty(&self.name(name))
    }

    /// As [`Queue::force_drop_tube`].
    ///
    /// # Errors
    /// As [`Queue::force_drop_tube`] and [`tube`](Scope::tube).
    pub fn force_drop_tube(&self, name: &str) -> Result<()> {
        self.queue.force_drop_tube(&self.name(name))
    }

    /// As [`Queue::tubes_of`].
    ///
    /// # Errors
    /// As [`Queue::tubes_of`] and [`tube`](Scope::tube).
    pub fn tubes_of<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<Tubes> {
        self.queue.tubes_of(names.into_iter().map(|name| self.name(name.as_ref())))
    }

    /// As [`Queue::tubes_with_prefix`]: those whose names go on with this one after the scope's
    /// prefix; with an empty one all of its tubes.
    ///
    /// # Errors
    /// As [`Queue::tubes_with_prefix`].
    pub fn tubes_with_prefix(&self, prefix: &str) -> Result<Tubes> {
        self.queue.tubes_with_prefix(&self.name(prefix))
    }

    /// The names of its tubes, also of those in scopes inside it, without the prefix, sorted by
    /// their bytes. Reads no names of others.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn tubes(&self) -> Result<Vec<String>> {
        let mut inside = self.queue.call("list tubes", |core| core.names(&self.prefix))?;
        inside.iter_mut().for_each(|name| drop(name.drain(..self.prefix.len())));
        Ok(inside)
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

debug!([] Scope, "Scope", this, "prefix": &this.prefix);
