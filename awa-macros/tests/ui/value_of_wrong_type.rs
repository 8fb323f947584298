use awa_macros::JobArgs;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(crate = "awa_model")]
#[job(kind = resize, priority = "1", max_attempts = 2.5, timeout = 120, output = 7)]
struct Resize {
    path: String,
    width: u32,
}

fn main() {}
