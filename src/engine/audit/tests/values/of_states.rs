//! The rows that give the states of tasks, and what became of the tasks, which is at their ends.

use super::edit::{
    blocked, buried, delayed, done, message, of_tube, other_byte, other_id, other_text, progress,
    respell, said, taken,
};
use super::{Field, Known, free, mended};
use crate::format::Tag;
use crate::format::key::{self, Direction, Order, Rank, ReportPart, Run};
use crate::format::row::{EdgeCounts, FailureRow, StoredHistory, StoredReports, TaskProgress};
use crate::words::backoff::RetryTerms;
use crate::words::clock::NEVER;
use crate::words::task::Reason;
use crate::words::task_gates::is_line;

const PLACE: Rank = Rank { priority: 7, order: Order::Number([9; 8]) };

/// The fields of a row that gives a state.
pub(super) fn state(tag: Tag) -> Vec<Field> {
    let mut fields = key(tag);
    fields.extend(match tag {
        Tag::Delayed => of_delayed(),
        Tag::Blocked => of_blocked(),
        Tag::Taken => of_taken(),
        Tag::Done => of_done(),
        Tag::Buried | Tag::Trashed => of_buried(tag),
        _ => Vec::new(),
    });
    if matches!(tag, Tag::Delayed | Tag::Blocked | Tag::Taken | Tag::Done) {
        fields.extend(away());
    }
    fields.extend(counts());
    fields.extend(times(tag));
    fields.extend(rows_beside());
    fields.extend(of_one_state(tag));
    if tag == Tag::Delayed {
        // The row of the end of its delay is a copy of it.
        for field in &mut fields {
            if let Known::Free(_) = field.known {
                field.known = Known::Mended(&["Due: a wrong row"]);
            }
        }
    }
    fields
}

fn key(tag: Tag) -> Vec<Field> {
    let mut fields = vec![mended("id", &["task"], other_id)];
    match tag {
        Tag::Ready | Tag::Buried | Tag::Trashed => {
            fields.push(mended("place", &["task"], |rows, at| other_byte(rows, at, 12)));
        }
        Tag::Line => {
            fields.push(mended("group", &["task"], |rows, at| other_text(rows, at, 5)));
            fields.push(mended("place", &["task"], |rows, at| other_byte(rows, at, at.len() - 9)));
        }
        _ => {}
    }
    fields
}

fn of_delayed() -> Vec<Field> {
    vec![
        mended("due", &["Due: a row is missing"], |rows, at| delayed(rows, at, |row| row.due += 1)),
        mended("by the wall clock", &["Due: a row is missing"], |rows, at| {
            delayed(rows, at, |row| row.wall ^= true)
        }),
        // Without a group it holds none.
        mended("holds its group", &["in flight", "Due: a wrong row"], |rows, at| {
            delayed(rows, at, |row| row.holds_group ^= true)
        }),
    ]
}

fn of_blocked() -> Vec<Field> {
    vec![
        free("since", "any time", |rows, at| blocked(rows, at, |row| row.since += 1)),
        free("due", "any time", |rows, at| blocked(rows, at, |row| row.due += 1)),
        free("by the wall clock", "either clock", |rows, at| {
            blocked(rows, at, |row| {
                row.due += 1;
                row.wall ^= true;
            })
        }),
    ]
}

fn of_taken() -> Vec<Field> {
    vec![
        free("token", "any number after that of void leases", |rows, at| {
            taken(rows, at, |row| {
                row.token += 1;
                Some(())
            })
        }),
        free("since", "any time", |rows, at| {
            taken(rows, at, |row| {
                row.since += 1;
                Some(())
            })
        }),
        mended("holder", &["OwnerLease: a row"], |rows, at| {
            taken(rows, at, |row| {
                row.holder = u32::from(row.holder == 0);
                Some(())
            })
        }),
        mended("deadline", &["Due: a row"], |rows, at| {
            taken(rows, at, |row| {
                row.deadline = row.deadline.wrapping_sub(1);
                Some(())
            })
        }),
        mended("slots", &["slot", "Slot"], |rows, at| {
            progress(rows, at, |progress| {
                let runs = if progress.has_slots() { vec![] } else { vec![Run(77)] };
                progress.set_slots(&runs).then_some(())
            })
        }),
        free("stalled since", "any time; the stalled are counted in memory", |rows, at| {
            progress(rows, at, |progress| progress.stall(7).then_some(()))
        }),
    ]
}

fn of_done() -> Vec<Field> {
    vec![
        mended("time", &["Time: a row"], |rows, at| {
            done(rows, at, |row| {
                row.time += 1;
                Some(())
            })
        }),
        mended("result", &["Kept: "], |rows, at| {
            (of_tube(rows, at)? == "first").then_some(())?;
            done(rows, at, |row| {
                row.result = Some([&row.result.take()?[..], b"x"].concat().into());
                Some(())
            })
        }),
        free("bytes of the result", "any bytes", |rows, at| {
            done(rows, at, |row| {
                *row.result.as_mut()?.first_mut()? ^= 1;
                Some(())
            })
        }),
    ]
}

