use awa_macros::debug_handler;

#[debug_handler]
fn resize(_job: u8) -> Result<(), String> {
    Ok(())
}

fn main() {}
