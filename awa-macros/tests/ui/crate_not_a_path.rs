use awa_macros::JobArgs;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(crate = "not a path")]
#[job(priority = 9)]
struct Resize {
    path: String,
    width: u32,
}

fn main() {}
