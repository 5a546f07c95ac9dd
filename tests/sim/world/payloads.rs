//! Steps of a task in hand that bring a payload.

use super::*;

impl World {
    /// Carries out a step with a payload; every second time through the guard, which a refusal
    /// leaves as it is.
    pub(super) fn bring(&mut self, no: LeaseNo, step: &Step, edition: Serial) -> Result<()> {
        let serial = self.serials[&self.leases[&no].ticket.id()];
        let bytes = payload_of(serial, edition);
        let next = match step {
            Step::Advance { to, .. } => self.tubes.get(to).cloned(),
            _ => None,
        };
        let how = How { words: format!("e{no}"), serial, next };
        let guard = self.leases.get_mut(&no).and_then(|lease| lease.guard.as_mut());
        let is_kept =
            matches!(step, Step::Touch { .. } | Step::Renew { .. } | Step::RenewFor { .. });
        match guard.filter(|_| no.is_multiple_of(2)) {
            Some(guard) => {
                how.carry_out(guard.with_payload(&bytes), step)?;
                if !is_kept {
                    drop(self.guard(Some(no)));
                }
                Ok(())
            }
            None => how.carry_out(self.held(Some(no))?.with_payload(&bytes), step),
        }
    }
}

/// What a step says besides its own words.
struct How {
    words: String,
    serial: Serial,
    next: Option<Tube>,
}

impl How {
    fn carry_out(self, with: WithPayload<'_>, step: &Step) -> Result<()> {
        let words = self.words;
        match step {
            Step::Ack { .. } => with.ack(),
            Step::AckWith { .. } => with.ack_with(&result_of(self.serial)),
            Step::Release { back, .. } if back.is_plain() => with.release(),
            Step::Release { back, .. } => with.release_with(terms(back)),
            Step::Retry { after, grouped, .. } => {
                let mut terms = Retry::new(words);
                if *grouped {
                    terms = terms.group(failure_group(0, 1));
                }
                with.retry_with(match after {
                    Some(after) => terms.after(length(*after)),
                    None => terms,
                })
            }
            Step::Bury { priority: Some(priority), .. } => {
                with.bury_with_priority(words, *priority)
            }
            Step::Bury { .. } => with.bury(words),
            Step::Fail { .. } => with.fail("f", words),
            Step::Trash { .. } => with.trash(words),
            Step::Touch { by, .. } => with.touch(length(*by)),
            Step::Renew { .. } => with.renew(),
            Step::RenewFor { by, .. } => with.renew_for(length(*by)),
            Step::Advance { delay, with_result, .. } => {
                let result = with_result.then(|| result_of(self.serial));
                let mut terms = Advance::new();
                if let Some(delay) = delay {
                    terms = terms.delay(length(*delay));
                }
                if let Some(result) = &result {
                    terms = terms.result(result);
                }
                with.advance_with(&self.next.expect("the runner has picked a tube"), terms)
            }
            step => panic!("{step:?} brings no payload"),
        }
    }
}
