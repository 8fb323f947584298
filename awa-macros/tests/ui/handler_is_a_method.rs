use awa_macros::debug_handler;

struct Resizer;

impl Resizer {
    #[debug_handler]
    async fn resize(&self, _job: u8) -> Result<(), String> {
        Ok(())
    }
}

fn main() {}
