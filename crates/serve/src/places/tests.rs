use axum::http::HeaderValue;

use super::Class::{Asking, Sending, Unknown};
use super::*;

/// Connections of one address, each of which waits for its client.
struct Desk {
    places: Arc<Places>,
    held: Vec<(Arc<Place>, Arc<Activity>)>,
}

impl Desk {
    fn new(proxies: &[&str]) -> Self {
        let proxies: Vec<_> = proxies.iter().map(|text| text.parse().unwrap()).collect();
        Desk { places: Places::new(Proxies::new(&proxies)), held: Vec::new() }
    }

    fn open(&mut self, from: &str, waits: bool) -> bool {
        let activity = Arc::new(Activity::old());
        let place = self.places.try_take(from.parse().unwrap(), &activity);
        activity.set_waits(waits);
        let taken = place.is_some();
        self.held.extend(place.map(|place| (Arc::new(place), activity)));
        taken
    }

    fn of(&self, address: &str) -> usize {
        let address: IpAddr = address.parse().unwrap();
        self.places.lock().all.values().filter(|entry| entry.client == address).count()
    }

    fn is_there(&self, held: usize) -> bool {
        self.places.lock().all.contains_key(&self.held[held].0.number)
    }

    fn asks(&self, held: usize, class: Class, from: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if let Some(from) = from {
            headers.insert("x-forwarded-for", HeaderValue::from_str(from).unwrap());
        }
        let place = &self.held[held].0;
        place.try_for(network(self.places.proxies.client(place.peer, &headers)), class)
    }
}

#[test]
fn one_address_keeps_no_other_out() {
    let mut desk = Desk::new(&[]);
    assert!((0..2000).all(|_| desk.open("10.0.0.1", true)));
    assert_eq!(desk.of("10.0.0.1"), UNKNOWN);
    assert!(!desk.is_there(0) && desk.is_there(1999));
    // Others take from the one that has the most, until all have alike.
    assert!((0..2000).all(|number| desk.open(&format!("10.0.1.{}", number % 4), true)));
    assert!(desk.of("10.0.1.0").abs_diff(desk.of("10.0.1.3")) <= 1);
    assert!((40..60).contains(&desk.of("10.0.0.1")), "{}", desk.of("10.0.0.1"));
}

#[test]
fn what_nobody_has_looked_at_yet_loses_no_place() {
    let mut desk = Desk::new(&[]);
    assert!((0..UNKNOWN).all(|_| desk.open("10.0.0.1", false)));
    assert!(!desk.open("10.0.0.2", true));
    desk.held[7].1.set_waits(true);
    assert!(desk.open("10.0.0.2", true));
    assert!(!desk.is_there(7) && desk.is_there(6));
    // A connection that ends gives its place back.
    desk.held.truncate(UNKNOWN - 10);
    assert!((0..10).all(|_| desk.open("10.0.0.3", false)));
}

#[test]
fn requests_that_are_let_in_keep_their_places_and_leave_some() {
    let mut desk = Desk::new(&[]);
    for number in 0..KNOWN {
        assert!(desk.open("10.0.0.1", false) && desk.asks(number, Asking, None));
    }
    // None of them waits for its client.
    assert!(desk.open("10.0.0.1", true) && !desk.asks(KNOWN, Asking, None));
    assert!((0..2000).all(|_| desk.open("10.0.0.1", true)));
    assert!((0..KNOWN).all(|number| desk.is_there(number)));
    assert_eq!(desk.of("10.0.0.1"), CONNECTIONS);
    // A silent client makes room, one that is at work does not.
    desk.held[3].1.age();
    desk.held[4].1.age();
    desk.held[4].1.set_waits(false);
    let last = desk.held.len() - 1;
    assert!(desk.asks(last, Asking, None) && !desk.is_there(3) && desk.is_there(4));
    assert!(!desk.asks(last - 1, Asking, None));
}

#[test]
fn who_only_asks_has_a_place_beside_any_number_of_uploads() {
    let mut desk = Desk::new(&[]);
    for number in 0..SENDING {
        assert!(desk.open("10.0.0.1", false) && desk.asks(number, Sending, None));
    }
    assert!(desk.open("10.0.0.1", false) && !desk.asks(SENDING, Sending, None));
    assert!(desk.asks(SENDING, Asking, None) && !desk.asks(SENDING, Sending, None));
    // On a connection that was one of them, the next needs no other place.
    assert!(desk.asks(0, Asking, None) && desk.asks(SENDING, Sending, None));
    assert!(!desk.asks(0, Sending, None) && desk.asks(1, Sending, None));
    // What can be given up makes room for either.
    desk.held[2].1.age();
    assert!(desk.asks(0, Sending, None) && !desk.is_there(2));
}

#[test]
fn behind_a_named_proxy_each_client_has_places_of_its_own() {
    let mut desk = Desk::new(&["127.0.0.1"]);
    for number in 0..UNKNOWN {
        assert!(desk.open("127.0.0.1", true) && desk.asks(number, Unknown, Some("1.2.3.4")));
    }
    assert!(desk.open("127.0.0.1", true) && desk.asks(UNKNOWN, Unknown, Some("5.6.7.8")));
    assert!((0..100).all(|_| desk.open("9.9.9.9", true)));
    assert!(desk.is_there(UNKNOWN) && desk.of("1.2.3.4") < UNKNOWN - 90);
    // Nobody else is believed.
    let last = desk.held.len() - 1;
    assert!(desk.asks(last, Unknown, Some("5.6.7.8")));
    assert_eq!(desk.of("5.6.7.8"), 1);
}

#[test]
fn who_loses_a_place_is_told() {
    let mut desk = Desk::new(&[]);
    assert!((0..=UNKNOWN).all(|_| desk.open("10.0.0.1", true)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let told = |held: usize, limit| {
        let lost = async { tokio::time::timeout(limit, desk.held[held].0.lost()).await.is_ok() };
        runtime.block_on(lost)
    };
    assert!(told(0, Duration::from_secs(5)));
    assert!(!told(1, Duration::from_millis(20)));
    assert!(desk.places.make_room());
    assert!(told(1, Duration::from_secs(5)));
}
