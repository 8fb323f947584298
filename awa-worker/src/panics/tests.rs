//! Panics that are caught, wherever they come from.

use super::*;

fn caught(body: impl FnOnce() + UnwindSafe) -> String {
    install_hook();
    catch(body).unwrap_err().to_string()
}

#[test]
fn message_and_place_are_kept() {
    let text = caught(|| panic!("width is {}", 0));
    assert!(text.contains("panics/tests.rs:"), "{text}");
    assert!(text.ends_with(": width is 0"), "{text}");
}

#[test]
fn any_payload_will_do() {
    assert!(caught(|| panic::panic_any(7_u8)).ends_with("a value that is not a text"));
    assert!(caught(|| panic!("literal")).ends_with("literal"));
}

#[test]
fn a_payload_that_panics_when_dropped_is_caught_too() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    assert!(caught(|| panic::panic_any(Bomb)).ends_with("a value that is not a text"));
}

#[test]
fn the_place_of_an_older_panic_is_not_reused() {
    install_hook();
    let inner = catch(|| {
        let first = catch(|| panic!("inner")).unwrap_err();
        assert!(first.place.is_some());
        panic::resume_unwind(Box::new("outer, without a hook"));
    });
    assert_eq!(inner.unwrap_err(), Panic { message: "outer, without a hook".to_owned(), place: None });
}

#[tokio::test]
async fn a_future_is_caught_in_poll_and_in_drop() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let after_await = CatchPanic::new(Box::pin(async {
        tokio::task::yield_now().await;
        panic!("late");
    }));
    let panic: Result<(), Panic> = after_await.await;
    assert!(panic.unwrap_err().to_string().ends_with("late"));

    let bomb = Bomb;
    drop(CatchPanic::new(Box::pin(async move {
        let _bomb = bomb;
        std::future::pending::<()>().await;
    })));
}
