//! MPEG-TS: packets that are missing, by their counters and their first bytes. A transport stream has no index and no length;
//! where packets of a picture are lost with all of it, no decoder complains.

use super::gaps::Gap;
use super::places::Places;

/// Bytes that are read ahead: all of the file is read.
pub(super) const AHEAD: usize = 1 << 20;

/// The first byte of a packet.
const SYNC: u8 = 0x47;

/// Bytes of a packet: plain, with a time before it as Blu-rays have, and with sums for a transmission behind it.
const SIZES: [u64; 3] = [188, 192, 204];

/// Ticks of the clock in a second, and how many there are before it starts again.
const SECOND: f64 = 90_000.0;
const WRAP: i64 = 1 << 33;

/// Ticks between the times of packets and those of frames that are lost with them: pictures are stored in another order.
const NEAR: i64 = 90_000;

/// What a gap in the film is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Loss {
    /// Packets were lost.
    Packets(Gap),
    /// Packets are missing, and what is behind them can be decoded alone: they were lost, or somebody cut the film there.
    Jump(Gap),
}

/// Looks for packets of the stream `pid` that are missing where the film has `gaps`.
pub(super) fn look(file: &mut Places, pid: u16, codec: &str, gaps: &[Gap]) -> Option<Loss> {
    let (mut at, size) = first_packet(file)?;
    let mut scan = Scan { pid, codec, counter: None, before: None, lost: None };
    let mut jump = None;
    while let Some(packet) = file.bytes::<188>(at) {
        if packet[0] != SYNC {
            let Some(next) = next_packet(file, at, size) else { break };
            at = next;
            scan.lose(true);
            continue;
        }
        if let Some(loss) = scan.packet(&packet) {
            match gaps.iter().find(|gap| loss.is_at(gap)) {
                Some(gap) if !loss.is_joint() => return Some(Loss::Packets(*gap)),
                Some(gap) => jump = jump.or(Some(Loss::Jump(*gap))),
                None => {}
            }
        }
        at += size;
    }
    jump
}

/// Where the first packet begins, and how far packets are apart.
fn first_packet(file: &mut Places) -> Option<(u64, u64)> {
    let starts = (0..2 * SIZES[2]).flat_map(|at| SIZES.map(|size| (at, size)));
    let mut is_packet = |at: u64, size: u64| (0..5).all(|i| file.bytes::<1>(at + i * size) == Some([SYNC]));
    starts.into_iter().find(|(at, size)| is_packet(*at, *size))
}

/// Where packets go on behind bytes that are none.
fn next_packet(file: &mut Places, at: u64, size: u64) -> Option<u64> {
    let is_packet = |file: &mut Places, at| file.bytes::<1>(at) == Some([SYNC]);
    (at + 1..file.length()).find(|at| is_packet(file, *at) && is_packet(file, at + size))
}

/// Packets that are missing, between those of two pictures.
#[derive(Clone, Copy, Debug)]
struct Missing {
    /// When both are decoded, in ticks.
    before: Option<i64>,
    after: i64,
    /// There was something else in their place.
    is_overwritten: bool,
    /// The second one can be decoded alone.
    is_key: bool,
}

impl Missing {
    fn is_at(&self, gap: &Gap) -> bool {
        let ticks = |seconds: f64| (seconds * SECOND).round() as i64;
        let before = self.before.unwrap_or(self.after);
        since(before, ticks(gap.to)) >= -NEAR && since(ticks(gap.from), self.after) >= -NEAR
    }

    /// Somebody may have joined two parts there.
    fn is_joint(&self) -> bool {
        self.is_key && !self.is_overwritten
    }
}

/// Ticks from one time to another on a clock that starts again after a day.
fn since(from: i64, to: i64) -> i64 {
    (to.wrapping_sub(from).wrapping_add(WRAP / 2)).rem_euclid(WRAP) - WRAP / 2
}

/// What is known between two packets.
struct Scan<'a> {
    pid: u16,
    codec: &'a str,
    /// That of the last packet.
    counter: Option<u8>,
    /// When the last picture is shown.
    before: Option<i64>,
    /// Packets are missing since then; whether something is in their place.
    lost: Option<bool>,
}

impl Scan<'_> {
    fn lose(&mut self, is_overwritten: bool) {
        self.lost = Some(is_overwritten | self.lost.unwrap_or(false));
    }

    /// Looks at the next packet. Says what is missing when the next picture begins.
    fn packet(&mut self, packet: &[u8; 188]) -> Option<Missing> {
        let pid = u16::from_be_bytes([packet[1], packet[2]]) & 0x1FFF;
        if pid != self.pid {
            return None;
        }
        let (starts, counter) = (packet[1] & 0x40 != 0, packet[3] & 15);
        let (has_extra, has_data) = (packet[3] & 0x20 != 0, packet[3] & 0x10 != 0);
        let extra = if has_extra { 1 + usize::from(packet[4]) } else { 0 };
        let flags = if has_extra && packet[4] > 0 { packet[5] } else { 0 };
        const DISCONTINUITY: u8 = 0x80;
        const RANDOM_ACCESS: u8 = 0x40;
        let expected = |last: u8| if has_data { (last + 1) & 15 } else { last };
        // A packet may be sent twice.
        let fits = self.counter.is_none_or(|last| counter == expected(last) || counter == last);
        if !fits && flags & DISCONTINUITY == 0 {
            self.lose(false);
        }
        self.counter = Some(counter);
        let data = packet.get(4 + extra..).filter(|_| starts && has_data)?;
        let after = time(data)?;
        let missing = self.lost.take().map(|is_overwritten| {
            let is_key = flags & RANDOM_ACCESS != 0 || starts_anew(data, self.codec);
            Missing { before: self.before, after, is_overwritten, is_key }
        });
        self.before = Some(after);
        missing
    }
}

/// When the picture is shown that begins with these bytes.
fn time(data: &[u8]) -> Option<i64> {
    let head = data.get(..14)?;
    let is_timed = head.starts_with(&[0, 0, 1]) && head[6] & 0xC0 == 0x80 && head[7] & 0x80 != 0;
    let part = |at: usize| i64::from(u16::from_be_bytes([head[at], head[at + 1]]) >> 1);
    is_timed.then(|| i64::from(head[9] & 0x0E) << 29 | part(10) << 15 | part(12))
}

/// Whether there are headers in these bytes that a decoder can start with.
fn starts_anew(data: &[u8], codec: &str) -> bool {
    data.windows(4).any(|w| {
        let is_start = w.starts_with(&[0, 0, 1]);
        is_start
            && match codec {
                "mpeg1video" | "mpeg2video" => w[3] == 0xB3,
                "h264" => matches!(w[3] & 0x1F, 5 | 7),
                "hevc" => matches!(w[3] >> 1 & 0x3F, 16..=21 | 32..=34),
                _ => false,
            }
    })
}
