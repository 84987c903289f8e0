//! Where bytes come from: files named by paths and patterns, packed or not.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::gzip::Gzip;
use crate::{Error, Result, files};

/// What unpackers read at once.
const PACKED: usize = 1 << 18;
/// How much longer packed text gets, roughly: only to guess how many threads are worth while.
const UNPACKED: u64 = 6;

/// Bytes as they are parsed.
pub(crate) type Stream = Box<dyn Read + Send>;

/// One file to read, wherever it lies.
pub(crate) struct Input {
    /// What errors name.
    pub(crate) path: PathBuf,
    place: Origin,
}

enum Origin {
    Local,
    #[cfg(feature = "remote")]
    Remote(super::remote::Object),
    #[cfg(test)]
    Memory(Vec<u8>),
}

impl Input {
    pub(super) fn local(path: PathBuf) -> Self {
        Input { path, place: Origin::Local }
    }

    #[cfg(feature = "remote")]
    pub(crate) fn remote(path: PathBuf, object: super::remote::Object) -> Self {
        Input { path, place: Origin::Remote(object) }
    }

    /// Bytes that a test made.
    #[cfg(test)]
    pub(crate) fn memory(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Input { path: PathBuf::from(name), place: Origin::Memory(bytes.into()) }
    }

    /// The bytes, unpacked if the name ends in `.gz` or `.zst`.
    pub(crate) fn open(&self) -> Result<Stream> {
        let raw = self.raw().map_err(|source| self.error(source))?;
        Ok(match packing(&self.path) {
            None => raw,
            Some(Packing::Gzip) => Box::new(Gzip::new(raw, PACKED)),
            Some(Packing::Zstd) => Box::new(Zstd { rest: Some(BufReader::with_capacity(PACKED, raw)), frame: None }),
        })
    }

    fn raw(&self) -> io::Result<Stream> {
        Ok(match &self.place {
            Origin::Local => Box::new(files::open(&self.path)?),
            #[cfg(feature = "remote")]
            Origin::Remote(object) => Box::new(object.open()?),
            #[cfg(test)]
            Origin::Memory(bytes) => Box::new(io::Cursor::new(bytes.clone())),
        })
    }

    pub(crate) fn is_local(&self) -> bool {
        matches!(self.place, Origin::Local)
    }

    /// Whether the bytes have to be unpacked.
    pub(crate) fn is_packed(&self) -> bool {
        packing(&self.path).is_some()
    }

    /// About how many bytes there will be, if that is known.
    pub(crate) fn size(&self) -> Option<u64> {
        let size = match &self.place {
            Origin::Local => std::fs::metadata(&self.path).ok()?.len(),
            #[cfg(feature = "remote")]
            Origin::Remote(_) => return None,
            #[cfg(test)]
            Origin::Memory(_) => return None,
        };
        Some(if packing(&self.path).is_some() { size.saturating_mul(UNPACKED) } else { size })
    }

    pub(crate) fn error(&self, source: io::Error) -> Error {
        Error::File { path: self.path.clone(), source }
    }
}

/// Opens a file to be read from its beginning to its end; one whose name ends in `.gz` or `.zst` is unpacked.
///
/// ```
/// use std::io::Read;
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("notes.txt");
/// # std::fs::write(&path, "a line").unwrap();
/// let mut text = String::new();
/// stradsap::open_unpacked(&path)?.read_to_string(&mut text).unwrap();
/// assert_eq!(text, "a line");
/// # Ok::<(), stradsap::Error>(())
/// ```
///
/// # Errors
/// [`Error::File`].
pub fn open_unpacked(path: impl AsRef<Path>) -> Result<Box<dyn Read + Send>> {
    Input::local(path.as_ref().to_path_buf()).open()
}

/// The file that a path or an address names.
pub(super) fn resolve_one(path: &Path) -> Result<Input> {
    #[cfg(feature = "remote")]
    if let Some(input) = super::remote::resolve(path)? {
        return Ok(input);
    }
    Ok(Input::local(path.to_path_buf()))
}

/// The files that a path, a pattern or an address names, in sorted order.
pub(crate) fn resolve(path: &Path) -> Result<Vec<Input>> {
    #[cfg(feature = "remote")]
    if let Some(input) = super::remote::resolve(path)? {
        return Ok(vec![input]);
    }
    let text = path.to_str().filter(|text| text.contains(['*', '?', '[']) && path.symlink_metadata().is_err());
    let Some(pattern) = text else { return Ok(vec![Input::local(path.to_path_buf())]) };
    let failed = |source| Error::File { path: path.to_path_buf(), source };
    let invalid = |error: glob::PatternError| {
        let problem = format!("{} at character {} of the pattern", error.msg, error.pos + 1);
        failed(io::Error::new(io::ErrorKind::InvalidInput, problem))
    };
    let mut paths = Vec::new();
    for found in glob::glob(pattern).map_err(invalid)? {
        match found {
            Ok(found) if found.is_dir() => {}
            Ok(found) => paths.push(found),
            Err(error) => {
                let path = error.path().to_path_buf();
                return Err(Error::File { path, source: error.into() });
            }
        }
    }
    if paths.is_empty() {
        let problem = "no file matches the pattern; at least one was expected";
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, problem)));
    }
    paths.sort();
    Ok(paths.into_iter().map(Input::local).collect())
}

#[derive(Clone, Copy, PartialEq)]
enum Packing {
    Gzip,
    Zstd,
}

