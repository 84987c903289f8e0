//! Draws a conflict grid: which blocks of ratings four workers run together, as the plan of a real loop has it.

use std::path::PathBuf;

use clap::Parser;
use stradsap::prelude::*;
use stradsap_examples::{AnyError, cli, files};

/// Draws the plan of a loop over ratings as an SVG, with a panel for each step, which shows the blocks that run together.
///
/// The loop is that of matrix factorisation, with 4 parts of users and 4 of items. Its steps are read off the plan's serial order.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The picture
    #[arg(long, value_name = "FILE.svg")]
    output: PathBuf,
}

/// Parts of either side.
const PARTS: usize = 4;
/// Users, and as many items.
const SIDE: usize = 400;
/// Pixels of a block.
const BLOCK: usize = 44;
const PANEL: usize = PARTS * BLOCK;
const GAP: usize = 36;
const TOP: usize = 34;
const LEFT: usize = 84;
const COLOURS: [&str; PARTS] = ["#1f77b4", "#d65f0e", "#2c8c3c", "#7a4fb5"];

/// A part of the users, and one of the items.
type Block = [usize; 2];

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let args: Args = cli::parse();
    // Each user has rated a quarter of the items, each item as often.
    let ratings = DVector::from_fn(session, SIDE * SIDE / 4, |n| {
        let (user, k) = (n % SIDE, n / SIDE);
        [user as u32, ((user + 4 * k + k / 7) % SIDE) as u32]
    })?;
    let mut p = DVector::from_fn(session, SIDE, |i| i as f32)?;
    let mut q = DVector::from_fn(session, SIDE, |i| i as f32)?;
    let report = async_parallel_for!(
        0..ratings.len(),
        [&ratings, &mut p, &mut q],
        |n| {
            let [user, item] = ratings[n];
            let mean = 0.5 * (p[user] + q[item]);
            (p[user], q[item]) = (mean, mean);
        },
        parts = PARTS
    )?;

    let mut blocks: Vec<Block> = Vec::new();
    for n in report.serial_order() {
        let block = ratings.get(n)?.map(|i| i as usize * PARTS / SIDE);
        if !blocks.contains(&block) {
            blocks.push(block);
        }
    }
    Ok(files::write(&args.output, |out| out.write_all(picture(&steps(&blocks)).as_bytes()))?)
}

/// Blocks in the order of the plan, in steps: one that shares a part with its step's others begins the next.
fn steps(blocks: &[Block]) -> Vec<Vec<Block>> {
    let mut steps: Vec<Vec<Block>> = vec![Vec::new()];
    for block in blocks {
        let shares = |other: &Block| other[0] == block[0] || other[1] == block[1];
        if steps.last().is_some_and(|step| step.iter().any(shares)) {
            steps.push(Vec::new());
        }
        steps.last_mut().into_iter().for_each(|step| step.push(*block));
    }
    steps
}

fn picture(steps: &[Vec<Block>]) -> String {
    let (width, height) = (LEFT + steps.len() * (PANEL + GAP), TOP + PANEL + 88);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<title>A conflict grid, run by four workers</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for part in 0..PARTS {
        let y = TOP + part * BLOCK + BLOCK / 2 + 4;
        svg += &text(LEFT - 10, y, "end", &format!("users {}", part + 1));
    }
    for (n, step) in steps.iter().enumerate() {
        let left = LEFT + n * (PANEL + GAP);
        svg += &text(left + PANEL / 2, TOP - 12, "middle", &format!("step {}", n + 1));
        for (at, block) in (0..PARTS * PARTS).map(|at| (at, [at / PARTS, at % PARTS])) {
            let (x, y) = (left + block[1] * BLOCK, TOP + at / PARTS * BLOCK);
            let runs = step.contains(&block);
            let fill = if runs { COLOURS[block[0]] } else { "#f1f1f1" };
            svg += &format!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{BLOCK}\" height=\"{BLOCK}\" fill=\"{fill}\" stroke=\"white\" stroke-width=\"2\"/>\n"
            );
            if runs {
                let label = format!("{}", block[0] + 1);
                svg +=
                    &text(x + BLOCK / 2, y + BLOCK / 2 + 5, "middle", &label).replace("<text", "<text fill=\"white\"");
            }
        }
        for part in 0..PARTS {
            svg += &text(left + part * BLOCK + BLOCK / 2, TOP + PANEL + 16, "middle", &format!("{}", part + 1));
        }
        svg += &text(left + PANEL / 2, TOP + PANEL + 34, "middle", "items");
    }
    for (line, caption) in CAPTION.into_iter().enumerate() {
        svg += &text(LEFT, TOP + PANEL + 58 + 18 * line, "start", caption);
    }
    svg + "</svg>\n"
}

const CAPTION: [&str; 2] = [
    "A block is the ratings of some users for some items. Blocks in one row or column share rows of the model.",
    "The four blocks of a step share none, and four workers run them together.",
];

fn text(x: usize, y: usize, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>\n")
}
