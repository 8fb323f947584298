use awa_macros::debug_handler;

#[debug_handler]
struct Resize;

fn main() {}
