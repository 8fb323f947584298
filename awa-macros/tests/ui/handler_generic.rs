use awa_macros::debug_handler;

#[debug_handler]
async fn resize<T>(_job: T) -> Result<(), String> {
    Ok(())
}

fn main() {}
