use awa_macros::JobArgs;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(crate = "awa_model")]
#[job(kind = "", queue = 7, priority = 9, knd = "x", timeout = "2 minutes", max_attempts = 0)]
struct Resize {
    path: String,
    width: u32,
}

fn main() {}
