//! Connections have places, and there are not enough for everybody: a client that only waits makes room for one that works.
//!
//! A place belongs to a client by its address. Of clients that have not shown that they may come in, the one with the most
//! places loses one first, that of the longest wait. So nobody is kept out by a single address, whatever it opens, and a client
//! that shares its address with others has its place for as long as its request needs.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use tokio::sync::Notify;

use crate::proxies::{Proxies, network};
use crate::watched::Activity;

/// Connections at the same time.
pub(crate) const CONNECTIONS: usize = 512;

/// Of these, for clients that have not shown that they may come in. All begin there.
const UNKNOWN: usize = 256;

/// For requests that are let in. The rest is for heads: a good token has to be read first, and `/healthz` has none.
const KNOWN: usize = 448;

/// Of these, for requests with a body: those that only ask something are answered beside any number of uploads.
const SENDING: usize = 384;

/// How long a client that may come in is waited for at least, before it makes room for another one: longer than what is under way
/// takes on a bad line.
const SILENT: Duration = Duration::from_millis(100);

/// How long a request waits for another one to make room. Who waits for an answer does not notice.
const PATIENCE: Duration = Duration::from_millis(300);

/// How often a place is looked for when all are in use. What was opened a moment ago is not read yet.
const AGAIN: Duration = Duration::from_millis(1);

/// All places.
pub(crate) struct Places {
    proxies: Proxies,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Entry>,
}

struct Entry {
    /// An address, or the network of one.
    client: IpAddr,
    class: Class,
    activity: Arc<Activity>,
    leave: Arc<Notify>,
}

/// What the last request of a connection was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// None yet, or one that was not let in or needs not to be.
    Unknown,
    /// One without a body that was let in.
    Asking,
    /// One with a body that was let in.
    Sending,
}

/// The place of a connection, which ends with it.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    peer: IpAddr,
    leave: Arc<Notify>,
}

impl Places {
    pub(crate) fn new(proxies: Proxies) -> Arc<Self> {
        Arc::new(Places { proxies, open: Mutex::default() })
    }

    /// A place for a new connection. Only if all others are at work does it wait.
    pub(crate) async fn take(self: &Arc<Self>, peer: IpAddr, activity: &Arc<Activity>) -> Arc<Place> {
        loop {
            if let Some(place) = self.try_take(peer, activity) {
                return Arc::new(place);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn try_take(self: &Arc<Self>, peer: IpAddr, activity: &Arc<Activity>) -> Option<Place> {
        let mut open = self.lock();
        let full = open.count(Class::is_unknown) >= UNKNOWN || open.all.len() >= CONNECTIONS;
        if full && !open.evict(Class::is_unknown, Duration::ZERO) {
            return None;
        }
        let (number, leave) = (open.next, Arc::new(Notify::new()));
        open.next += 1;
        let (activity, left) = (Arc::clone(activity), Arc::clone(&leave));
        open.all
            .insert(number, Entry { client: network(peer), class: Class::Unknown, activity, leave: left });
        Some(Place { places: Arc::clone(self), number, peer, leave })
    }

    /// Makes room where the system has no more handles. False if nobody only waits.
    pub(crate) fn make_room(&self) -> bool {
        self.lock().evict(Class::is_unknown, Duration::ZERO)
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Class {
    fn is_unknown(self) -> bool {
        self == Class::Unknown
    }

    fn is_known(self) -> bool {
        self != Class::Unknown
    }

    fn is_sending(self) -> bool {
        self == Class::Sending
    }
}

impl Open {
    fn count(&self, is: fn(Class) -> bool) -> usize {
        self.all.values().filter(|entry| is(entry.class)).count()
    }

    /// Ends a connection that has waited for its client for so long: of the client that has the most, the one that has waited
    /// longest. False if there is none.
    fn evict(&mut self, is: fn(Class) -> bool, least: Duration) -> bool {
        let mut counts = HashMap::<IpAddr, usize>::new();
        for entry in self.all.values().filter(|entry| is(entry.class)) {
            *counts.entry(entry.client).or_default() += 1;
        }
        let waiting = self.all.iter().filter(|(_, entry)| is(entry.class)).filter_map(|(number, entry)| {
            let since = entry.activity.waits_since().filter(|since| since.elapsed() >= least)?;
            Some((counts.get(&entry.client), Reverse((since, *number))))
        });
        let Some((_, Reverse((_, number)))) = waiting.max() else { return false };
        if let Some(entry) = self.all.remove(&number) {
            entry.leave.notify_one();
        }
        true
    }

    /// Makes room for a request that is let in. False if there is none.
    fn admit(&mut self, class: Class, was: Class) -> bool {
        type Limit = (fn(Class) -> bool, usize);
        let limits: [Limit; 2] = [(Class::is_known, KNOWN), (Class::is_sending, SENDING)];
        limits.into_iter().all(|(is, most)| {
            // A connection that stays among those needs no other place.
            !is(class) || is(was) || self.count(is) < most || self.evict(is, SILENT)
        })
    }
}

impl Place {
    /// Ends when the place is needed by another.
    pub(crate) async fn lost(&self) {
        self.leave.notified().await;
    }

    /// Notes whose request this is, and of which class. False if there is no place for another of those.
    pub(crate) async fn is_free_for(&self, headers: &HeaderMap, class: Class) -> bool {
        let client = network(self.places.proxies.client(self.peer, headers));
        let begun = Instant::now();
        while !self.try_for(client, class) {
            if begun.elapsed() > PATIENCE {
                return false;
            }
            tokio::time::sleep(10 * AGAIN).await;
        }
        true
    }

    fn try_for(&self, client: IpAddr, class: Class) -> bool {
        let mut open = self.places.lock();
        let Some(was) = open.all.get(&self.number).map(|entry| entry.class) else {
            // It was lost while its request came.
            return true;
        };
        if !open.admit(class, was) {
            return false;
        }
        if let Some(entry) = open.all.get_mut(&self.number) {
            (entry.client, entry.class) = (client, class);
        }
        if open.count(Class::is_unknown) > UNKNOWN {
            open.evict(Class::is_unknown, Duration::ZERO);
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
