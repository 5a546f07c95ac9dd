//! A server process that lives as long as this one.

use crate::NOT_INSTALLED;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio, exit};

pub struct Server(Child);

impl Server {
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // When this process is killed, so is the server: that is what `open-killed` asks for.
        let dies_too = || match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        match unsafe { command.pre_exec(dies_too) }.spawn() {
            Ok(child) => Self(child),
            Err(error) if error.kind() == ErrorKind::NotFound => exit(NOT_INSTALLED),
            Err(error) => panic!("{error}"),
        }
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Server {
    /// Lets it end well.
    fn drop(&mut self) {
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let _ = self.0.wait();
    }
}