fn of_buried(tag: Tag) -> Vec<Field> {
    let mut fields = vec![
        mended("time", &["Time: a row"], |rows, at| {
            buried(rows, at, |row| {
                row.time += 1;
                Some(())
            })
        }),
        free("message", "any text", |rows, at| {
            buried(rows, at, |row| respell(message(&mut row.reason)?))
        }),
    ];
    if tag == Tag::Buried {
        fields.push(mended("failure group", &["BuriedGroup: a row"], |rows, at| {
            buried(rows, at, |row| match &mut row.reason {
                Reason::Failed { group, .. } => respell(group),
                _ => None,
            })
        }));
        fields.push(free("reason without a group", "any of them", |rows, at| {
            buried(rows, at, |row| match &mut row.reason {
                Reason::Buried(text) => {
                    row.reason = Reason::Undecodable(std::mem::take(text));
                    Some(())
                }
                _ => None,
            })
        }));
        fields.push(mended("reason", &["BuriedGroup: a row"], |rows, at| {
            buried(rows, at, |row| match &mut row.reason {
                Reason::Failed { message, .. } => {
                    row.reason = Reason::Buried(std::mem::take(message));
                    Some(())
                }
                _ => None,
            })
        }));
    }
    fields
}

/// What a row without a place in its key says of the task.
fn away() -> Vec<Field> {
    vec![
        mended("place", &["task"], |rows, at| {
            said(rows, at, |said| {
                said.away.place = Some(PLACE);
                Some(())
            })
        }),
        mended("group", &["task"], |rows, at| {
            said(rows, at, |said| {
                said.away.group = if said.away.group.is_some() { None } else { Some("another") };
                Some(())
            })
        }),
        mended("it has a key", &["task"], |rows, at| {
            said(rows, at, |said| {
                said.away.keyed ^= true;
                Some(())
            })
        }),
        mended("its own row is extended", &["task"], |rows, at| {
            said(rows, at, |said| {
                said.away.extended ^= true;
                Some(())
            })
        }),
        mended("its payload is apart", &["task"], |rows, at| {
            said(rows, at, |said| {
                said.away.apart ^= true;
                Some(())
            })
        }),
        mended("payload bytes", &["task"], |rows, at| {
            said(rows, at, |said| {
                said.away.bytes += 1;
                Some(())
            })
        }),
    ]
}

/// What is counted of a task, and its home.
fn counts() -> Vec<Field> {
    vec![
        free("deliveries", "counted nowhere else", |rows, at| {
            progress(rows, at, |progress| {
                progress.deliveries += 1;
                Some(())
            })
        }),
        free("attempts", "counted nowhere else", |rows, at| {
            progress(rows, at, |progress| {
                progress.attempts += 1;
                Some(())
            })
        }),
        free("releases", "counted nowhere else", |rows, at| {
            progress(rows, at, |progress| {
                progress.releases += 1;
                Some(())
            })
        }),
        free("buries", "counted nowhere else", |rows, at| {
            progress(rows, at, |progress| {
                progress.buries += 1;
                Some(())
            })
        }),
        free("last error", "any text", |rows, at| {
            progress(rows, at, |progress| {
                progress.last_error.push('x');
                Some(())
            })
        }),
        free("last failure", "any time", |rows, at| {
            progress(rows, at, |progress| {
                progress.fail("no", &FailureRow { when: 7, by: "", group: "" });
                Some(())
            })
        }),
        free("terms of its own", "any terms", |rows, at| {
            let terms = RetryTerms { max_attempts: Some(7), backoff: None };
            progress(rows, at, |progress| progress.set_retry_terms(&terms).then_some(()))
        }),
        mended("home", &["task"], |rows, at| {
            said(rows, at, |said| {
                said.home.rank = Some(PLACE);
                Some(())
            })
        }),
        mended("its own row is fresh", &["task"], |rows, at| {
            said(rows, at, |said| {
                said.home.is_fresh ^= true;
                Some(())
            })
        }),
    ]
}

fn times(tag: Tag) -> Vec<Field> {
    let ttr: Field = free("ttr", "any length", |rows, at| {
        progress(rows, at, |progress| {
            progress.ttr = 7;
            Some(())
        })
    });
    let spoil: super::Spoil = |rows, at| {
        progress(rows, at, |progress| {
            // Earlier than the end of its retention.
            progress.expires = if progress.expires == NEVER { 7 } else { progress.expires - 1 };
            Some(())
        })
    };
    let expires = match tag {
        Tag::Blocked => free("expires", "its ttl goes on when it waits no more", spoil),
        Tag::Done => free("expires", "its ttl has ended", spoil),
        _ => mended("expires", &["Due: a "], spoil),
    };
    vec![ttr, expires]
}

