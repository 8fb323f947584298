use awa_macros::JobArgs;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(crate = "awa_model")]
#[job(aliases("resize"))]
struct Resize {
    path: String,
    width: u32,
}

fn main() {}
