//! What the runner promises, on a real server: races, refusals, traffic in the way, futures that are dropped.
//!
//! `AWA_TEST_DATABASE_URL` names the server, as for every test of this workspace (`cargo xtask test`).

mod applying;
mod dropping;
mod neighbours;
mod racing;
mod refusing;
mod scratch;
mod waiting;
