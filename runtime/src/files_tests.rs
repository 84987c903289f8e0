use super::*;

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, |out| out.write_all(bytes))
}

#[test]
fn a_file_is_replaced_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    put(&path, b"first").unwrap();
    let failed = write(&path, |out| {
        out.write_all(b"half")?;
        Err(io::Error::other("full"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "full");
    assert_eq!(fs::read(&path).unwrap(), b"first");
    put(&path, b"second").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn checks_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    check_folder(&root.join("a/b/c")).unwrap();
    check(&root.join("report.json")).unwrap();
    assert_eq!(fs::read_dir(root).unwrap().count(), 0);

    fs::write(root.join("plain"), "").unwrap();
    assert!(check_folder(&root.join("plain")).is_err());
    assert!(check_folder(&root.join("plain/below")).is_err());
    assert!(check(root).is_err());
    let missing = check(&root.join("missing/report.json")).unwrap_err().to_string();
    assert_eq!(missing, "No such file or directory (os error 2)");
    assert_eq!(check(Path::new("/")).unwrap_err().to_string(), "a name of a file was expected");
}

#[test]
fn paths_in_messages_stay_on_their_line() {
    assert_eq!(shown("plain ä.csv").to_string(), "plain ä.csv");
    assert_eq!(shown("a\nb\u{1b}[31m\t").to_string(), "a\\nb\\u{1b}[31m\\t");
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(shown(std::ffi::OsStr::from_bytes(b"a\xff\nb")).to_string(), "a\\xff\\nb");
    }
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    use super::*;

    fn fifo(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn a_link_stays_one_and_its_target_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("below")).unwrap();
        // To a file, to a name that nothing has yet, and by another link.
        fs::write(at("below/there"), "old").unwrap();
        symlink("below/there", at("to_file")).unwrap();
        symlink("below/new", at("to_none")).unwrap();
        symlink("to_none2", at("twice")).unwrap();
        symlink(at("below/other"), at("to_none2")).unwrap();
        for (link, target) in [("to_file", "below/there"), ("to_none", "below/new"), ("twice", "below/other")] {
            check(&at(link)).unwrap();
            put(&at(link), link.as_bytes()).unwrap();
            assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink(), "{link}");
            assert!(fs::symlink_metadata(at(target)).unwrap().is_file(), "{link}");
            assert_eq!(fs::read(at(target)).unwrap(), link.as_bytes());
        }
        // What fails leaves the target as it was.
        write(&at("to_file"), |_| Err(io::Error::other("full"))).unwrap_err();
        assert_eq!(fs::read(at("below/there")).unwrap(), b"to_file");
        assert_eq!(fs::read_dir(at("below")).unwrap().count(), 3, "no temporary file is left");
        symlink("circle", at("circle")).unwrap();
        assert!(put(&at("circle"), b"").is_err());
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("private");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        put(&path, b"new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn devices_are_written_to() {
        // By links: what replaced its device would not harm the machine.
        let folder = tempfile::tempdir().unwrap();
        for device in ["null", "full"] {
            let link = folder.path().join(device);
            symlink(Path::new("/dev").join(device), &link).unwrap();
            check(&link).unwrap();
            let written = put(&link, b"text");
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "{device}");
            assert!(fs::metadata(&link).unwrap().file_type().is_char_device(), "{device}");
            match device {
                "null" => written.unwrap(),
                _ => assert_eq!(written.unwrap_err().kind(), ErrorKind::StorageFull),
            }
        }
    }

    #[test]
    fn a_fifo_takes_it_all_or_says_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        fifo(&path);
        check(&path).unwrap();
        let alone = open_other(&path, true, Duration::ZERO).unwrap_err().to_string();
        assert!(alone.starts_with("nobody has opened this FIFO for reading"), "{alone}");
        // More than a pipe holds, with a reader that comes late and reads slowly.
        let text = vec![7; 1 << 20];
        let reader = std::thread::spawn({
            let path = path.clone();
            move || {
                std::thread::sleep(Duration::from_millis(100));
                fs::read(path).unwrap()
            }
        });
        put(&path, &text).unwrap();
        assert!(reader.join().unwrap() == text);
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
        // A reader that goes.
        let reader = std::thread::spawn({
            let path = path.clone();
            move || drop(File::open(path).unwrap())
        });
        let broken = put(&path, &text).unwrap_err();
        reader.join().unwrap();
        assert_eq!(broken.kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn reading_waits_for_a_writer_and_not_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        fifo(&path);
        let alone = reading::open_fifo(&path, Duration::from_millis(50)).unwrap_err().to_string();
        assert!(alone.starts_with("nobody has opened this FIFO for writing"), "{alone}");
        let regular = open_regular(&path).unwrap_err().to_string();
        assert_eq!(regular, "this is a FIFO or pipe; a regular file was expected");
        assert!(open_regular(folder.path()).unwrap_err().to_string().starts_with("this is a folder"));
        let writer = std::thread::spawn({
            let path = path.clone();
            move || put(&path, b"text")
        });
        assert_eq!(io::read_to_string(open(&path).unwrap()).unwrap(), "text");
        writer.join().unwrap().unwrap();
        fs::write(folder.path().join("plain"), "more").unwrap();
        assert_eq!(io::read_to_string(open_regular(&folder.path().join("plain")).unwrap()).unwrap(), "more");
    }

    #[test]
    fn a_folder_that_takes_nothing_is_told_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "kept").unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).unwrap();
        // A superuser may write everywhere.
        if File::create(folder.path().join("probe")).is_err() {
            for check in
                [check(&path), check(&folder.path().join("new")), check_folder(folder.path()), put(&path, b"x")]
            {
                assert_eq!(check.unwrap_err().kind(), ErrorKind::PermissionDenied);
            }
        }
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"kept");
    }
}
