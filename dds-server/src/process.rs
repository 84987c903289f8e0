//! What a process can say of itself.

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

/// The hash of the running executable, computed once: the same bytes are the same build.
///
/// # Errors
/// Where the executable can't be read.
pub fn build_hash() -> io::Result<[u8; 32]> {
    static HASH: OnceCell<[u8; 32]> = OnceCell::new();
    let hash = HASH.get_or_try_init(|| {
        // What runs, though the file may have been replaced since.
        let file = match std::fs::File::open("/proc/self/exe") {
            Ok(file) => file,
            Err(_) => std::fs::File::open(std::env::current_exe()?)?,
        };
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file)?;
        Ok::<_, io::Error>(*hasher.finalize().as_bytes())
    })?;
    Ok(*hash)
}
