//! Settings that are stored in the queue: of the queue itself and of each tube, read, set and unset
//! while it is open.

use crate::api::queue::Queue;
use crate::api::tube::Tube;
use crate::engine::query;
use crate::engine::settings::{self, ChangeSetting, QUEUE};
use crate::engine::tube_cache::TubeEntry;
use crate::format::View;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::known_settings::{self, is_own};
use crate::words::queue_options;
use crate::words::setting::{Setting, SettingValue};

/// Settings of a tube.
impl<T: ?Sized> Tube<T> {
    /// The settings of the tube, by name: first its options that may be changed, each with the
    /// value in force and the one that the tube was made with, then those of the application's own
    /// that are set. One of these that is damaged is left out; [`check`](Queue::check) names it.
    ///
    /// ```
    /// use tubewell::{Queue, SettingSource};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.set("capacity", 1000)?;
    /// let settings = tube.settings()?;
    /// let changed: Vec<_> =
    ///     settings.iter().filter(|setting| setting.source == SettingSource::Stored).collect();
    /// assert_eq!((changed.len(), &changed[0].name[..]), (1, "capacity"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](crate::ErrorKind::TubeNotFound); as [`find_tube`](Queue::find_tube).
    pub fn settings(&self) -> Result<Vec<Setting>> {
        self.read_settings(settings::of_tube)
    }

    /// One setting of the tube; one of the application's own also if it is not set.
    ///
    /// ```
    /// use tubewell::{Queue, SettingValue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().capacity(10))?;
    /// tube.set("capacity", 1000)?;
    /// let capacity = tube.setting("capacity")?;
    /// assert_eq!(capacity.value, SettingValue::Integer(1000));
    /// assert_eq!(capacity.default, SettingValue::Integer(10));
    /// assert_eq!(tube.setting("app.colour")?.value, SettingValue::Nothing); // not set
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name as [`set`](Tube::set) refuses it;
    /// [`Damaged`](crate::ErrorKind::Damaged) for one of the application's own whose row is
    /// damaged: set it again, or unset it; as [`settings`](Tube::settings).
    pub fn setting(&self, name: &str) -> Result<Setting> {
        self.read_settings(|view, tube| {
            if is_own(name)? {
                return settings::own_named(view, self.number, name);
            }
            let known = known_settings::of_tube(name)?.name;
            named(settings::of_tube(view, tube)?, known)
        })
    }

    fn read_settings<R>(&self, read: impl Fn(&dyn View, &TubeEntry) -> Result<R>) -> Result<R> {
        let read = self.inner.core.look(|view, _| read(view, &query::tube(view, self.number)?));
        self.name_errors("read settings", read)
    }

