//! Finds out whether a store keeps what the journal relies on.

use std::sync::Arc;

use object_store::PutPayload;

use crate::{Created, Key, Store, StoreError, random};

/// Creates of one key at once: a store that looks first and writes then lets several of them through.
const RACERS: u8 = 8;

/// The probe's objects are as small as records are.
const MOST: u64 = 1 << 10;

/// Where they are.
pub(crate) const FOLDER: &str = "probe";

/// Whether an object with this path in a store is of a probe.
pub(crate) fn is_ours(path: &str) -> bool {
    let mut parts = path.split('/');
    parts.next() == Some(FOLDER)
        && parts.next().is_some_and(random::is_name)
        && matches!((parts.next(), parts.next()), (Some("one" | "race"), None))
}

pub(crate) fn probe(store: &Store) -> Result<(), StoreError> {
    let name = random::name();
    let one = Key::new(format!("{FOLDER}/{name}/one"))?;
    let race = Key::new(format!("{FOLDER}/{name}/race"))?;
    let found = one_after_the_other(store, &one, &name).and_then(|()| at_once(store, &race));
    // What was found says more than that it could not be removed.
    let removed = store.delete_many(vec![one.clone(), race]);
    found.and(removed)?;
    match store.get(&one, MOST) {
        Err(StoreError::Missing { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(liar(store, "an object is still there after it was removed")),
    }
}

fn one_after_the_other(store: &Store, key: &Key, name: &str) -> Result<(), StoreError> {
    let first = format!("first {name}").into_bytes();
    store.create(key, first.clone())?;
    let second = store.create(key, format!("second {name}").into_bytes())?;
    let there = store.get(key, MOST)?;
    // The second one must have been told, and what is there must be the first one's. That the first one was told, too,
    // does not matter: its answer may have been lost.
    if second == Created::New {
        return Err(liar(store, "it lets an object be created that exists"));
    }
    if there != first {
        return Err(liar(store, "it does not give back what was created"));
    }
    if store.get_range(key, 2, 9)? != first[2..9] {
        return Err(liar(store, "it does not give back the asked part of an object"));
    }
    let below = key.as_str().rsplit_once('/').map_or("", |(below, _)| below);
    let listed = store.list(below)?.collect::<Result<Vec<_>, _>>()?;
    if !listed.iter().any(|listed| listed.key == *key && listed.bytes == first.len() as u64) {
        return Err(liar(store, "it does not list what was created"));
    }
    Ok(())
}

fn at_once(store: &Store, key: &Key) -> Result<(), StoreError> {
    let pending: Vec<_> = (0..RACERS)
        .map(|racer| {
            let (core, key) = (Arc::clone(store.core()), key.clone());
            store.begin(async move { core.create(&key, PutPayload::from(vec![racer])).await })
        })
        .collect();
    let mut winners = Vec::new();
    for (racer, pending) in (0..RACERS).zip(pending) {
        if store.wait(pending)?? == Created::New {
            winners.push(racer);
        }
    }
    let there = store.get(key, MOST)?;
    // With a lost answer the winner does not know that it won.
    let sound = match winners[..] {
        [] => matches!(there[..], [racer] if racer < RACERS),
        [winner] => there == [winner],
        _ => false,
    };
    if sound { Ok(()) } else { Err(liar(store, "it lets several racers create one object")) }
}

fn liar(store: &Store, what: &'static str) -> StoreError {
    StoreError::Liar { place: store.place(), what }
}
