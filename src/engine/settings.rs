//! Settings that are stored in the queue. An option of a tube that was set is in force in the
//! tube's own row, so that every rule reads it there, and its setting's row keeps what the tube was
//! made with. Any other setting stands in its row alone. No other rule reads these rows.

use crate::engine::context::{Op, OpContext, decoded, sound};
use crate::engine::effects::{NextDue, SettingChange, TubeChange};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{follow, gates};
use crate::format::feature::{
    CONDITIONS, DAY_STATISTICS, DROPPED_PAYLOADS, GATES, HIGHER_FIRST, HOURS, KIND_INDEX, LAPSES,
    RETENTION, SETTINGS, THROTTLES, UNIQUE, ZONES,
};
use crate::format::key::{self, Key};
use crate::format::row::{SettingRow, TubeRow};
use crate::format::{Deadline, Scan, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::hours::{Hours, LocalTime};
use crate::words::known_settings::{self, OF_TUBES, TubeSetting};
use crate::words::lapse::Lapse;
use crate::words::limits::OWN_SETTINGS_MAX;
use crate::words::options::TubeOptions;
use crate::words::queue_options::{self, OF_QUEUES, QueueOptions};
use crate::words::setting::{OWN, Setting, SettingSource, SettingValue};
use crate::words::task::Cause;
use crate::words::unique::Unique;

/// The number under which the settings of the queue stand. No tube has it.
pub(crate) const QUEUE: u32 = 0;

/// What a change of a setting has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    Done {
        /// Whether there was anything to change.
        is_any: bool,
        /// Whether rows of tasks still have to follow the value in force: [`FollowOptions`] goes
        /// on.
        ///
        /// [`FollowOptions`]: crate::engine::sweep::FollowOptions
        is_left: bool,
    },
    /// Nothing yet: rows still follow an earlier change of the same option.
    NotYet,
}

impl Changed {
    pub(crate) const ALL: Self = Self::Done { is_any: true, is_left: false };
    const NOTHING: Self = Self::Done { is_any: false, is_left: false };
}

/// Sets a setting of a tube or of the queue, or unsets it.
pub(crate) struct ChangeSetting<'a> {
    /// The tube, or [`QUEUE`].
    pub(crate) owner: u32,
    pub(crate) name: &'a str,
    /// `None` unsets it.
    pub(crate) value: Option<&'a SettingValue>,
}

impl Op for ChangeSetting<'_> {
    type Done = Changed;

    fn tube(&self) -> Option<u32> {
        (self.owner != QUEUE).then_some(self.owner)
    }

    fn grows(&self) -> bool {
        self.value.is_some()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Changed> {
        let (owner, name) = (self.owner, self.name);
        let (is_own, is_tube) = (known_settings::is_own(name)?, owner != QUEUE);
        let value = self.value.map(|value| whole(name, value)).transpose()?;
        match (is_own, is_tube) {
            (false, true) => change_option(ctx, owner, known_settings::of_tube(name)?, value),
            (false, false) => {
                let setting = queue_options::of_queue(name)?;
                let check = |value| setting.put_into(&mut QueueOptions::default(), value);
                value.as_ref().map_or(Ok(()), check)?;
                change_row(ctx, owner, name, value)
            }
            (true, _) => change_row(ctx, owner, name, value),
        }
    }
}

/// The value with times in whole microseconds.
fn whole(name: &str, value: &SettingValue) -> Result<SettingValue> {
    value.check()?;
    SettingRow::stored(value).ok_or_else(|| {
        let text = format!("the setting {name} cannot be {value:?}");
        Error::new(ErrorKind::Invalid).because(text)
    })
}

/// What is stored of a setting.
enum Kept {
    Nothing,
    Damaged,
    Value(SettingValue),
}

fn kept(view: &dyn View, key: &Key) -> Result<Kept> {
    let row = decoded(view.get(key), SettingRow::decode, "setting");
    Ok(match sound(row)? {
        Some(row) => row.map_or(Kept::Nothing, |row| Kept::Value(row.value)),
        None => Kept::Damaged,
    })
}