/// What says which other rows there are.
fn rows_beside() -> Vec<Field> {
    vec![
        mended("history", &["history"], |rows, at| {
            progress(rows, at, |progress| {
                let stored = progress.history();
                let stored = stored.map(|it| StoredHistory { next: it.next + 1, ..it });
                let one = StoredHistory { first: 0, next: 1, bytes: 9 };
                progress.set_history(stored.unwrap_or(one)).then_some(())
            })
        }),
        mended("reports", &["report", "Report"], |rows, at| {
            progress(rows, at, |progress| {
                let reports = match progress.reports().has(ReportPart::Report) {
                    true => progress.reports().without(ReportPart::Report),
                    false => StoredReports::default().with(ReportPart::Report),
                };
                progress.set_reports(reports).then_some(())
            })
        }),
        mended("it has tags", &["ags"], |rows, at| {
            progress(rows, at, |progress| {
                let is_tagged = progress.is_tagged();
                progress.set_tagged(!is_tagged).then_some(())
            })
        }),
        mended("edges from it", &["as Dependent"], |rows, at| {
            progress(rows, at, |progress| edges(progress, Direction::Dependent))
        }),
        mended("edges to it", &["as Dependency"], |rows, at| {
            progress(rows, at, |progress| edges(progress, Direction::Dependency))
        }),
    ]
}

fn edges(progress: &mut TaskProgress, direction: Direction) -> Option<()> {
    let EdgeCounts { open, met } = progress.edges(direction);
    progress.set_edges(direction, EdgeCounts { open, met: met + 1 }).then_some(())
}

/// What only some states say.
fn of_one_state(tag: Tag) -> Vec<Field> {
    let kept: super::Spoil = |rows, at| {
        progress(rows, at, |progress| {
            // What is kept for others has no end.
            progress.edges(Direction::Dependent).is_empty().then_some(())?;
            let until = progress.kept_until();
            progress.set_kept_until(if until == NEVER { 7 } else { until - 1 });
            Some(())
        })
    };
    let ready: super::Spoil = |rows, at| {
        progress(rows, at, |progress| {
            progress.set_ready_since(Some(7));
            Some(())
        })
    };
    let own_rank: super::Spoil =
        |rows, at| progress(rows, at, |progress| progress.set_own_rank(&PLACE).then_some(()));
    let gates: super::Spoil = |rows, at| {
        progress(rows, at, |progress| {
            progress.gates()?;
            progress.set_gates(Some("\u{1}a")).then_some(())
        })
    };
    let lapse: super::Spoil =
        |rows, at| progress(rows, at, |progress| progress.stall(7).then_some(()));
    let slots: super::Spoil =
        |rows, at| progress(rows, at, |progress| progress.set_slots(&[Run(77)]).then_some(()));
    let has_ended = matches!(tag, Tag::Done | Tag::Buried | Tag::Trashed);
    let says: &[&str] = &["its row says what no task says"];
    let life: super::Spoil = |rows, at| {
        progress(rows, at, |progress| {
            let end = Some(progress.expires).filter(|end| *end != NEVER)?;
            progress.begin_life_again(end - 7, 7);
            Some(())
        })
    };
    let no_life: super::Spoil = |rows, at| {
        progress(rows, at, |progress| {
            (progress.expires == NEVER).then_some(())?;
            progress.begin_life_again(7, 7);
            progress.expires = NEVER;
            Some(())
        })
    };
    let mut fields = vec![
        // The rows have tasks with a ttl in some states, and without one in the others.
        match tag {
            Tag::Line | Tag::Taken | Tag::Done => mended("length of no ttl", says, no_life),
            _ => free("length of its ttl", "any length", life),
        },
        mended("kept until", if has_ended { &["Due: a row"] } else { says }, kept),
        match tag {
            Tag::Ready | Tag::Line => free("ready since", "any time", ready),
            _ => mended("ready since", says, ready),
        },
        mended("own rank", says, own_rank),
        mended("gates of no group", says, |rows, at| {
            let line = if at[0] == Tag::Line as u8 { key::group_of(at) } else { None };
            said(rows, at, |said| {
                line.or(said.away.group).is_none_or(is_line).then_some(())?;
                said.state.progress_mut().set_gates(Some("\u{1}a")).then_some(())
            })
        }),
    ];
    if tag == Tag::Line {
        fields.push(mended("gates", &["OpenHead: a row is missing"], gates));
    }
    if tag != Tag::Taken {
        fields.push(mended("stalled since", says, lapse));
        fields.push(mended("slots", says, slots));
    }
    fields
}
