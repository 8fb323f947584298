use awa_macros::debug_handler;

#[debug_handler]
async fn resize(_job: u8, _a: u8, _b: u8, _c: u8, _d: u8) -> Result<(), String> {
    Ok(())
}

fn main() {}
