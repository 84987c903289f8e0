//! A comparison of runs on the same data: one file of numbers, some pictures, and a line for each run in the last table.

use std::path::Path;

use anyhow::{Context, Result};

use super::curve::{Curve, Point};
use super::plot::{self, Axis, Line, Panel};
use super::programs::file_name;
use crate::table::{Table, create};

/// Below this, how far an objective is above the least one is rounding.
const FLOOR: f64 = 1e-9;
/// An objective that many times the least one is off the picture.
const CEILING: f64 = 10.0;

/// What the objective is compared with.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    /// It is minimised and can't be less than `least`. Reached: within this part of it.
    Least {
        /// The least objective.
        least: f64,
        /// A part of it.
        part: f64,
    },
    /// It is minimised. Reached: not above this.
    AtMost(f64),
    /// It is maximised. Reached: not below this.
    AtLeast(f64),
}

/// Runs on the same data.
pub struct Study {
    /// The files' names begin with it.
    pub name: String,
    /// The title of the pictures.
    pub title: String,
    /// What samples are.
    pub samples: &'static str,
    /// What the objective is.
    pub objective: &'static str,
    /// What it is compared with.
    pub goal: Goal,
    /// The runs.
    pub curves: Vec<Curve>,
    /// The pictures: what each file's name ends in, and which curves are in it. One of the whole study if there is none.
    pub pictures: Vec<(String, Vec<usize>)>,
}

const COLUMNS: [&str; 12] = [
    "run",
    "epoch",
    "rounds",
    "updates",
    "samples",
    "seconds",
    "objective",
    "above_least",
    "columns_read",
    "staleness",
    "bytes_sent",
    "diverged_in",
];

/// The columns of the last table.
pub const SUMMARY: [&str; 8] = ["study", "run", "epochs", "rounds", "updates", "samples", "seconds", "best objective"];

impl Goal {
    /// Whether an objective is good enough.
    pub fn reached(self, objective: f64) -> bool {
        match self {
            Goal::Least { least, part } => above(objective, least) <= part,
            Goal::AtMost(most) => objective <= most,
            Goal::AtLeast(least) => objective >= least,
        }
    }

    /// What the table says about it.
    pub fn said(self) -> String {
        match self {
            Goal::Least { least, part } => format!("within {part:e} of the least, {least:.6e}"),
            Goal::AtMost(most) => format!("of {most:.6e} at most"),
            Goal::AtLeast(least) => format!("of {least:.6e} at least"),
        }
    }

    fn best(self, points: &[Point]) -> Option<f64> {
        let objectives = points.iter().map(|point| point.objective);
        if matches!(self, Goal::AtLeast(_)) { objectives.reduce(f64::max) } else { objectives.reduce(f64::min) }
    }
}

fn above(objective: f64, least: f64) -> f64 {
    (objective - least) / least.abs()
}

