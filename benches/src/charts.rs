//! The charts of a report: jobs a second over time, and latency by percentiles.

use std::path::Path;

use hdrhistogram::Histogram;
use plotters::prelude::{
    BLACK, ChartBuilder, Color as _, IntoDrawingArea as _, IntoLogRange as _, LineSeries, RGBColor, SVGBackend, WHITE,
};

use crate::{Result, report::Report};

const SIZE: (u32, u32) = (860, 360);
const LINE: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
/// Points of a line over percentiles, spaced by what is left above them.
const STEPS: u32 = 60;

/// Writes what there is to draw beside `json`: `NAME.svg` and `NAME-latency.svg`.
pub(crate) fn write(report: &Report, json: &Path) -> Result {
    if report.per_second.len() > 1 {
        rate(report, &json.with_extension("svg"))?;
    }
    if let Some(histogram) = &report.histogram {
        let stem = json.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        latency(report, histogram, &json.with_file_name(format!("{stem}-latency.svg")))?;
    }
    Ok(())
}

fn rate(report: &Report, path: &Path) -> Result {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let most = report.per_second.iter().copied().fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{}: jobs/s", report.scenario), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d(1.0..report.per_second.len() as f64, 0.0..most * 1.1)?;
    chart.configure_mesh().x_desc("seconds").light_line_style(WHITE.mix(0.0)).axis_style(BLACK.mix(0.6)).draw()?;
    let points = report.per_second.iter().enumerate().map(|(second, rate)| (second as f64 + 1.0, *rate));
    chart.draw_series(LineSeries::new(points, LINE.stroke_width(2)))?;
    area.present()?;
    Ok(())
}

fn latency(report: &Report, micros: &Histogram<u64>, path: &Path) -> Result {
    // One in so many is slower: 1 to the number of values, each step further by the same factor.
    let most = (micros.len() as f64).max(10.0);
    let points: Vec<(f64, f64)> = (0..=STEPS)
        .map(|step| most.powf(f64::from(step) / f64::from(STEPS)))
        .map(|one_in| (one_in, (micros.value_at_quantile(1.0 - 1.0 / one_in).max(1) as f64) / 1e3))
        .collect();
    let (least, slowest) = (points[0].1, points[points.len() - 1].1);
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{}: latency, ms; one job in so many is slower", report.scenario), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(72)
        .build_cartesian_2d((1.0..most).log_scale(), (least * 0.9..slowest * 1.1).log_scale())?;
    chart.configure_mesh().x_desc("one job in").light_line_style(WHITE.mix(0.0)).axis_style(BLACK.mix(0.6)).draw()?;
    chart.draw_series(LineSeries::new(points, LINE.stroke_width(2)))?;
    area.present()?;
    Ok(())
}
