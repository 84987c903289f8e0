//! What a process can say of itself.

use std::fs::File;
use std::io;

use once_cell::sync::OnceCell;

/// What a process says goes into messages of one line, and to terminals.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The name of this machine, as the system has it, or `unknown`.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.map(|name| one_line(name.trim())).filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "unknown".to_owned())
}

/// The variable in which a process tells its children which file it runs and what the hash is: those that run the same file need
/// not read all of it again.
pub const BUILD: &str = "STRADSAP_BUILD";

/// The hash of the running executable, computed once: the same bytes are the same build.
///
/// # Errors
/// Where the executable can't be read.
pub fn build_hash() -> io::Result<[u8; 32]> {
    static HASH: OnceCell<[u8; 32]> = OnceCell::new();
    let hash = HASH.get_or_try_init(|| {
        let file = running()?;
        let of_parent = std::env::var(BUILD).ok().and_then(|note| hash_in(&note, &identity(&file)?));
        of_parent.map_or_else(|| hash_of(file), Ok)
    })?;
    Ok(*hash)
}

/// What children find in [`BUILD`], if this system can tell files apart.
pub fn build_note() -> Option<String> {
    let file = identity(&running().ok()?)?;
    Some(format!("{file}={}", blake3::Hash::from_bytes(build_hash().ok()?).to_hex()))
}

/// What runs, though the file may have been replaced since.
fn running() -> io::Result<File> {
    File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?))
}

fn hash_of(file: File) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(*hasher.finalize().as_bytes())
}

/// Which file it is, and of when.
#[cfg(unix)]
fn identity(file: &File) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let of = file.metadata().ok()?;
    // Whatever is written to it or about it changes the last time.
    let times = (of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec());
    Some(format!("{}:{}:{}:{}.{}:{}.{}", of.dev(), of.ino(), of.len(), times.0, times.1, times.2, times.3))
}

#[cfg(not(unix))]
fn identity(_file: &File) -> Option<String> {
    None
}

/// The hash in a note, if the note is of this file.
fn hash_in(note: &str, file: &str) -> Option<[u8; 32]> {
    let (of, hash) = note.rsplit_once('=')?;
    (of == file).then(|| blake3::Hash::from_hex(hash).ok()).flatten().map(|hash| *hash.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_of_one_file_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let id = || identity(&File::open(&path).unwrap()).unwrap();
        std::fs::write(&path, "one").unwrap();
        let hash = hash_of(File::open(&path).unwrap()).unwrap();
        let note = format!("{}={}", id(), blake3::Hash::from_bytes(hash).to_hex());
        assert_eq!(hash_in(&note, &id()), Some(hash));
        for torn in ["", "=", &note[1..], &note[..note.len() - 1], &note.replace('=', ":")] {
            assert_eq!(hash_in(torn, &id()), None, "{torn}");
        }
        std::thread::sleep(std::time::Duration::from_millis(20)); // longer than the clock of file systems
        std::fs::write(&path, "two").unwrap();
        assert_eq!(hash_in(&note, &id()), None);
        std::fs::write(folder.path().join("other"), "one").unwrap();
        std::fs::rename(folder.path().join("other"), &path).unwrap();
        assert_eq!(hash_in(&note, &id()), None);
    }

    #[test]
    fn this_process_has_a_note() {
        let note = build_note().unwrap();
        assert_eq!(hash_in(&note, &identity(&running().unwrap()).unwrap()), Some(build_hash().unwrap()));
    }
}