    /// Sets a setting of the tube, also after the queue is opened again, until it is
    /// [unset](Tube::unset). It has the name of a setter of [`TubeOptions`](crate::TubeOptions) and
    /// takes what that takes, `None` for a ttl, ttr, book or limit that there shall be none of, and
    /// for `details` a map of all of them. It is one small step with an
    /// [event](crate::Cause::SetSetting), as durable as a put. Setting what is set already does
    /// nothing. All handles use the new value once it returns:
    ///
    /// - `priority`, `ttl` and `ttr` for tasks that are put from then on;
    /// - `capacity`, `max_attempts`, `backoff`, `lapse`, `book` and `details` also for the tasks
    ///   that the tube has, unless they have their own;
    /// - `history` from the next entry on;
    /// - `keep_finished` and `keep_buried` also for the tasks that are kept already: an age is
    ///   counted from the end of each, and without `keep_finished` the finished ones go. What is
    ///   beyond the new value goes with the next due work of the tube;
    /// - `limit` and `rate` for all tasks at once; a lower one ends no lease;
    /// - `in_flight` for all groups. A group with more in flight than a lower one stays locked
    ///   until they are fewer.
    ///
    /// Rows of tasks follow a change of `in_flight`, and a limit of bytes that `keep_finished` or
    /// `keep_buried` gets, in steps of a bounded number of groups or tasks, with other calls
    /// between them. The call returns after the last one. If the process ends before, or a step
    /// fails, as on a full disk, the timer and the next opening go on with them; until a step comes
    /// to a group, the number before the change is in force there, and until all tasks are summed,
    /// the limit of bytes removes fewer.
    ///
    /// The other options stay as the tube was made: `kind`, `temporary`, `placement`,
    /// `higher_first`, `unique`, `index_kinds`, `ttl_spares_buried` and
    /// `hold_group_while_delayed`.
    /// [`if_not_exists`](crate::TubeOptions::if_not_exists) compares the options that the tube was
    /// made with, whatever was set since.
    ///
    /// A name that begins with `app.` is the application's own, at most 255 bytes in all. It takes
    /// any value, a text of at most 4 KiB, and a tube has at most 256 of them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let options = TubeOptions::default().ttr(Duration::from_secs(60));
    /// let tube = queue.create_tube("letters", options.clone())?;
    /// tube.set("ttr", Duration::from_secs(5))?;
    /// tube.put(b"hello")?;
    /// assert_eq!(tube.take()?.ttr(), Some(Duration::from_secs(5)));
    ///
    /// queue.create_tube("letters", options.if_not_exists())?; // the options that it was made with
    /// tube.unset("ttr")?;
    /// assert_eq!(tube.setting("ttr")?.value, Duration::from_secs(60).into());
    /// tube.set("app.colour", "blue")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name that no setting has, for an option that is
    /// fixed, and for a value of another type or outside the option's limits: the text says what
    /// there is, and what it takes; [`Unsupported`](crate::ErrorKind::Unsupported) for an option
    /// that the kind does not allow; [`TooLarge`](crate::ErrorKind::TooLarge) for a text or details
    /// above 4 KiB; [`Full`](crate::ErrorKind::Full) for one more of the application's own;
    /// [`TubeNotFound`](crate::ErrorKind::TubeNotFound); as [`tube`](Queue::tube).
    pub fn set(&self, name: &str, value: impl Into<SettingValue>) -> Result<()> {
        self.change_setting("set", name, Some(&value.into())).map(drop)
    }

    /// Unsets a setting of the tube: an option is again what the tube was made with. Returns
    /// whether it was set. If what is stored of an option is damaged, it is not known what the tube
    /// was made with, and the value in force stays.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.set("capacity", 1)?;
    /// tube.put(b"to ada")?;
    /// assert!(tube.put(b"to bob").unwrap_err().is_full());
    /// assert!(tube.unset("capacity")?);
    /// tube.put(b"to bob")?;
    /// assert!(!tube.unset("capacity")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`set`](Tube::set).
    pub fn unset(&self, name: &str) -> Result<bool> {
        self.change_setting("unset", name, None)
    }

    fn change_setting(
        &self,
        action: &'static str,
        name: &str,
        value: Option<&SettingValue>,
    ) -> Result<bool> {
        let op = ChangeSetting { owner: self.number, name, value };
        self.name_errors(action, self.inner.core.change_setting(&op, self.durability))
    }
}

/// Settings of the queue.
impl Queue {
    /// The settings of the queue, by name: first those of the [`Builder`](crate::Builder) that may
    /// be stored, each with the value in force, where it comes from, and the default, then those of
    /// the application's own that are set. One that is damaged counts as unset;
    /// [`check`](Queue::check) names it.
    ///
    /// ```
    /// use tubewell::{Queue, SettingSource};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::builder().payload_bytes_max(10).in_memory()?;
    /// queue.set("durable_bytes_max", 1 << 30)?;
    /// for setting in queue.settings()? {
    ///     let source = match &setting.name[..] {
    ///         "payload_bytes_max" => SettingSource::Builder,
    ///         "durable_bytes_max" => SettingSource::Stored,
    ///         _ => SettingSource::Default,
    ///     };
    ///     assert_eq!(setting.source, source);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed); [`InTransaction`](crate::ErrorKind::InTransaction).
    pub fn settings(&self) -> Result<Vec<Setting>> {
        self.call("read settings", |core| {
            core.look(|view, _| settings::of_queue(view, &core.live.given))
        })
    }

