//! Plain text: lines, and the words of each.

use serde::{Deserialize, Serialize};

use super::apart::Travelling;
use super::blocks::{Format, Parsed};
use super::text::{each_line, last_line, utf8};

/// One string a line.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Lines;

impl Travelling for Lines {}

impl Format for Lines {
    type Head = ();
    type Scratch = ();
    type Item = String;

    fn head(&self, _: &[u8], _: bool) -> Parsed<Option<((), usize)>> {
        Ok(Some(((), 0)))
    }

    fn scratch(&self) {}

    fn border(&self, (): &(), bytes: &[u8]) -> usize {
        last_line(bytes)
    }

    fn parse(&self, (): &(), bytes: &[u8], (): &mut (), items: &mut Vec<String>) -> Parsed<()> {
        each_line(bytes, |start, line| {
            items.push(utf8(start, line)?.to_string());
            Ok(())
        })
    }
}

/// The words of each line.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Tokens;

impl Travelling for Tokens {}

impl Format for Tokens {
    type Head = ();
    type Scratch = ();
    type Item = Vec<String>;

    fn head(&self, _: &[u8], _: bool) -> Parsed<Option<((), usize)>> {
        Ok(Some(((), 0)))
    }

    fn scratch(&self) {}

    fn border(&self, (): &(), bytes: &[u8]) -> usize {
        last_line(bytes)
    }

    fn parse(&self, (): &(), bytes: &[u8], (): &mut (), items: &mut Vec<Vec<String>>) -> Parsed<()> {
        each_line(bytes, |start, line| {
            items.push(utf8(start, line)?.split_whitespace().map(str::to_string).collect());
            Ok(())
        })
    }
}
