//! Tables and arrays, for which there are readers and writers.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use stradsap::{Csv, DVector, Element, Error, Numeric, ReadFiles, WriteFiles, WriteRows};

use super::place::{Place, located, place};

#[derive(Clone, Debug, PartialEq, Element, Serialize, Deserialize)]
struct Rating {
    user: String,
    stars: f32,
    year: Option<i16>,
    seen: bool,
}

/// A table is refused with the place, or it is the same when it is written and read again.
pub fn csv(bytes: &[u8]) {
    place(|place| {
        table::<Rating>(place, bytes, "table.csv", &Csv::new(), &Csv::new());
        let bars = Csv::new().header(false).delimiter(b'|').comment(b'#');
        table::<(String, f64)>(place, bytes, "bars.csv", &bars, &Csv::new().header(false));
    });
}

fn table<T: Element + Serialize + DeserializeOwned + std::fmt::Debug>(
    place: &Place,
    bytes: &[u8],
    name: &str,
    csv: &Csv,
    written: &Csv,
) {
    let path = place.file(name, bytes);
    match place.session.read_csv_with::<T>(&path, csv) {
        Ok(table) => {
            let again = place.path("again.csv");
            table.write_csv(&again).expect("it was read");
            let rows = table.to_vec().expect("it is here");
            if rows.is_empty() {
                // Without a record there is nobody to name the columns.
                return;
            }
            let again = place.session.read_csv_with::<T>(&again, written).expect("it was written");
            assert_eq!(format!("{:?}", again.to_vec().expect("it is here")), format!("{rows:?}"));
        }
        Err(error) => located(&error, &path, Some(bytes)),
    }
}

/// An array is refused, or it has as many bytes as were left behind its header, and is the same when it is written and read
/// again.
pub fn npy(bytes: &[u8]) {
    place(|place| {
        array::<u8>(place, bytes);
        array::<f32>(place, bytes);
        array::<[f32; 3]>(place, bytes);
        array::<[[i16; 2]; 2]>(place, bytes);
        let path = place.file("rows.npy", bytes);
        match place.session.read_npy_rows::<f64>(&path) {
            Ok(rows) => {
                assert!(rows.len() * rows.width() * 8 < bytes.len());
                let again = place.path("again.npy");
                rows.write_npy(&again).expect("it was read");
                let again = place.session.read_npy_rows::<f64>(&again).expect("it was written");
                assert_eq!((again.len(), again.width()), (rows.len(), rows.width()));
                assert_eq!(again.digest().expect("it is here"), rows.digest().expect("it is here"));
            }
            Err(error) => refused(&error, &path),
        }
    });
}

fn array<T: Numeric>(place: &Place, bytes: &[u8]) {
    let path = place.file("array.npy", bytes);
    match place.session.read_npy::<T>(&path) {
        Ok(array) => {
            assert!(array.len() * size_of::<T>() < bytes.len());
            let again = place.path("again.npy");
            array.write_npy(&again).expect("it was read");
            let again: DVector<T> = place.session.read_npy(&again).expect("it was written");
            assert_eq!(again.len(), array.len());
            assert_eq!(again.digest().expect("it is here"), array.digest().expect("it is here"));
        }
        Err(error) => refused(&error, &path),
    }
}

fn refused(error: &Error, path: &std::path::Path) {
    located(error, path, None);
}
