//! Uses a factorisation of ratings: the items that a user will probably rate highest.

use std::path::PathBuf;

use clap::Parser;
use stradsap::kernels::dot;
use stradsap::prelude::*;
use stradsap_examples::ratings::Ratings;
use stradsap_examples::{AnyError, cli, print_line};
use stradsap_gallery::stored::place_of;

/// Recommends items to a user from a model that `sgdmf` or `ccdmf` has stored (`--output DIR`).
///
/// Prints a line for each item, the best first: its id, a tab, and the predicted rating, which is the inner product of the user's
/// row of P and the item's row of Q.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The folder of the model: p.npy, q.npy, users.txt, items.txt
    #[arg(long, value_name = "DIR")]
    model: PathBuf,

    /// The user's id, as in the ratings
    #[arg(long, value_name = "ID")]
    user: String,

    /// How many items
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Leave out items that the user has rated in this file
    #[arg(long, value_name = "PATH")]
    seen: Option<PathBuf>,
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let Args { model, user, top, seen } = cli::parse();
    let users = session.read_lines(model.join("users.txt"))?;
    let row = session.read_npy_rows::<f32>(model.join("p.npy"))?.get(place_of(&users, &user, "user")?)?;
    let items = session.read_lines(model.join("items.txt"))?;
    let q = session.read_npy_rows::<f32>(model.join("q.npy"))?;
    let seen = seen.map_or_else(|| Ok(Ratings::default()), |path| Ratings::read(&path))?;
    let rated = seen.rows.iter().filter(|rating| *seen.users[rating.user as usize] == *user);
    let rated = DMap::from_entries(session, rated.map(|rating| (seen.items[rating.item as usize].to_string(), ())))?;

    let scored = with!(
        [row, &rated],
        items.zip(&q).filter(|(item, _)| !rated.contains_key(item)).map(|(item, q)| (item.clone(), dot(row, q)))
    );
    let best = scored.top_k(top, |(_, score)| Ordered(*score))?;
    Ok(best.iter().try_for_each(|(item, score)| print_line(&format!("{item}\t{score}")))?)
}