fn packing(path: &Path) -> Option<Packing> {
    let extension = path.extension()?;
    if extension.eq_ignore_ascii_case("gz") {
        Some(Packing::Gzip)
    } else if extension.eq_ignore_ascii_case("zst") {
        Some(Packing::Zstd)
    } else {
        None
    }
}

/// The extension in lower case, of what is packed if it is.
pub(crate) fn extension(path: &Path) -> Option<String> {
    let plain = if packing(path).is_some() { path.file_stem().map(Path::new)? } else { path };
    plain.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase)
}

type Frame = ruzstd::decoding::StreamingDecoder<BufReader<Stream>, ruzstd::decoding::FrameDecoder>;

/// The frames of a zstd file, one after the other: tools that compress on several threads write many.
struct Zstd {
    /// What comes after the last frame that was begun.
    rest: Option<BufReader<Stream>>,
    frame: Option<Box<Frame>>,
}

impl Read for Zstd {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use std::io::BufRead;
        loop {
            if let Some(frame) = &mut self.frame {
                let n = frame.read(buffer)?;
                if n > 0 || buffer.is_empty() {
                    return Ok(n);
                }
            }
            if let Some(frame) = self.frame.take() {
                self.rest = Some(frame.into_inner());
            }
            let Some(mut rest) = self.rest.take() else { return Ok(0) };
            if rest.fill_buf()?.is_empty() {
                return Ok(0);
            }
            if skippable(&mut rest)? {
                self.rest = Some(rest);
                continue;
            }
            let frame =
                Frame::new(rest).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            self.frame = Some(Box::new(frame));
        }
    }
}

/// Skips a frame that holds no data, if one begins here.
fn skippable(rest: &mut BufReader<Stream>) -> io::Result<bool> {
    use std::io::BufRead;
    let start = rest.fill_buf()?;
    if start.len() < 8 || start[1..4] != [0x2a, 0x4d, 0x18] || start[0] & 0xf0 != 0x50 {
        return Ok(false);
    }
    let length = u64::from(u32::from_le_bytes([start[4], start[5], start[6], start[7]]));
    rest.consume(8);
    let skipped = io::copy(&mut rest.take(length), &mut io::sink())?;
    if skipped < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn unpacked(name: &str, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        Input::memory(name, bytes).open().unwrap().read_to_end(&mut all)?;
        Ok(all)
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text).unwrap();
        out.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    #[test]
    fn members_and_frames_follow_each_other() {
        let text = b"a line\n".repeat(1000);
        let twice = text.repeat(2);
        assert_eq!(unpacked("t.gz", &[gzip(&text), gzip(&text)].concat()).unwrap(), twice);
        assert_eq!(unpacked("t.ZST", &[zstd(&text), zstd(&text)].concat()).unwrap(), twice);
        let empty_frame = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        assert_eq!(unpacked("t.zst", &[&empty_frame[..], &zstd(&text)].concat()).unwrap(), text);
        assert_eq!(unpacked("t.txt", &text).unwrap(), text);
        assert_eq!(unpacked("t.zst", b"").unwrap(), b"");
    }

    #[test]
    fn broken_packing_is_an_error() {
        let text = b"a line\n".repeat(1000);
        for (name, packed) in [("t.gz", gzip(&text)), ("t.zst", zstd(&text))] {
            assert!(unpacked(name, &packed[..packed.len() / 2]).is_err(), "{name}");
            assert!(unpacked(name, &text).is_err(), "{name}");
        }
        let more = unpacked("t.gz", &[gzip(&text), b"junk".to_vec()].concat()).unwrap_err().to_string();
        let at = gzip(&text).len();
        let want =
            format!("what begins at byte {at} (with 0x6a) is no gzip data; more of it, or the end, was expected");
        assert_eq!(more, want);
        assert!(unpacked("t.gz", &[gzip(&text), vec![0x1f; 40]].concat()).is_err());
        assert!(unpacked("t.zst", &[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1]).is_err());
    }

    #[test]
    fn patterns_give_sorted_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.csv", "a.csv", "c.txt", "odd[1].csv"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let names = |pattern: &str| -> Vec<String> {
            let inputs = resolve(&folder.path().join(pattern)).unwrap();
            inputs.iter().map(|input| input.path.file_name().unwrap().to_str().unwrap().to_string()).collect()
        };
        assert_eq!(names("*.csv"), ["a.csv", "b.csv", "odd[1].csv"]);
        assert_eq!(names("[ab].csv"), ["a.csv", "b.csv"]);
        assert_eq!(names("odd[1].csv"), ["odd[1].csv"]); // it exists literally
        assert_eq!(names("missing.csv"), ["missing.csv"]); // reading it says so
        let none = resolve(&folder.path().join("*.npy")).map(|_| ()).unwrap_err().to_string();
        assert!(none.ends_with("*.npy: no file matches the pattern; at least one was expected"), "{none}");
        let bad = resolve(&folder.path().join("a[.csv")).map(|_| ()).unwrap_err().to_string();
        assert!(bad.contains("of the pattern"), "{bad}");
    }

    #[test]
    fn extensions_are_those_of_what_is_packed() {
        let of = |name: &str| extension(Path::new(name));
        assert_eq!(of("a/b.TSV.gz").as_deref(), Some("tsv"));
        assert_eq!(of("b.csv.zst").as_deref(), Some("csv"));
        assert_eq!((of("b.gz"), of("b.npy").as_deref()), (None, Some("npy")));
    }
}
