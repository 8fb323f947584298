use awa_macros::JobArgs;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(crate = "awa_model")]
#[job(kind = "resize")]
struct Resize<'a> {
    path: &'a str,
}

fn main() {}
