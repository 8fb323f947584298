use awa_macros::JobArgs;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(crate = "awa_model")]
#[job(unique(args(path)))]
enum Resize {
    One { path: String },
}

fn main() {}
