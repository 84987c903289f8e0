//! Speed-ups over threads as a picture.

use std::fmt::Write;

use super::simulate::Row;

const WIDE: f64 = 560.0;
const HIGH: f64 = 400.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 24.0;

/// An SVG picture with logarithmic axes: the speed-ups, and what as many threads as there are could reach.
pub(super) fn picture(rows: &[Row]) -> String {
    let points: Vec<(f64, f64)> =
        rows.iter().map(|row| ((row.workers * row.threads) as f64, row.speedup.max(0.5))).collect();
    let most = points.iter().fold(2.0f64, |most, &(threads, speedup)| most.max(threads).max(speedup));
    let ends = (0.5f64.log2(), most.log2().ceil());
    let place = |value: f64, length: f64| (value.log2() - ends.0) / (ends.1 - ends.0) * length;
    let x = |threads: f64| LEFT + place(threads, WIDE);
    let y = |speedup: f64| TOP + HIGH - place(speedup, HIGH);
    let (width, height) = (LEFT + WIDE + 24.0, TOP + HIGH + 52.0);
    let mut svg = String::new();
    let mut line = |text: String| {
        svg.push_str(&text);
        svg.push('\n');
    };
    line(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">"
    ));
    line(format!("<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>"));
    let mut tick = 1.0;
    while tick <= most * 1.001 {
        let (tx, ty) = (x(tick), y(tick));
        let (right, bottom) = (LEFT + WIDE, TOP + HIGH);
        line(format!("<path d=\"M{tx:.1} {TOP}V{bottom}M{LEFT} {ty:.1}H{right}\" stroke=\"#ddd\"/>"));
        line(format!("<text x=\"{tx:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>", bottom + 18.0));
        line(format!("<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>", LEFT - 8.0, ty + 4.0));
        tick *= 2.0;
    }
    let (fx, fy, ex, ey) = (x(1.0), y(1.0), x(most), y(most));
    line(format!("<path d=\"M{fx:.1} {fy:.1}L{ex:.1} {ey:.1}\" stroke=\"#999\" stroke-dasharray=\"5 4\"/>"));
    let mut path = String::new();
    for (k, &(threads, speedup)) in points.iter().enumerate() {
        let _ = write!(path, "{}{:.1} {:.1}", if k == 0 { 'M' } else { 'L' }, x(threads), y(speedup)); // strings take all
    }
    line(format!("<path d=\"{path}\" fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"2\"/>"));
    for &(threads, speedup) in &points {
        line(format!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"#1f77b4\"/>", x(threads), y(speedup)));
    }
    let (middle, bottom) = (LEFT + WIDE / 2.0, TOP + HIGH + 40.0);
    line(format!("<text x=\"{middle}\" y=\"{bottom}\" text-anchor=\"middle\">threads of all workers</text>"));
    line(format!("<text x=\"{LEFT}\" y=\"14\">speed-up over one thread, simulated (dashed: ideal)</text>"));
    line("</svg>".to_string());
    svg
}
