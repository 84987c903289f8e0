//! A run as a picture: what was measured, over epochs and over seconds of training.

use std::path::Path;

use plotters::prelude::*;

use crate::{Error, Result, files};

/// One line in both panels.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub label: &'static str,
    /// One value an epoch.
    pub values: Vec<f64>,
}

const SIZE: (u32, u32) = (960, 420);
const COLOURS: [RGBColor; 3] = [RGBColor(31, 119, 180), RGBColor(214, 95, 14), RGBColor(44, 140, 60)];

/// Draws an SVG of two panels: the series over epochs, and over the sum of `seconds`, which has one value an epoch.
/// `measure` names the vertical axis, with its unit.
///
/// # Errors
/// [`Error::File`] when it can't be written, [`Error::Plot`] when it can't be drawn.
pub fn draw(path: &Path, title: &str, measure: &str, seconds: &[f64], series: &[Series]) -> Result<()> {
    let mut svg = String::new();
    picture(&mut svg, title, measure, seconds, series)
        .map_err(|e| Error::Plot { path: path.to_path_buf(), problem: e.to_string() })?;
    files::write(path, |out| out.write_all(svg.as_bytes()))
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn picture(svg: &mut String, title: &str, measure: &str, seconds: &[f64], series: &[Series]) -> Drawn {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let panels = area.titled(title, ("sans-serif", 20))?.split_evenly((1, 2));
    let epochs: Vec<f64> = (1..=seconds.len()).map(|epoch| epoch as f64).collect();
    let elapsed: Vec<f64> = seconds
        .iter()
        .scan(0.0, |sum, s| {
            *sum += s;
            Some(*sum)
        })
        .collect();
    panel(&panels[0], "epoch", &epochs, measure, series)?;
    panel(&panels[1], "training time (s)", &elapsed, measure, series)?;
    area.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn panel(area: &Area<'_>, axis: &str, x: &[f64], measure: &str, series: &[Series]) -> Drawn {
    let width = x.iter().copied().fold(0.0, f64::max);
    let width = if width > 0.0 { width * 1.02 } else { 1.0 };
    let values = || series.iter().flat_map(|s| s.values.iter().copied());
    let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
    // Room at the top is for the legend.
    let margin = ((high - low) * 0.06).max(high.abs() * 0.005).max(1e-9);

    let mut chart = ChartBuilder::on(area)
        .margin(14)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..width, low - margin..high + 4.0 * margin)?;
    chart
        .configure_mesh()
        .x_desc(axis)
        .y_desc(measure)
        .axis_desc_style(("sans-serif", 15))
        .label_style(("sans-serif", 13))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(8)
        .y_labels(8)
        .x_label_formatter(&|v| tick(*v))
        .y_label_formatter(&|v| tick(*v))
        .draw()?;
    for (i, one) in series.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points = || x.iter().copied().zip(one.values.iter().copied());
        chart
            .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
            .label(one.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        // One epoch makes no line: a dot shows it.
        chart.draw_series(points().map(|at| Circle::new(at, 2, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 14))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

/// A label of an axis, without digits that say nothing.
fn tick(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
