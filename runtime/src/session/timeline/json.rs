//! Timelines in Chrome's trace format, which Perfetto and chrome://tracing open.

use std::io::{self, Write};

use super::RecordedEvents;

/// What one process recorded.
pub(crate) struct Process {
    pub(crate) name: String,
    /// Its place in the picture, from 0.
    pub(crate) place: u32,
    /// Nanoseconds to be taken from its clock to get the driver's.
    pub(crate) ahead: i64,
    pub(crate) recorded: RecordedEvents,
}

/// Threads must have different numbers even in different processes.
const TRACKS: u64 = 1_000_000;

/// Writes one object with all processes' events: complete ones in microseconds since the first of them, and names.
pub(super) fn write(processes: &[Process], out: &mut dyn Write) -> io::Result<()> {
    let first = processes.iter().flat_map(|p| p.recorded.events.iter().map(|event| p.time(event.start))).min();
    let first = first.unwrap_or(0);
    let left_out: u64 = processes.iter().map(|process| process.recorded.left_out).sum();
    write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"events left out\":{left_out}}},\"traceEvents\":[")?;
    let mut comma = "\n";
    for process in processes {
        // 0 is the system's own in Linux traces.
        let pid = u64::from(process.place) + 1;
        let tid = |track: u32| pid * TRACKS + u64::from(track);
        let names = [("process_name", text(&process.name)), ("process_sort_index", process.place.to_string())];
        for (what, value) in names {
            let key = if what == "process_name" { "name" } else { "sort_index" };
            write!(out, "{comma}{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{},\"name\":\"{what}\"", tid(0))?;
            write!(out, ",\"args\":{{\"{key}\":{value}}}}}")?;
            comma = ",\n";
        }
        for (track, name) in process.recorded.tracks.iter().enumerate() {
            let (tid, name) = (tid(track as u32), text(name));
            write!(out, "{comma}{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_name\"")?;
            write!(out, ",\"args\":{{\"name\":{name}}}}}")?;
        }
        for event in &process.recorded.events {
            let name = event.category.name();
            let (ts, dur) =
                (micros(process.time(event.start).saturating_sub(first)), micros(event.duration.cast_signed()));
            write!(out, "{comma}{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{},\"ts\":{ts},\"dur\":{dur}", tid(event.track))?;
            match event.category.arg() {
                // Blocks are told apart at a glance.
                Some("block") => {
                    write!(out, ",\"cat\":\"{name}\",\"name\":\"{name} {0}\",\"args\":{{\"block\":{0}}}}}", event.arg)?;
                }
                Some(arg) => {
                    write!(out, ",\"cat\":\"{name}\",\"name\":\"{name}\",\"args\":{{\"{arg}\":{}}}}}", event.arg)?;
                }
                None => write!(out, ",\"cat\":\"{name}\",\"name\":\"{name}\"}}")?,
            }
        }
    }
    out.write_all(b"\n]}\n")
}

impl Process {
    /// On the driver's clock.
    fn time(&self, at: u64) -> i64 {
        i64::try_from(at).unwrap_or(i64::MAX).saturating_sub(self.ahead)
    }
}

/// Nanoseconds as microseconds, exactly.
fn micros(nanoseconds: i64) -> String {
    let nanoseconds = nanoseconds.max(0);
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// A string as JSON has it.
fn text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::{Category, Event};
    use super::*;

    #[test]
    fn events_of_all_processes_stand_on_one_clock() {
        let process = |place, ahead, start, category| Process {
            name: format!("worker \"{place}\"\n"),
            place,
            ahead,
            recorded: RecordedEvents {
                tracks: vec!["main".into()],
                events: vec![Event { category, start, duration: 1_500, track: 0, arg: 7 }],
                left_out: u64::from(place),
            },
        };
        let processes = [process(0, 0, 10_000, Category::Wait), process(3, -2_500, 9_750, Category::Block)];
        let mut out = Vec::new();
        write(&processes, &mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["otherData"]["events left out"], 3);
        let events = json["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 8);
        let named = events.iter().find(|event| event["pid"] == 4 && event["name"] == "process_name").unwrap();
        assert_eq!((&named["ph"], &named["args"]["name"]), (&"M".into(), &"worker \"3\"\n".into()));
        let spans: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
        assert_eq!((&spans[0]["ts"], &spans[1]["ts"]), (&0.0.into(), &2.25.into()));
        assert_eq!((&spans[1]["dur"], &spans[1]["name"]), (&1.5.into(), &"block 7".into()));
        assert_eq!((&spans[1]["cat"], &spans[1]["args"]["block"]), (&"block".into(), &7.into()));
        assert_ne!(spans[0]["tid"], spans[1]["tid"]);
        let track = events.iter().find(|event| event["tid"] == spans[0]["tid"] && event["name"] == "thread_name");
        assert_eq!(track.unwrap()["args"]["name"], "main");
    }

    #[test]
    fn nothing_is_valid_too() {
        let mut out = Vec::new();
        write(&[], &mut out).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(json["traceEvents"], serde_json::json!([]));
    }
}
