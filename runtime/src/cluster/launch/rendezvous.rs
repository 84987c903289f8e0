//! How the ranks of a launcher find their driver: rank 0 writes its addresses and the job's secret to a file that only
//! its user may read, in a folder that all machines of the job see; the others wait for it.

use std::fmt::Write as _;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, read_dir, remove_file, rename};
use std::io::{Error as IoError, ErrorKind, Read, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cluster::launch::host;
use crate::session::error::{Error, Result};

/// How long a rank waits for rank 0.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const SILENCE: Duration = Duration::from_secs(5);
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

const TITLE: &str = "stradsap rendezvous 1";
const LONGEST: u64 = 64 << 10;

/// What the driver tells its workers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Invitation {
    /// Where the driver listens, as `host:port`, to be tried in this order.
    pub(crate) addresses: Vec<String>,
    pub(crate) secret: String,
    pub(crate) host: String,
    pub(crate) pid: u32,
}

/// Without the secret.
impl std::fmt::Debug for Invitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Invitation { addresses, host, pid, .. } = self;
        f.debug_struct("Invitation").field("addresses", addresses).field("host", host).field("pid", pid).finish()
    }
}

impl Invitation {
    /// A driver in this process that listens at `bound`, which may be every interface of the machine.
    pub(crate) fn at(bound: SocketAddr, secret: String) -> Invitation {
        let host = host::host();
        let addresses = if bound.ip().is_unspecified() {
            // The addresses first: they need no name service. Where none of them leads here, the name may.
            let fits = |ip: &IpAddr| bound.is_ipv6() || ip.is_ipv4();
            let numbers = host::addresses().into_iter().filter(fits).map(|ip| SocketAddr::new(ip, bound.port()));
            numbers.map(|address| address.to_string()).chain([format!("{host}:{}", bound.port())]).collect()
        } else {
            vec![bound.to_string()]
        };
        Invitation { addresses, secret, host, pid: std::process::id() }
    }

    fn text(&self) -> String {
        let mut text = format!("{TITLE}\nhost {}\npid {}\nsecret {}\n", self.host, self.pid, self.secret);
        for address in &self.addresses {
            let _ = writeln!(text, "address {address}"); // a String takes everything
        }
        text
    }

    fn parse(text: &str) -> Option<Invitation> {
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return None;
        }
        let mut invitation = Invitation { addresses: Vec::new(), secret: String::new(), host: String::new(), pid: 0 };
        for line in lines {
            match line.split_once(' ')? {
                ("host", host) => invitation.host = host.to_owned(),
                ("pid", pid) => invitation.pid = pid.parse().ok()?,
                ("secret", secret) => invitation.secret = secret.to_owned(),
                ("address", address) => invitation.addresses.push(address.to_owned()),
                _ => return None,
            }
        }
        Some(invitation).filter(|m| m.pid != 0 && !m.secret.is_empty() && !m.addresses.is_empty())
    }
}

/// An older file is of no use to anybody: ranks wait for a minute, and drivers for five.
const STALE: Duration = Duration::from_secs(600);

/// A file that stands until this is dropped.
#[derive(Debug)]
pub(crate) struct Published {
    path: PathBuf,
    invitation: Invitation,
}

/// Writes the file, whole or not at all, in the place of an older one.
pub(crate) fn publish(path: &Path, invitation: &Invitation) -> Result<Published> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::File { path, source }
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(at(folder))?;
    own_folder(&std::fs::metadata(folder).map_err(at(folder))?).map_err(at(folder))?;
    sweep(folder);
    remove(path).map_err(at(path))?;
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    remove(&fresh).map_err(at(&fresh))?;
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(invitation.text().as_bytes())?;
        file.sync_all()?;
        rename(&fresh, path)
    };
    match write() {
        Ok(()) => Ok(Published { path: path.to_path_buf(), invitation: invitation.clone() }),
        Err(source) => {
            let _ = remove(&fresh); // only the first error is reported
            Err(at(path)(source))
        }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        // Another run may have taken the name since.
        if read(&self.path).is_ok_and(|there| there.as_ref() == Some(&self.invitation)) {
            let _ = remove_file(&self.path); // gone already is as good
        }
    }
}

