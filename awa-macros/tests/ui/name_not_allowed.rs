use awa_macros::JobArgs;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(crate = "awa_model")]
#[job(kind = "a\nb", queue = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789")]
struct Resize {
    path: String,
    width: u32,
}

fn main() {}
