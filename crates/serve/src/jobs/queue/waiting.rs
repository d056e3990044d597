//! The order of jobs that wait.

use std::cmp::Ordering;

/// The place of a job that waits. Jobs with lower ranks go first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) rank: f64,
    pub(super) created: u64,
    pub(super) id: String,
    pub(super) paused: bool,
}

impl Place {
    fn order(&self, other: &Place) -> Ordering {
        let by_rank = self.rank.total_cmp(&other.rank);
        by_rank.then(self.created.cmp(&other.created)).then_with(|| self.id.cmp(&other.id))
    }
}

/// Jobs that wait, paused ones too, sorted.
#[derive(Default)]
pub(super) struct Waiting(Vec<Place>);

impl Waiting {
    pub(super) fn of(places: impl Iterator<Item = Place>) -> Self {
        let mut all: Vec<Place> = places.collect();
        all.sort_by(Place::order);
        Waiting(all)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn places(&self) -> &[Place] {
        &self.0
    }

    pub(super) fn put(&mut self, place: Place) {
        let at = self.0.partition_point(|other| other.order(&place) == Ordering::Less);
        self.0.insert(at, place);
    }

    pub(super) fn take(&mut self, place: &Place) {
        if let Some(at) = self.position(place) {
            self.0.remove(at);
        }
    }

    pub(super) fn position(&self, place: &Place) -> Option<usize> {
        self.0.binary_search_by(|other| other.order(place)).ok()
    }

    /// The job that is next.
    pub(super) fn next(&self) -> Option<&str> {
        self.0.iter().find(|place| !place.paused).map(|place| place.id.as_str())
    }

    /// The ranks that bring a job from one position to another: its own, between those of its neighbours. After fifty moves to
    /// the same place there is no number between them, and all get new ones.
    pub(super) fn ranks(&self, from: usize, to: usize) -> Vec<(String, f64)> {
        let mut order: Vec<&Place> = self.0.iter().collect();
        let moved = order.remove(from);
        let rank = |at: usize| order.get(at).map(|place| place.rank);
        let (before, behind) = (to.checked_sub(1).and_then(rank), rank(to));
        let new = match (before, behind) {
            (Some(before), Some(behind)) => f64::midpoint(before, behind),
            (None, Some(behind)) => behind - 1.0,
            (Some(before), None) => before + 1.0,
            (None, None) => moved.rank,
        };
        if before.is_none_or(|before| before < new) && behind.is_none_or(|behind| new < behind) {
            return vec![(moved.id.clone(), new)];
        }
        order.insert(to, moved);
        order.iter().enumerate().map(|(number, place)| (place.id.clone(), number as f64)).collect()
    }
}