/// The value that a tube was made with, of an option that was set. If its row is damaged that is
/// not known, and the value in force takes its place.
fn made(row: Option<SettingValue>, setting: &TubeSetting, options: &TubeOptions) -> SettingValue {
    let fits = |value: &SettingValue| setting.put_into(&mut options.clone(), value).is_ok();
    row.filter(fits).unwrap_or_else(|| (setting.get)(options))
}

/// Sets an option of a tube, or gives it the value back that the tube was made with.
fn change_option(
    ctx: &mut OpContext<'_>,
    number: u32,
    setting: &TubeSetting,
    value: Option<SettingValue>,
) -> Result<Changed> {
    let tube = &*ctx.tube(number)?;
    let key = key::setting(number, setting.name);
    let before = kept(ctx, &key)?;
    let is_left = follow::is_left(&tube.row.pending, setting.name);
    let unchanged = Changed::Done { is_any: false, is_left };
    if matches!((&before, &value), (Kept::Nothing, None)) {
        return Ok(unchanged);
    }
    let has_value = matches!((&before, &value), (Kept::Value(_), Some(_)));
    let (is_sound, made) = match before {
        Kept::Value(value) => (true, made(Some(value), setting, &tube.row.options)),
        Kept::Nothing | Kept::Damaged => (false, (setting.get)(&tube.row.options)),
    };
    let mut options = tube.row.options.clone();
    setting.put_into(&mut options, value.as_ref().unwrap_or(&made))?;
    // No limit has several forms, such as 0 and nothing.
    if has_value && options == tube.row.options {
        return Ok(unchanged);
    }
    options.check()?;
    if follow::has_to_wait(tube, &options) {
        return Ok(Changed::NotYet);
    }
    needs(ctx, &options);
    let kept = |of: &TubeOptions| (of.keep_days, of.keep_finished, of.keep_buried);
    let keeps_others = kept(&options) != kept(&tube.row.options);
    let mut row = TubeRow { options, ..tube.row.clone() };
    follow::begin(ctx, tube, &mut row)?;
    gates::begin(ctx, number, &mut row);
    match &value {
        None => ctx.remove(key),
        Some(_) if is_sound => {}
        Some(_) => {
            needs_row(ctx, setting.name, &made);
            ctx.set(key, SettingRow::of(made).encode())?;
        }
    }
    let is_left = follow::is_left(&row.pending, setting.name);
    ctx.set(key::tube(number), row.encode())?;
    publish(ctx, (number, Some(row)), setting.name, value);
    if keeps_others {
        // Days and tasks may be too old now, or too many.
        ctx.effects().deadline(number, NextDue::of(Deadline::Ttl, 0));
    }
    // There may be room now, or tasks that may be taken.
    ctx.effects().wake(number, usize::MAX);
    Ok(Changed::Done { is_any: true, is_left })
}

/// Sets a setting that stands in its row alone, or unsets it.
fn change_row(
    ctx: &mut OpContext<'_>,
    owner: u32,
    name: &str,
    value: Option<SettingValue>,
) -> Result<Changed> {
    let row = match owner {
        QUEUE => None,
        number => Some(ctx.tube(number)?.row.clone()),
    };
    let key = key::setting(owner, name);
    match (kept(ctx, &key)?, &value) {
        (Kept::Nothing, None) => return Ok(Changed::NOTHING),
        (Kept::Value(before), Some(value)) if before == *value => return Ok(Changed::NOTHING),
        (Kept::Nothing, Some(_)) if name.starts_with(OWN) => has_room(ctx, owner)?,
        _ => {}
    }
    match &value {
        None => ctx.remove(key),
        Some(value) => {
            needs_row(ctx, name, value);
            ctx.set(key, SettingRow::of(value.clone()).encode())?;
        }
    }
    publish(ctx, (owner, row), name, value);
    Ok(Changed::ALL)
}

