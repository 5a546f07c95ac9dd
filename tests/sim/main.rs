//! Seeds in, verdicts out. `TUBEWELL_SEED=n` plays one seed and prints its script.
#![allow(clippy::indexing_slicing, missing_docs, dead_code)]

mod disk;
mod model;
mod script;
mod step;

#[test]
fn a_script_is_the_same_every_time() {
    let one = script::script(7, script::Profile::MEMORY);
    assert_eq!(one, script::script(7, script::Profile::MEMORY));
}

#[test]
fn model_plays() {
    use std::time::Instant;
    let began = Instant::now();
    let mut kinds = std::collections::BTreeMap::<String, u64>::new();
    for seed in 0..2000 {
        let mut model = model::Model::new(model::Time::at(1_767_268_800_000_000));
        let (mut serial, mut lease) = (1, 1);
        for step in script::script(seed, script::Profile::MEMORY) {
            let mut picked = step::Picked { serial, lease, ..Default::default() };
            use step::Step::*;
            match &step {
                Claim { task, .. }
                | KickOne { task, .. }
                | BuryAny { task, .. }
                | Delete { task, .. }
                | Peek { task, .. } => picked.task = model.task_at(0, *task),
                Ack { lease }
                | Release { lease, .. }
                | Retry { lease, .. }
                | Bury { lease }
                | Fail { lease }
                | Touch { lease, .. }
                | Renew { lease }
                | RenewFor { lease, .. }
                | LetGo { lease }
                | Detach { lease } => match model.lease_at(*lease) {
                    Some(l) => picked.leases.push(l),
                    None => continue,
                },
                _ => {}
            }
            if model.is_open(&step, &picked) {
                continue;
            }
            let e = model.apply(&step, &picked);
            serial += 8;
            lease += 8;
            let name = format!("{step:?}");
            let name = name.split([' ', '(']).next().unwrap();
            let what = match &e {
                Ok(step::Answer::Took(h)) if h.is_empty() => "empty".to_owned(),
                Ok(_) => "ok".into(),
                Err(k) => format!("{k:?}"),
            };
            *kinds.entry(format!("{name} {what}")).or_default() += 1;
            model.look();
        }
    }
    for (k, n) in kinds {
        println!("{n:8} {k}");
    }
    println!("{:?}", began.elapsed());
}
