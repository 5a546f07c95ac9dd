//! A rule meets a row of a state that leads to no own row, while the row of the position does: the
//! row is written again, and the task keeps its state and its payload. It was buried without them.

use super::NOTHING;
use super::edited::Played;
use crate::engine::by_id::{Tool, Verb};
use crate::engine::lookup;
use crate::engine::new_row::NewRow;
use crate::engine::repair::Repair;
use crate::engine::settle::Settle;
use crate::engine::state_rows;
use crate::engine::stored::TaskRef;
use crate::engine::take::Take;
use crate::format::key::Home;
use crate::words::error::DamagedRow;
use crate::words::task::{Reason, State};
use crate::words::verb::{Release, Verdict};
use std::time::Duration;

#[test]
fn a_row_of_a_state_with_a_wrong_home_is_written_again() {
    let states = [State::Ready, State::Delayed, State::Buried, State::Taken];
    for (state, group) in states.into_iter().flat_map(|state| [(state, None), (state, Some("g"))]) {
        let mut played = Played::new();
        let id = played.put(NewRow { payload: b"x", group, ..NewRow::PLAIN });
        let handed = played.run(&Take::new(1, 1, 0)).unwrap();
        let terms = Release::new().priority(-3);
        let terms = match state {
            State::Delayed => terms.delay(Duration::from_secs(1)),
            _ => terms,
        };
        let (ticket, verdict) = (handed[0].ticket(), Verdict::Release(terms));
        played.run(&Settle { tube: 1, tickets: &[ticket], verdict }).unwrap();
        if state == State::Buried {
            let verb = Verb::Bury(Reason::Buried("no".into()));
            played.run(&Tool { tube: 1, id, verb }).unwrap();
        } else if state == State::Taken {
            assert_eq!(played.run(&Take::new(1, 1, 0)).unwrap().len(), 1);
        }
        assert_eq!((played.state(id), played.rows.faults()), (state, vec![]));

        let (sound, tube) = (played.rows.rows.clone(), played.rows.tube("first"));
        let (stored, is) = lookup::find(&played.rows, &tube, id).unwrap();
        let stored = stored.whole(&played.rows, &tube).unwrap();
        let task = stored.task(&tube).unwrap();
        let wrong = TaskRef { home: Home { rank: task.place, is_fresh: false }, ..task };
        let (key, value) = state_rows::state_row(&wrong, &is).unwrap();
        played.rows.set(key.clone(), value);
        assert_ne!(played.rows.faults(), NOTHING);
        let row = DamagedRow { tube: 1, key: key.as_slice().into() };
        played.run(&Repair::Row(row)).unwrap();
        assert!(played.rows.rows == sound, "{state:?} {group:?}: {:?}", played.rows.faults());
    }
}
