//! The one reader of stdin: keys of a person, words of the process that started this one, and its end.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that came before the first listener: a few words of a parent that was quick.
const EARLY: usize = 64;

type Heard = Box<dyn Fn(u8) + Send>;

/// Standard input, of which a process has one.
#[derive(Clone, Default)]
pub(crate) struct Stdin(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    reading: bool,
    /// Who wants to know of each byte.
    heard: Option<Heard>,
    /// Whether there was a listener, and what came before.
    listened: bool,
    early: Vec<u8>,
    ended: Option<Box<dyn FnOnce() + Send>>,
}

/// While this lives, bytes of stdin are heard.
#[must_use = "dropping it stops the listening"]
pub(crate) struct Hearing(Arc<Mutex<State>>);

impl Stdin {
    /// Every byte goes to `heard`, in place of who listened before.
    pub(crate) fn hear(&self, heard: impl Fn(u8) + Send + 'static) -> io::Result<Hearing> {
        let mut state = lock(&self.0);
        state.listened = true;
        std::mem::take(&mut state.early).into_iter().for_each(&heard);
        state.heard = Some(Box::new(heard));
        self.read(state)?;
        Ok(Hearing(Arc::clone(&self.0)))
    }

    /// What happens when stdin ends.
    pub(crate) fn at_end(&self, ended: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = lock(&self.0);
        state.ended = Some(Box::new(ended));
        self.read(state)
    }

    /// Starts the thread, once. It ends with stdin, or with the process.
    fn read(&self, mut state: MutexGuard<'_, State>) -> io::Result<()> {
        if std::mem::replace(&mut state.reading, true) {
            return Ok(());
        }
        drop(state);
        let shared = Arc::clone(&self.0);
        let listen = move || follow(io::stdin(), &shared);
        std::thread::Builder::new().name("stdin".into()).spawn(listen).map(drop)
    }
}

fn follow(mut from: impl Read, shared: &Mutex<State>) {
    let mut bytes = [0; 64];
    // An error is an end, too.
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let mut state = lock(shared);
        for byte in bytes.iter().take(count) {
            match &state.heard {
                Some(heard) => heard(*byte),
                // Words before the first listener are for it, keys between two listeners are for neither.
                None if !state.listened && state.early.len() < EARLY => state.early.push(*byte),
                None => {}
            }
        }
    }
    let ended = lock(shared).ended.take();
    if let Some(ended) = ended {
        ended();
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        lock(&self.0).heard = None;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn each_listener_hears_what_comes_while_it_listens_and_the_first_what_came_before() {
        let stdin = Stdin::default();
        // Nothing may read the real one.
        lock(&stdin.0).reading = true;
        let (tell, told) = channel();
        let listen = |tell: &std::sync::mpsc::Sender<u8>| {
            let tell = tell.clone();
            stdin.hear(move |byte| tell.send(byte).unwrap()).unwrap()
        };
        follow(&b"ab"[..], &stdin.0);
        let first = listen(&tell);
        follow(&b"c"[..], &stdin.0);
        drop(first);
        follow(&b"lost"[..], &stdin.0);
        let second = listen(&tell);
        let end = tell.clone();
        stdin.at_end(move || end.send(b'.').unwrap()).unwrap();
        follow(&b"d"[..], &stdin.0);
        drop(second);
        assert_eq!(told.try_iter().collect::<Vec<u8>>(), b"abcd.");
        follow(&vec![b'x'; 1000][..], &Stdin::default().0);
    }
}
