//! How a status and a report read on a terminal.

use std::fmt::{Display, Formatter, Result};

use crate::{FunctionsStatus, Report, Status};

impl Display for Status {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let functions = match self.functions {
            FunctionsStatus::Current => "current",
            FunctionsStatus::Pending if self.found == 0 => "not installed",
            FunctionsStatus::Pending => "to be installed again",
            FunctionsStatus::Newer => "of a newer release, left alone",
        };
        write!(f, "schema version {} of {}, functions {functions}", self.found, self.needed)?;
        for row in &self.applied {
            write!(f, "\n  applied {} by {}: {:04}_{}", row.applied_at, row.release, row.version, row.name)?;
        }
        for title in &self.pending {
            write!(f, "\n  pending: {title}")?;
        }
        Ok(())
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match (self.applied.len(), self.functions_installed) {
            (0, false) => write!(f, "schema version {}: nothing to do", self.to),
            (0, true) => write!(f, "schema version {}: functions installed", self.to),
            (count, _) => {
                write!(f, "schema version {} to {}: {count} migrations and the functions", self.from, self.to)
            }
        }
    }
}
