use awa_macros::debug_handler;

#[debug_handler]
async fn resize() -> Result<(), String> {
    Ok(())
}

fn main() {}