/// Refuses one more setting of the application's own than there may be.
fn has_room(ctx: &OpContext<'_>, owner: u32) -> Result<()> {
    let (mut rows, mut count) = (Scan::prefixed(key::setting(owner, OWN)), 0);
    while rows.next(ctx)?.is_some() {
        count += 1;
    }
    if count < OWN_SETTINGS_MAX {
        return Ok(());
    }
    let text = format!("there are {count} settings of the application's own; unset one first");
    Err(Error::new(ErrorKind::Full).because(text))
}

fn publish(
    ctx: &mut OpContext<'_>,
    (number, row): (u32, Option<TubeRow>),
    name: &str,
    value: Option<SettingValue>,
) {
    let cause = Some(if value.is_some() { Cause::SetSetting } else { Cause::UnsetSetting });
    let setting = Some(Box::new(SettingChange { name: name.into(), value }));
    let row = row.map(Box::new);
    let (stalled, is_adopted, schedule) = (0, false, None);
    let change = TubeChange { number, row, cause, setting, stalled, is_adopted, schedule };
    ctx.effects().tubes.push(change);
}

/// Enters the features that the row of a setting needs: versions without them know no setting of
/// that name, or could not read the value.
fn needs_row(ctx: &mut OpContext<'_>, name: &str, value: &SettingValue) {
    ctx.needs(&SETTINGS);
    match name {
        "drop_payloads" => ctx.needs(&DROPPED_PAYLOADS),
        "keep_days" => ctx.needs(&DAY_STATISTICS),
        "limit" | "rate" => ctx.needs(&GATES),
        "require" => ctx.needs(&CONDITIONS),
        "hours" => ctx.needs(&HOURS),
        "throttle" => ctx.needs(&THROTTLES),
        _ => {}
    }
    match value {
        SettingValue::Rate(_) => ctx.needs(&GATES),
        SettingValue::Names(_) => ctx.needs(&CONDITIONS),
        SettingValue::Hours(hours) => needs_hours(ctx, hours),
        _ => {}
    }
}

fn needs_hours(ctx: &mut OpContext<'_>, hours: &Hours) {
    ctx.needs(&HOURS);
    if let LocalTime::Zone(_) = hours.local {
        ctx.needs(&ZONES);
    }
}

/// Enters the features that these options of a tube need.
pub(crate) fn needs(ctx: &mut OpContext<'_>, options: &TubeOptions) {
    if options.higher_first {
        ctx.needs(&HIGHER_FIRST);
    }
    if options.keep_finished.is_some() || options.keep_buried.is_some() {
        ctx.needs(&RETENTION);
    }
    if options.drop_payloads {
        ctx.needs(&DROPPED_PAYLOADS);
    }
    if let Some(gates) = &options.gates {
        ctx.needs(&GATES);
        if !gates.required.is_empty() {
            ctx.needs(&CONDITIONS);
        }
        if let Some(hours) = &gates.hours {
            needs_hours(ctx, hours);
        }
        if !gates.throttles.is_empty() {
            ctx.needs(&THROTTLES);
        }
    }
    if options.index_kinds {
        ctx.needs(&KIND_INDEX);
    }
    if options.lapse != Lapse::new() {
        ctx.needs(&LAPSES);
    }
    if options.unique != Unique::new() {
        ctx.needs(&UNIQUE);
    }
    if options.keep_days > 0 {
        ctx.needs(&DAY_STATISTICS);
    }
}

/// The options that a tube was made with.
pub(crate) fn made_with(view: &dyn View, tube: &TubeEntry) -> Result<TubeOptions> {
    let mut options = tube.row.options.clone();
    let mut rows = Scan::prefixed(key::settings_of(tube.number));
    while let Some((met, row)) = rows.next(view)? {
        let name = key::of_setting(&met).map(|(_, name)| name);
        let setting = OF_TUBES.iter().find(|setting| Some(setting.name) == name);
        if let Some(setting) = setting {
            let row = row.as_deref().and_then(SettingRow::decode).map(|row| row.value);
            let made = made(row, setting, &tube.row.options);
            setting.put_into(&mut options, &made)?;
        }
    }
    Ok(options)
}

