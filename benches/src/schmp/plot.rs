//! Pictures: three panels side by side, their legend below.

use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What is along it, with its unit.
    pub name: String,
    /// Whether equal steps are equal factors.
    pub logarithmic: bool,
}

/// A line of points.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name in the legend.
    pub label: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
}

/// A view of some runs. All panels of a picture have the same lines.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Above it.
    pub title: &'static str,
    /// Below it.
    pub x: Axis,
    /// On its left.
    pub y: Axis,
    /// The runs.
    pub lines: Vec<Line>,
}

const PANEL: (u32, u32) = (470, 400);
const TITLE: u32 = 34;
/// A row of the legend.
const ROW: u32 = 24;
const LEGEND_COLUMNS: usize = 3;
/// Told apart by people who don't see all colours, too (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(70, 70, 70),
    RGBColor(150, 120, 20),
];

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws an SVG of panels with the same lines.
///
/// # Errors
/// It can't be drawn or written.
pub fn draw(path: &Path, title: &str, panels: &[Panel]) -> Result<()> {
    let mut svg = String::new();
    picture(&mut svg, title, panels).map_err(|error| anyhow!("can't draw {}: {error}", path.display()))?;
    std::fs::write(path, svg).with_context(|| format!("can't write {}", path.display()))
}

fn picture(svg: &mut String, title: &str, panels: &[Panel]) -> Drawn {
    let labels: Vec<&str> =
        panels.first().into_iter().flat_map(|panel| panel.lines.iter().map(|line| line.label.as_str())).collect();
    let legend = labels.len().div_ceil(LEGEND_COLUMNS) as u32 * ROW + 10;
    let size = (PANEL.0 * panels.len().max(1) as u32, TITLE + PANEL.1 + legend);
    let area = SVGBackend::with_string(svg, size).into_drawing_area();
    area.fill(&WHITE)?;
    let (body, below) = area.titled(title, ("sans-serif", 20))?.split_vertically(PANEL.1);
    for (panel, place) in panels.iter().zip(body.split_evenly((1, panels.len().max(1)))) {
        draw_panel(panel, &place)?;
    }
    draw_legend(&labels, &below)?;
    area.present()?;
    Ok(())
}

/// Earlier lines are wider, so that they show where later ones lie on them.
fn stroke(line: usize, lines: usize) -> ShapeStyle {
    COLOURS[line % COLOURS.len()].stroke_width(2 + (lines - 1 - line).min(4) as u32)
}

fn draw_panel(panel: &Panel, area: &Area<'_>) -> Drawn {
    let values = |pick: fn(&(f64, f64)) -> f64| panel.lines.iter().flat_map(|line| &line.points).map(pick);
    let (x, y) = (Scale::new(&panel.x, values(|p| p.0)), Scale::new(&panel.y, values(|p| p.1)));
    let (x_step, y_step) = (x.spacing(7), y.spacing(7));
    let (x_log, y_log) = (x.logarithmic, y.logarithmic);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .caption(panel.title, ("sans-serif", 16))
        .x_label_area_size(44)
        .y_label_area_size(74)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(&panel.x.name)
        .y_desc(&panel.y.name)
        .axis_desc_style(("sans-serif", 14))
        .label_style(("sans-serif", 12))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(7)
        .y_labels(7)
        .x_label_formatter(&|v| tick(*v, x_step, x_log))
        .y_label_formatter(&|v| tick(*v, y_step, y_log))
        .draw()?;
    for (i, line) in panel.lines.iter().enumerate() {
        let points = || line.points.iter().copied();
        chart.draw_series(LineSeries::new(points(), stroke(i, panel.lines.len())))?;
        // A single epoch makes no line.
        let colour = COLOURS[i % COLOURS.len()];
        chart.draw_series(points().map(|at| Circle::new(at, 2, colour.filled())))?;
    }
    Ok(())
}

fn draw_legend(labels: &[&str], area: &Area<'_>) -> Drawn {
    let (width, _) = area.dim_in_pixel();
    let column = (width as usize / LEGEND_COLUMNS) as i32;
    for (i, label) in labels.iter().enumerate() {
        let x = 30 + (i % LEGEND_COLUMNS) as i32 * column;
        let y = 6 + (i / LEGEND_COLUMNS) as i32 * ROW as i32;
        area.draw(&PathElement::new([(x, y + 8), (x + 30, y + 8)], stroke(i, labels.len())))?;
        area.draw(&Text::new((*label).to_owned(), (x + 38, y), ("sans-serif", 14).into_font()))?;
    }
    Ok(())
}

