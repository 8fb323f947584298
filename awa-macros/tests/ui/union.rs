use awa_macros::JobArgs;

#[derive(JobArgs)]
#[job(crate = "awa_model")]
union Resize {
    small: u8,
    large: u64,
}

fn main() {}
