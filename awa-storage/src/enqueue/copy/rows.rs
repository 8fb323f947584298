//! Rows in the binary format of COPY: lengths and bytes, so that nothing has to be escaped.

use std::time::Duration;

use awa_model::PreparedJob;
use chrono::{DateTime, Utc};

/// The columns of a row, in the order in which [`Rows::add`] writes them.
pub(super) const COLUMNS: &str =
    "id, run_at, timeout, priority, max_attempts, kind, queue, args, metadata, tags, trace_context";

const COLUMNS_COUNT: i16 = 11;

/// Begins the data: a signature, flags, and the length of an extension of the header.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Where PostgreSQL counts from, 2000-01-01 00:00 UTC, in microseconds since 1970.
const EPOCH: i64 = 946_684_800_000_000;

/// The type `text`, in arrays.
const TEXT_OID: i32 = 25;

/// Rows that were not sent yet.
pub(super) struct Rows(Vec<u8>);

impl Rows {
    pub(super) fn new() -> Self {
        Self(HEADER.to_vec())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What there is to send.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }

    /// The last rows, and the mark that no more follow.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend((-1_i16).to_be_bytes());
        self.0
    }

    pub(super) fn add(&mut self, id: i64, run_at: DateTime<Utc>, job: &PreparedJob) {
        self.0.extend(COLUMNS_COUNT.to_be_bytes());
        self.field(&id.to_be_bytes());
        self.field(&(run_at.timestamp_micros() - EPOCH).to_be_bytes());
        match job.timeout {
            Some(timeout) => self.interval(timeout),
            None => self.null(),
        }
        self.field(&job.priority.get().to_be_bytes());
        self.field(&job.max_attempts.to_be_bytes());
        self.field(job.kind.as_bytes());
        self.field(job.queue.as_bytes());
        self.json(&job.args);
        match &job.metadata {
            Some(metadata) => self.json(&metadata.to_string()),
            None => self.null(),
        }
        if job.tags.is_empty() {
            self.null();
        } else {
            self.texts(&job.tags);
        }
        match &job.trace_context {
            Some(context) => self.field(context.as_bytes()),
            None => self.null(),
        }
    }

    fn null(&mut self) {
        self.0.extend((-1_i32).to_be_bytes());
    }

    fn field(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend(bytes);
    }

    /// Every field has passed a limit far below what 32 bits count.
    fn length(&mut self, bytes: usize) {
        self.0.extend(i32::try_from(bytes).unwrap_or(i32::MAX).to_be_bytes());
    }

    /// Microseconds, days, months.
    fn interval(&mut self, span: Duration) {
        self.length(16);
        self.0.extend(microseconds(span).to_be_bytes());
        self.0.extend([0; 8]);
    }

    /// The version of the format of jsonb, then its text.
    fn json(&mut self, text: &str) {
        self.length(1 + text.len());
        self.0.push(1);
        self.0.extend(text.as_bytes());
    }

    /// An array of one dimension, without nulls, counted from 1.
    fn texts(&mut self, texts: &[String]) {
        self.length(20 + texts.iter().map(|text| 4 + text.len()).sum::<usize>());
        for number in [1, 0, TEXT_OID] {
            self.0.extend(number.to_be_bytes());
        }
        self.length(texts.len());
        self.0.extend(1_i32.to_be_bytes());
        for text in texts {
            self.field(text.as_bytes());
        }
    }
}

/// As `make_interval(secs => …)` counts them.
pub(super) fn microseconds(span: Duration) -> i64 {
    (span.as_secs_f64() * 1e6).round_ties_even() as i64
}

#[cfg(test)]
mod tests {
    use super::{HEADER, Rows};

    #[test]
    fn data_without_rows_is_a_header_and_an_end() {
        let mut rows = Rows::new();
        assert_eq!((rows.len(), HEADER.len()), (19, 19));
        assert_eq!(rows.take(), HEADER);
        assert_eq!(rows.end(), [0xff, 0xff]);
    }
}