    /// One setting of the queue; one of the application's own also if it is not set.
    ///
    /// ```
    /// use tubewell::{Queue, SettingSource, SettingValue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::builder().payload_bytes_max(10).in_memory()?;
    /// queue.set("payload_bytes_max", 4)?;
    /// let limit = queue.setting("payload_bytes_max")?;
    /// assert_eq!(limit.stored, Some(SettingValue::Integer(4)));
    /// assert_eq!(limit.value, SettingValue::Integer(10)); // the builder's goes before it
    /// assert_eq!(limit.source, SettingSource::Builder);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name as [`set`](Queue::set) refuses it;
    /// [`Damaged`](crate::ErrorKind::Damaged) for one of the application's own whose row is
    /// damaged: set it again, or unset it; as [`settings`](Queue::settings).
    pub fn setting(&self, name: &str) -> Result<Setting> {
        self.call("read settings", |core| {
            core.look(|view, _| {
                if is_own(name)? {
                    return settings::own_named(view, QUEUE, name);
                }
                let known = queue_options::of_queue(name)?.name;
                named(settings::of_queue(view, &core.live.given)?, known)
            })
        })
    }

    /// Sets a setting of the queue, also after it is opened again, until it is
    /// [unset](Queue::unset). It has the name of a setter of [`Builder`](crate::Builder) and takes
    /// what that takes, or `None` for no limit. What the builder gave at this opening goes before
    /// it. It is one small step with an [event](crate::Cause::SetSetting), as durable as the queue.
    /// Once it returns,
    ///
    /// - `payload_bytes_max`, `durable_bytes_max` and `temporary_bytes_max` hold for all puts; what
    ///   is above a lower limit stays;
    /// - `durability` holds for the handles that are made from then on;
    /// - `session_grace` holds for the consumers that are opened from then on;
    /// - `consumer_keep` holds for the consumers whose leases have returned from then on;
    /// - `flush_interval` holds for all writes, also for those that wait for their sync.
    ///
    /// What the queue needs before it can read a setting stays with the builder, such as
    /// `cache_bytes`. Names that begin with `app.` are the application's own, as those of a
    /// [tube](Tube::set).
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// queue.set("payload_bytes_max", 4)?;
    /// queue.set("app.office", "Oslo")?;
    /// queue.close()?;
    ///
    /// let queue = Queue::open(&path)?;
    /// let refused = queue.tube("letters")?.put(b"hello").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::TooLarge);
    /// assert_eq!(queue.setting("app.office")?.value, "Oslo".into());
    /// queue.close()?;
    ///
    /// let queue = Queue::builder().payload_bytes_max(5).open(&path)?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a name that no setting has, for one that the
    /// builder alone gives, and for a value of another type or outside its limits: the text says
    /// what there is, and what it takes; [`TooLarge`](crate::ErrorKind::TooLarge) and
    /// [`Full`](crate::ErrorKind::Full) as for a [tube](Tube::set); as [`tube`](Queue::tube).
    pub fn set(&self, name: &str, value: impl Into<SettingValue>) -> Result<()> {
        self.change_setting("set", name, Some(&value.into())).map(drop)
    }

    /// Unsets a setting of the queue: the default is in force again, unless the builder gave a
    /// value at this opening. Returns whether it was set.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// queue.set("durable_bytes_max", 4)?;
    /// assert!(tube.put(b"hello").unwrap_err().is_full());
    /// assert!(queue.unset("durable_bytes_max")?);
    /// tube.put(b"hello")?;
    /// assert!(!queue.unset("durable_bytes_max")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`set`](Queue::set).
    pub fn unset(&self, name: &str) -> Result<bool> {
        self.change_setting("unset", name, None)
    }

    fn change_setting(
        &self,
        action: &'static str,
        name: &str,
        value: Option<&SettingValue>,
    ) -> Result<bool> {
        let op = ChangeSetting { owner: QUEUE, name, value };
        self.call(action, |core| core.change_setting(&op, self.inner.durability()))
    }
}

/// The setting of this name, which is among them.
fn named(settings: Vec<Setting>, name: &str) -> Result<Setting> {
    let found = settings.into_iter().find(|setting| setting.name == name);
    found.ok_or_else(|| Error::new(ErrorKind::Invalid))
}
