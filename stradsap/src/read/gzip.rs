//! Gzip files: members one after the other, and nothing behind them.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::GzDecoder;

use super::source::Stream;

const FIRST_OF_MEMBER: u8 = 0x1f;

/// Unpacks the members of a file.
pub(super) struct Gzip {
    /// None at the end, and after an error.
    member: Option<GzDecoder<BufReader<Counted>>>,
}

/// What is packed, and how much of it was read.
struct Counted {
    packed: Stream,
    bytes: u64,
}

impl Gzip {
    pub(super) fn new(packed: Stream, room: usize) -> Gzip {
        Gzip { member: Some(GzDecoder::new(BufReader::with_capacity(room, Counted { packed, bytes: 0 }))) }
    }
}

impl Read for Gzip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            let n = member.read(buffer)?;
            if n > 0 {
                return Ok(n);
            }
            let Some(member) = self.member.take() else { break };
            self.member = next(member.into_inner())?;
        }
        Ok(0)
    }
}

/// The member that begins where another ended, if there is more.
fn next(mut rest: BufReader<Counted>) -> io::Result<Option<GzDecoder<BufReader<Counted>>>> {
    let first = rest.fill_buf()?.first().copied();
    let at = rest.get_ref().bytes - rest.buffer().len() as u64;
    match first {
        None => Ok(None),
        Some(FIRST_OF_MEMBER) => Ok(Some(GzDecoder::new(rest))),
        Some(other) => {
            let problem = format!(
                "what begins at byte {at} (with 0x{other:02x}) is no gzip data; more of it, or the end, was expected"
            );
            Err(io::Error::new(io::ErrorKind::InvalidData, problem))
        }
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.packed.read(buffer)?;
        self.bytes += n as u64;
        Ok(n)
    }
}
