use awa_macros::debug_handler;

struct JobContext;
struct Data<T>(T);
struct Resize;

#[debug_handler]
async fn resize(_: JobContext, _: Resize) -> Result<(), String> {
    Ok(())
}

#[debug_handler]
async fn crop(_: Option<Data<u32>>, _: Resize) -> Result<(), String> {
    Ok(())
}

fn main() {}
