use awa_macros::JobArgs;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(crate = "awa_model")]
#[job(kind = "resize", aliases("resize", "old", "", 7, "old", "a\tb"), priority = 1)]
struct Resize {
    path: String,
    width: u32,
}

fn main() {}