/// Removes the settings of a tube with it.
pub(crate) fn forget(ctx: &mut OpContext<'_>, number: u32) -> Result<()> {
    let mut rows = Scan::prefixed(key::settings_of(number));
    while let Some((met, _)) = rows.next(ctx)? {
        ctx.remove(met);
    }
    Ok(())
}

/// All settings of a tube, and of the application's own those that are set and not damaged.
pub(crate) fn of_tube(view: &dyn View, tube: &TubeEntry) -> Result<Vec<Setting>> {
    let made = made_with(view, tube)?;
    let mut settings = Vec::new();
    for setting in OF_TUBES {
        let key = key::setting(tube.number, setting.name);
        let is_set = view.row(&key)?.is_some();
        let value = (setting.get)(&tube.row.options);
        settings.push(Setting {
            name: setting.name.to_owned(),
            default: (setting.get)(&made),
            stored: is_set.then(|| value.clone()),
            source: if is_set { SettingSource::Stored } else { SettingSource::Default },
            value,
        });
    }
    settings.extend(own(view, tube.number)?);
    Ok(settings)
}

/// All settings of the queue, of which the builder gave these, and of the application's own those
/// that are set and not damaged.
pub(crate) fn of_queue(view: &dyn View, given: &QueueOptions) -> Result<Vec<Setting>> {
    let stored = of_opening(view)?;
    let mut settings = Vec::new();
    for setting in OF_QUEUES {
        let (given, stored, default) =
            ((setting.get)(given), (setting.get)(&stored), setting.default());
        let source = match (&given, &stored) {
            (Some(_), _) => SettingSource::Builder,
            (None, Some(_)) => SettingSource::Stored,
            (None, None) => SettingSource::Default,
        };
        let value = given.or_else(|| stored.clone()).unwrap_or_else(|| default.clone());
        settings.push(Setting { name: setting.name.to_owned(), value, default, stored, source });
    }
    settings.extend(own(view, QUEUE)?);
    Ok(settings)
}

/// The stored settings of the queue. One that is damaged counts as unset.
pub(crate) fn of_opening(view: &dyn View) -> Result<QueueOptions> {
    let mut stored = QueueOptions::default();
    let mut rows = Scan::prefixed(key::settings_of(QUEUE));
    while let Some((met, row)) = rows.next(view)? {
        let name = key::of_setting(&met).map(|(_, name)| name);
        let setting = OF_QUEUES.iter().find(|setting| Some(setting.name) == name);
        let row = row.as_deref().and_then(SettingRow::decode);
        if let (Some(setting), Some(row)) = (setting, row) {
            // One of another type is damaged.
            let _ = setting.put_into(&mut stored, &row.value);
        }
    }
    Ok(stored)
}

/// One setting of the application's own.
///
/// # Errors
/// `Damaged` if its row is.
pub(crate) fn own_named(view: &dyn View, owner: u32, name: &str) -> Result<Setting> {
    let row = decoded(view.get(&key::setting(owner, name)), SettingRow::decode, "setting")?;
    Ok(own_setting(name.to_owned(), row.map(|row| row.value)))
}

/// The settings of the application's own that are set.
fn own(view: &dyn View, owner: u32) -> Result<Vec<Setting>> {
    let (mut rows, mut settings) = (Scan::prefixed(key::setting(owner, OWN)), Vec::new());
    while let Some((met, row)) = rows.next(view)? {
        let name = key::of_setting(&met).map(|(_, name)| name.to_owned());
        let row = row.as_deref().and_then(SettingRow::decode);
        if let (Some(name), Some(row)) = (name, row) {
            settings.push(own_setting(name, Some(row.value)));
        }
    }
    Ok(settings)
}

/// A setting of the application's own, also if it is not set.
fn own_setting(name: String, stored: Option<SettingValue>) -> Setting {
    let source = match stored {
        Some(_) => SettingSource::Stored,
        None => SettingSource::Default,
    };
    let value = stored.clone().unwrap_or(SettingValue::Nothing);
    Setting { name, value, default: SettingValue::Nothing, stored, source }
}
