//! Runs in turn, two at a time, and the medians of what one is of the other.

use crate::{Result, numbers::median, report::Report};

/// Reports of runs as they are, each with that of the run that followed it.
#[derive(Default)]
pub(super) struct Pairs {
    bases: Vec<Report>,
    others: Vec<Report>,
}

impl Pairs {
    /// Adds a pair.
    pub(super) fn push(&mut self, base: Report, other: Report) {
        self.bases.push(base);
        self.others.push(other);
    }

    /// The median run of the others, with the medians of the ratios, whose names end in `suffix`, and the figures of the median
    /// base.
    pub(super) fn report(self, suffix: &str) -> Result<Report> {
        let claim_p99 = |report: &Report| report.figures.get("claim_ms_p99").copied();
        let ratios = [
            ("throughput", self.ratios(|report| Some(report.jobs_per_s))),
            ("claim_p99", self.ratios(claim_p99)),
            ("server_cpu", self.ratios(|report| report.server_cpu_us_per_job)),
            ("log", self.ratios(|report| report.wal_bytes_per_job)),
        ];
        let mut report = Report::median(self.others).ok_or("no pair")?;
        report.runs.clear();
        for (name, values) in ratios {
            if values.is_empty() {
                continue;
            }
            let each: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
            report.setting(&format!("{name}_{suffix}_by_pair"), each.join(" "));
            report.figure(format!("{name}_{suffix}"), median(&values));
        }
        if let Some(base) = Report::median(self.bases) {
            report.figure("base_jobs_per_s", base.jobs_per_s);
            for (name, value) in [
                ("base_claim_ms_p99", claim_p99(&base)),
                ("base_server_cpu_us_per_job", base.server_cpu_us_per_job),
                ("base_wal_bytes_per_job", base.wal_bytes_per_job),
            ] {
                if let Some(value) = value {
                    report.figure(name, value);
                }
            }
        }
        Ok(report)
    }

    /// A figure of each other run over that of its base.
    fn ratios(&self, figure: impl Fn(&Report) -> Option<f64>) -> Vec<f64> {
        self.bases.iter().zip(&self.others).filter_map(|(base, other)| Some(figure(other)? / figure(base)?)).collect()
    }
}
