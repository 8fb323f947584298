//! Maintenance as a whole: its duties on a real database, the election, and the loop that runs them.

mod access;
mod duties;
mod leadership;
mod maintainer;
mod reports;
mod scheduler;
mod service;
mod support;