impl Study {
    /// Writes the numbers and draws the pictures; gives the files' names.
    ///
    /// # Errors
    /// A file can't be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<String>> {
        let csv = format!("{}.csv", file_name(&self.name));
        let path = folder.join(&csv);
        self.numbers().write_csv(create(&path)?).with_context(|| format!("can't write {}", path.display()))?;
        let mut files = vec![csv];
        let whole = [(String::new(), (0..self.curves.len()).collect::<Vec<_>>())];
        for (suffix, curves) in if self.pictures.is_empty() { &whole[..] } else { &self.pictures } {
            let (dash, title) = if suffix.is_empty() { ("", self.title.clone()) } else { ("-", self.titled(suffix)) };
            let svg = format!("{}{dash}{}.svg", file_name(&self.name), file_name(suffix));
            let curves: Vec<&Curve> = curves.iter().filter_map(|&curve| self.curves.get(curve)).collect();
            plot::draw(&folder.join(&svg), &title, &self.panels(&curves))?;
            files.push(svg);
        }
        Ok(files)
    }

    fn titled(&self, suffix: &str) -> String {
        format!("{}, {suffix}", self.title)
    }

    fn numbers(&self) -> Table {
        let mut table = Table::new(&COLUMNS);
        let number = |value: Option<f64>| value.map_or_else(String::new, |x| x.to_string());
        for curve in &self.curves {
            let diverged = curve.diverged.map_or_else(String::new, |epoch| epoch.to_string());
            for p in &curve.points {
                let above = match self.goal {
                    Goal::Least { least, .. } => Some(above(p.objective, least)),
                    Goal::AtMost(_) | Goal::AtLeast(_) => None,
                };
                table.push(vec![
                    curve.name.clone(),
                    p.epoch.to_string(),
                    number(p.rounds),
                    number(p.updates),
                    p.samples.to_string(),
                    p.seconds.to_string(),
                    p.objective.to_string(),
                    number(above),
                    number(p.columns_read),
                    number(p.staleness),
                    p.bytes.to_string(),
                    diverged.clone(),
                ]);
            }
        }
        table
    }

    /// The three views of section 5 of the paper: progress a sample, samples a second, and both together.
    fn panels(&self, curves: &[&Curve]) -> [Panel; 3] {
        let (level, name): (Box<dyn Fn(f64) -> f64>, _) = match self.goal {
            Goal::Least { least, .. } => (
                Box::new(move |objective| above(objective, least).clamp(FLOOR, CEILING)),
                format!("{} above the least, as a part", self.objective),
            ),
            Goal::AtMost(_) | Goal::AtLeast(_) => (Box::new(|objective| objective), self.objective.to_owned()),
        };
        let logarithmic = matches!(self.goal, Goal::Least { .. });
        let axis = |name: &str, logarithmic| Axis { name: name.to_owned(), logarithmic };
        let lines = |x: fn(&Point) -> f64, y: &dyn Fn(&Point) -> f64| {
            let line = |curve: &&Curve| Line {
                label: curve.label(),
                points: curve.points.iter().map(|point| (x(point), y(point))).collect(),
            };
            curves.iter().map(line).collect::<Vec<_>>()
        };
        let objective = |point: &Point| level(point.objective);
        [
            Panel {
                title: "objective against samples",
                x: axis(self.samples, logarithmic),
                y: axis(&name, logarithmic),
                lines: lines(|p| p.samples, &objective),
            },
            Panel {
                title: "samples against time",
                x: axis("seconds", logarithmic),
                y: axis(self.samples, logarithmic),
                lines: lines(|p| p.seconds, &|p| p.samples),
            },
            Panel {
                title: "objective against time",
                x: axis("seconds", logarithmic),
                y: axis(&name, logarithmic),
                lines: lines(|p| p.seconds, &objective),
            },
        ]
    }

    /// What each run needed to come to the goal.
    pub fn summary(&self) -> Table {
        let mut table = Table::new(&SUMMARY);
        for curve in &self.curves {
            let reached = curve.points.iter().find(|point| self.goal.reached(point.objective));
            let cell = |value: Option<f64>, text: &dyn Fn(f64) -> String| match (value, reached, curve.diverged) {
                (Some(value), Some(_), _) => text(value),
                (None, Some(_), _) => "-".to_owned(),
                (_, None, Some(_)) => "diverged".to_owned(),
                (_, None, None) => "not reached".to_owned(),
            };
            let count = |x: f64| format!("{x:.0}");
            let best = self.goal.best(&curve.points).map_or_else(|| "-".to_owned(), |best| format!("{best:.6e}"));
            table.push(vec![
                self.name.clone(),
                curve.name.clone(),
                cell(reached.map(|p| f64::from(p.epoch)), &count),
                cell(reached.and_then(|p| p.rounds), &count),
                cell(reached.and_then(|p| p.updates), &count),
                cell(reached.map(|p| p.samples), &|x| format!("{x:.3e}")),
                cell(reached.map(|p| p.seconds), &|x| format!("{x:.3}")),
                best,
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(goal: Goal) -> Study {
        let point = |epoch: u32, objective: f64| Point {
            epoch,
            seconds: f64::from(epoch) / 4.0,
            samples: 100.0 * f64::from(epoch),
            objective,
            rounds: Some(f64::from(3 * epoch)),
            updates: None,
            columns_read: None,
            staleness: None,
            bytes: 0,
        };
        let curve = |name: &str, objectives: &[f64], diverged| Curve {
            name: name.to_owned(),
            points: objectives.iter().zip(1..).map(|(&objective, epoch)| point(epoch, objective)).collect(),
            diverged,
        };
        let curves = vec![
            curve("good, quick", &[5.0, 4.1, 4.0], None),
            curve("slow", &[9.0, 8.0], None),
            curve("wild", &[6.0, 600.0], Some(3)),
        ];
        Study {
            name: "a study".to_owned(),
            title: "a study".to_owned(),
            samples: "samples",
            objective: "objective",
            goal,
            curves,
            pictures: vec![("all".to_owned(), vec![0, 1, 2]), ("two".to_owned(), vec![0, 2])],
        }
    }

    #[test]
    fn the_first_point_within_the_goal_counts() {
        let study = study(Goal::Least { least: 4.0, part: 0.03 });
        let summary = study.summary().to_string();
        let rows: Vec<Vec<&str>> = summary.lines().map(|line| line.split("  ").collect()).collect();
        let cells = |row: usize| rows[row].iter().filter(|cell| !cell.is_empty()).map(|c| c.trim()).collect::<Vec<_>>();
        assert_eq!(cells(1), ["a study", "good, quick", "2", "6", "-", "2.000e2", "0.500", "4.000000e0"]);
        assert!(cells(2).contains(&"not reached") && cells(3).contains(&"diverged"), "{summary}");
    }

    #[test]
    fn goals_have_a_direction() {
        assert!(Goal::AtLeast(-5.0).reached(-4.0) && !Goal::AtLeast(-5.0).reached(-6.0));
        assert!(Goal::AtMost(5.0).reached(4.0) && !Goal::AtMost(5.0).reached(6.0));
        assert!(
            Goal::Least { least: 4.0, part: 0.125 }.reached(4.5)
                && !Goal::Least { least: -4.0, part: 0.125 }.reached(-3.0)
        );
    }

    #[test]
    fn a_study_leaves_numbers_and_pictures() {
        let folder = std::env::temp_dir().join(format!("stradsap-schmp-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        for goal in [Goal::Least { least: 4.0, part: 0.03 }, Goal::AtMost(4.2)] {
            let files = study(goal).write(&folder).expect("written");
            assert_eq!(files, ["a_study.csv", "a_study-all.svg", "a_study-two.svg"]);
            let text = |file: &str| std::fs::read_to_string(folder.join(file)).expect("a file");
            let csv = text("a_study.csv");
            assert_eq!(csv.lines().count(), 8, "{csv}");
            assert!(csv.contains("\"good, quick\",2,6,,200,0.5,4.1,"), "{csv}");
            for svg in ["a_study-all.svg", "a_study-two.svg"] {
                let svg = text(svg);
                assert!(svg.trim_end().ends_with("</svg>") && !svg.contains("NaN") && svg.contains("good, quick"));
                assert_eq!(svg.contains("slow"), svg.contains("a study, all"));
            }
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