/// Removes what runs left that were killed while their ranks met. It holds secrets, though of jobs that have ended.
fn sweep(folder: &Path) {
    let Ok(entries) = read_dir(folder) else { return };
    for entry in entries.filter_map(std::result::Result::ok) {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with("job-"));
        let stale = |found: &Metadata| {
            let age = found.modified().ok().and_then(|written| written.elapsed().ok());
            own_file(found).is_ok() && age.is_some_and(|age| age >= STALE)
        };
        if ours && std::fs::symlink_metadata(entry.path()).is_ok_and(|found| stale(&found)) {
            let _ = remove_file(entry.path()); // the next start tries again
        }
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Waits for the file of a job.
#[derive(Debug)]
pub(crate) struct Seeker {
    path: PathBuf,
    since: Instant,
    patience: Duration,
    reported: bool,
    last: Option<Invitation>,
}

impl Seeker {
    /// To wait for so long in all.
    pub(crate) fn new(path: impl Into<PathBuf>, patience: Duration) -> Seeker {
        Seeker { path: path.into(), since: Instant::now(), patience, reported: false, last: None }
    }

    /// What the file says, as soon as it is there. Asked again, since nobody answered at what it said (a run that was
    /// killed left it), it waits until the file says something else.
    pub(crate) fn next(&mut self) -> Result<Invitation> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            match read(&self.path) {
                Ok(Some(invitation)) if self.last.as_ref() != Some(&invitation) => {
                    self.last = Some(invitation.clone());
                    return Ok(invitation);
                }
                Ok(_) => {}
                Err(source) => return Err(Error::File { path: self.path.clone(), source }),
            }
            let waited = self.since.elapsed();
            if waited >= self.patience {
                return Err(Error::File { path: self.path.clone(), source: self.nobody() });
            }
            if waited >= SILENCE && !self.reported {
                self.reported = true;
                eprintln!("waiting for rank 0 to write its address to {}", self.path.display());
            }
            std::thread::sleep(pause.min(self.patience - waited));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn nobody(&self) -> IoError {
        let seconds = self.patience.as_secs();
        let message = match &self.last {
            None => format!(
                "rank 0 has not written its address here within {seconds} s; \
                 STRADSAP_RENDEZVOUS must be a folder that all machines of the job see"
            ),
            Some(Invitation { host, pid, .. }) => {
                format!("within {seconds} s no driver answered; this file is of process {pid} on {host}")
            }
        };
        IoError::new(ErrorKind::TimedOut, message)
    }
}

/// What the file says, if it is there.
fn read(path: &Path) -> std::io::Result<Option<Invitation>> {
    // Reading the folder makes NFS ask its server, where it would answer "no such file" from memory for a minute.
    let _ = path.parent().map(read_dir);
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    own_file(&file.metadata()?)?;
    let text = whole(file)?;
    Invitation::parse(&text)
        .map(Some)
        .ok_or_else(|| refused("not a rendezvous file of this version of stradsap".into()))
}

fn whole(file: File) -> std::io::Result<String> {
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

fn own_file(file: &Metadata) -> std::io::Result<()> {
    let (mode, owner) = (file.mode() & 0o777, file.uid());
    if !file.is_file() {
        Err(refused("not a plain file".into()))
    } else if owner != host::user() {
        Err(refused(format!("belongs to user {owner}; a file of user {} was expected", host::user())))
    } else if mode & 0o077 != 0 {
        Err(refused(format!("others may use this file (mode {mode:03o}); 600 was expected, since it holds the secret")))
    } else {
        Ok(())
    }
}

fn own_folder(folder: &Metadata) -> std::io::Result<()> {
    let (mode, owner) = (folder.mode() & 0o777, folder.uid());
    if owner != host::user() {
        Err(refused(format!("belongs to user {owner}; a folder of user {} was expected", host::user())))
    } else if mode & 0o022 != 0 {
        Err(refused(format!("others may write to this folder (mode {mode:03o}); 700 was expected")))
    } else {
        Ok(())
    }
}

fn refused(message: String) -> IoError {
    IoError::new(ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("stradsap-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            DirBuilder::new().mode(0o700).create(&folder).unwrap();
            Folder(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn invitation(port: u16) -> Invitation {
        Invitation::at(([127, 0, 0, 1], port).into(), "5ec2e7".into())
    }

    #[test]
    fn a_driver_is_reached_where_it_listens() {
        assert_eq!(invitation(7).addresses, ["127.0.0.1:7"]);
        assert_eq!(Invitation::at(([10, 0, 0, 9], 7).into(), String::new()).addresses, ["10.0.0.9:7"]);
        let everywhere = Invitation::at(([0, 0, 0, 0], 7).into(), String::new()).addresses;
        assert_eq!(everywhere.last(), Some(&format!("{}:7", host::host())));
        assert!(everywhere.iter().all(|address| !address.starts_with("127.") && !address.starts_with('[')));
    }

    fn soon(path: &Path) -> Result<Invitation> {
        Seeker::new(path, Duration::from_millis(30)).next()
    }

    #[test]
    fn ranks_meet_and_nothing_is_left() {
        let folder = Folder::new("meet");
        let path = folder.0.join("deeper").join("job-1");
        let seeker = std::thread::spawn({
            let path = path.clone();
            move || Seeker::new(path, Duration::from_secs(20)).next()
        });
        let published = publish(&path, &invitation(7)).unwrap();
        assert_eq!(seeker.join().unwrap().unwrap(), invitation(7));
        let modes =
            (path.metadata().unwrap().mode() & 0o777, path.parent().unwrap().metadata().unwrap().mode() & 0o777);
        assert_eq!(modes, (0o600, 0o700));
        drop(published);
        assert_eq!(read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_a_killed_run_left_is_replaced_and_waited_out() {
        let folder = Folder::new("stale");
        let path = folder.0.join("job-1");
        let stale = publish(&path, &invitation(1)).unwrap();
        let mut seeker = Seeker::new(&path, Duration::from_secs(20));
        assert_eq!(seeker.next().unwrap(), invitation(1));
        let waiting = std::thread::spawn(move || seeker.next());
        std::thread::sleep(Duration::from_millis(30));
        let fresh = publish(&path, &invitation(2)).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), invitation(2));
        drop(stale); // not its file any more
        assert_eq!(soon(&path).unwrap(), invitation(2));
        drop(fresh);
        assert!(!path.exists());
    }

    #[test]
    fn what_killed_runs_left_is_swept() {
        let folder = Folder::new("sweep");
        let left = folder.0.join("job-1");
        let stale = publish(&left, &invitation(1)).unwrap();
        let half = folder.0.join("job-2.4711.new");
        let other = folder.0.join("notes");
        for path in [&half, &other] {
            std::fs::write(path, "stradsap").unwrap();
            set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
        let here = || [&left, &half, &other].map(|path| path.exists());
        // Fresh ones may be of a run that begins now.
        drop(publish(&folder.0.join("job-3"), &invitation(3)).unwrap());
        assert_eq!(here(), [true, true, true]);
        for path in [&left, &half, &other] {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::now() - STALE).unwrap();
        }
        drop(publish(&folder.0.join("job-3"), &invitation(3)).unwrap());
        assert_eq!(here(), [false, false, true]);
        drop(stale);
    }

    #[test]
    fn what_others_may_use_is_refused() {
        let folder = Folder::new("modes");
        let path = folder.0.join("job-1");
        let _published = publish(&path, &invitation(1)).unwrap();
        set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let message = soon(&path).unwrap_err().to_string();
        assert!(message.contains("job-1: others may use this file (mode 640)"), "{message}");

        set_permissions(&folder.0, Permissions::from_mode(0o770)).unwrap();
        let message = publish(&folder.0.join("job-2"), &invitation(1)).unwrap_err().to_string();
        assert!(message.contains("others may write to this folder (mode 770)"), "{message}");
        set_permissions(&folder.0, Permissions::from_mode(0o700)).unwrap();

        let link = folder.0.join("job-3");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(soon(&link).is_err());
    }

    #[test]
    fn another_users_file_is_refused() {
        // The first of these that exists belongs to root.
        if host::user() != 0 {
            let message = own_file(&std::fs::metadata("/etc/passwd").unwrap()).unwrap_err().to_string();
            assert!(message.starts_with("belongs to user 0"), "{message}");
            return;
        }
        let folder = Folder::new("owner");
        let path = folder.0.join("job-1");
        let _published = publish(&path, &invitation(1)).unwrap();
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        let message = soon(&path).unwrap_err().to_string();
        assert!(message.contains("belongs to user 65534"), "{message}");
    }

    #[test]
    fn nobody_is_said_with_the_file() {
        let folder = Folder::new("nobody");
        let path = folder.0.join("job-1");
        let message = soon(&path).unwrap_err().to_string();
        assert!(message.contains("job-1: rank 0 has not written its address here"), "{message}");
        std::fs::write(&path, "hello\n").unwrap();
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(soon(&path).unwrap_err().to_string().contains("not a rendezvous file"));
    }

    #[test]
    fn the_text_is_read_back_and_nothing_else_is() {
        let both = Invitation { addresses: vec!["10.0.0.1:7".into(), "[fd00::1]:7".into()], ..invitation(1) };
        assert_eq!(Invitation::parse(&both.text()), Some(both.clone()));
        assert!(!format!("{both:?}").contains("5ec2e7"));
        for text in ["", "stradsap rendezvous 2\n", "stradsap rendezvous 1\n", "stradsap rendezvous 1\nwhat 1\n"] {
            assert_eq!(Invitation::parse(text), None, "{text}");
        }
    }
}
