//! Where the secret comes from, and where it is refused.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;

use stradsap_dds_server::secret::*;

#[test]
fn a_secret_is_64_digits() {
    let secret = Secret::generate().unwrap();
    assert_ne!(secret, Secret::generate().unwrap());
    assert_eq!(Secret::from_hex(&secret.to_hex()).unwrap(), secret);
    assert_eq!(secret.to_hex().len(), 64);
    assert_eq!(format!("{secret:?}"), "Secret(..)");
    for wrong in ["", "abc", &"g".repeat(64), &"0".repeat(63), &"0".repeat(66)] {
        let error = Secret::from_hex(wrong).unwrap_err().to_string();
        assert!(error.contains("64 hexadecimal digits"), "{error}");
        assert!(wrong.len() < 4 || !error.contains(wrong), "a message must not show what may be a secret");
    }
}

#[test]
fn a_file_is_ours_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let secret = Secret::generate().unwrap();
    secret.write_file(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(Secret::from_file(&path).unwrap(), secret);
    assert!(matches!(secret.write_file(&path), Err(SecretError::File { .. })), "it is there already");

    for mode in [0o640, 0o604, 0o602, 0o610] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let error = Secret::from_file(&path).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()) && error.contains(&format!("{mode:04o}")), "{error}");
    }
    let missing = folder.path().join("missing");
    assert!(Secret::from_file(&missing).unwrap_err().to_string().contains("missing"));
}

#[test]
fn variables() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let secret = Secret::generate().unwrap();
    secret.write_file(&path).unwrap();
    let with = |digits: Option<&str>, file: Option<&std::path::Path>| {
        let (digits, file) = (digits.map(OsString::from), file.map(OsString::from));
        Secret::from_variables(move |name| match name {
            SECRET_VARIABLE => digits.clone(),
            SECRET_FILE_VARIABLE => file.clone(),
            other => panic!("{other}"),
        })
    };
    assert_eq!(with(None, None).unwrap(), None);
    assert_eq!(with(Some(&secret.to_hex()), None).unwrap(), Some(secret.clone()));
    assert_eq!(with(None, Some(&path)).unwrap(), Some(secret.clone()));
    assert!(matches!(with(Some(&secret.to_hex()), Some(&path)), Err(SecretError::Both)));
    let error = with(Some("secret"), None).unwrap_err().to_string();
    assert!(error.starts_with("STRADSAP_SECRET: "), "{error}");
}
