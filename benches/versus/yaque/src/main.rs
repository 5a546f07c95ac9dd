//! yaque: a queue of bytes in files, first in first out, for one sender and one receiver.

use std::process::ExitCode;
use std::sync::Mutex;
use versus_common::{Folder, Has, Queue};
use yaque::{Receiver, Sender, recovery};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "yaque" => versus_common::main(&args, |_, folder| Yaque::open(folder)),
        _ => versus_common::unknown(&args),
    }
}

struct Yaque {
    sender: Mutex<Sender>,
    receiver: Mutex<Receiver>,
}

impl Yaque {
    fn open(folder: &Folder) -> Self {
        let path = folder.join("yaque");
        if path.exists() {
            // Does nothing after a clean end.
            recovery::recover(&path).unwrap();
        }
        let (sender, receiver) = yaque::channel(&path).unwrap();
        Self { sender: Mutex::new(sender), receiver: Mutex::new(receiver) }
    }
}

impl Queue for Yaque {
    /// The guard borrows the receiver, so it is committed in the take: the same calls in the same
    /// order, as nothing is done between a take and its ack.
    type Task = ();

    const HAS: Has = Has { priorities: false, ..Has::USUAL };

    fn put(&self, task: &[u8], _: u8) {
        self.sender.lock().unwrap().try_send(task).unwrap();
    }

    fn put_many(&self, tasks: &[(u8, Vec<u8>)]) {
        let tasks = tasks.iter().map(|(_, task)| task);
        self.sender.lock().unwrap().try_send_batch(tasks).unwrap();
    }

    fn take(&self) -> Option<()> {
        let mut receiver = self.receiver.lock().unwrap();
        let task = receiver.try_recv().ok()?;
        std::hint::black_box(task.len());
        task.commit().unwrap();
        Some(())
    }

    fn wait(&self) {
        let mut receiver = self.receiver.lock().unwrap();
        let task = pollster::block_on(receiver.recv()).unwrap();
        std::hint::black_box(task.len());
        task.commit().unwrap();
    }

    fn ack(&self, (): ()) {}

    fn take_many(&self, most: usize) -> Vec<()> {
        let mut receiver = self.receiver.lock().unwrap();
        let Ok(tasks) = receiver.try_recv_batch_up_to(most) else { return Vec::new() };
        let taken = vec![(); std::hint::black_box(&*tasks).len()];
        tasks.commit().unwrap();
        taken
    }

    fn ack_many(&self, _: Vec<()>) {}
}
