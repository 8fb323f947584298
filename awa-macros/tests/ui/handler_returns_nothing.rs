use awa_macros::debug_handler;

#[debug_handler]
async fn resize(_job: u8) {}

fn main() {}