/// From the least value to the largest, with some room.
#[derive(Clone, Debug)]
struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>) -> Scale {
        let logarithmic = axis.logarithmic;
        let good = values.filter(|v| v.is_finite() && (!logarithmic || *v > 0.0));
        let (low, high) = good.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
        let (low, high) = match (low <= high, logarithmic) {
            (true, true) => (low / 1.15, high * 1.15),
            (true, false) => {
                let room = ((high - low) * 0.05).max(high.abs() * 1e-6).max(1e-12);
                (if low == 0.0 { low } else { low - room }, high + room)
            }
            (false, _) => (1.0, 10.0),
        };
        Scale { low, high, logarithmic }
    }

    fn place(&self, value: f64) -> f64 {
        if self.logarithmic {
            (value.max(self.low / 10.0) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }

    /// The distance of the labels on a linear axis: 1, 2 or 5 times a power of ten.
    fn spacing(&self, most: usize) -> f64 {
        let least = (self.high - self.low) / most.max(1) as f64;
        let power = 10f64.powf(least.log10().floor());
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|x| x * power).find(|&step| step >= least).unwrap_or(least)
    }

    fn ticks(&self, most: usize) -> Vec<f64> {
        if !self.logarithmic {
            let step = self.spacing(most);
            let first = (self.low / step).ceil() as i64;
            return (first..).map(|n| n as f64 * step).take_while(|v| *v <= self.high).take(4 * most).collect();
        }
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let within = |v: &f64| (self.low..=self.high).contains(v);
        // Within few powers of ten there are labels between them.
        let between: &[f64] = match last - first {
            ..=1 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
            2 => &[1.0, 2.0, 5.0],
            3 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let every = (last - first).max(0) as usize / most.max(1) + 1;
        let powers = (first..=last).step_by(every);
        powers.flat_map(|power| between.iter().map(move |x| x * 10f64.powi(power))).filter(within).collect()
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        // What is off the picture stays near it.
        let place = self.place(*value).clamp(-0.1, 1.1);
        limit.0 + (f64::from(limit.1 - limit.0) * place).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.max_num_points().clamp(2, 7))
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// A label, with as many digits as tell it from its neighbours a step away.
fn tick(value: f64, step: f64, logarithmic: bool) -> String {
    let size = value.abs();
    if logarithmic {
        return if (0.01..1e4).contains(&size) {
            trimmed(&format!("{value:.3}"))
        } else {
            trimmed(&format!("{value:.1e}"))
        };
    }
    if size < step / 1e3 {
        return "0".to_owned();
    }
    if (1e-3..1e5).contains(&size) {
        let digits = (-step.log10().floor()).max(0.0) as usize;
        return trimmed(&format!("{value:.digits$}"));
    }
    let digits = (size.log10().floor() - step.log10().floor()).max(0.0) as usize;
    trimmed(&format!("{value:.digits$e}"))
}

/// Without zeros behind the point.
fn trimmed(text: &str) -> String {
    let (number, power) = text.split_once('e').map_or((text, None), |(number, power)| (number, Some(power)));
    let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    power.map_or_else(|| number.to_owned(), |power| format!("{number}e{power}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(logarithmic: bool, values: &[f64]) -> Scale {
        Scale::new(&Axis { name: "x".to_owned(), logarithmic }, values.iter().copied())
    }

    #[test]
    fn values_keep_their_order_and_stay_within() {
        for logarithmic in [false, true] {
            let scale = scale(logarithmic, &[0.002, 30.0, 7.0]);
            let places: Vec<i32> = [0.002, 0.5, 7.0, 30.0].iter().map(|v| scale.map(v, (10, 1010))).collect();
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
            assert!(places[0] >= 10 && places[3] <= 1010, "{places:?}");
        }
        // Equal factors are equal steps.
        let scale = scale(true, &[1.0, 1000.0]);
        let [a, b, c] = [1.0, 10.0, 100.0].map(|v| scale.map(&v, (0, 100_000)));
        assert!(((b - a) - (c - b)).abs() <= 1);
    }

    #[test]
    fn axes_have_some_labels_all_different() {
        let cases: [(bool, &[f64]); 7] = [
            (true, &[1e-9, 10.0]),
            (true, &[0.3, 0.4]),
            (true, &[1e5, 3e8]),
            (false, &[-1.62e7, -1.49e7]),
            (false, &[0.0, 12.5]),
            (false, &[1.1891, 1.1894]),
            (true, &[5.0]),
        ];
        for (logarithmic, values) in cases {
            let scale = scale(logarithmic, values);
            let ticks = scale.ticks(7);
            let mut labels: Vec<String> = ticks.iter().map(|v| tick(*v, scale.spacing(7), logarithmic)).collect();
            assert!((1..=14).contains(&labels.len()), "{values:?}: {labels:?}");
            let count = labels.len();
            labels.dedup();
            assert_eq!(labels.len(), count, "{values:?}: {labels:?}");
        }
    }

    #[test]
    fn nothing_at_all_is_drawn_as_well() {
        let axis = |logarithmic| Axis { name: "x".to_owned(), logarithmic };
        let panel = Panel { title: "none", x: axis(true), y: axis(false), lines: Vec::new() };
        let mut svg = String::new();
        picture(&mut svg, "none", &[panel]).expect("drawn");
        assert!(svg.trim_end().ends_with("</svg>"));
    }
}
