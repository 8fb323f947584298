//! A tick with a duty that panics, which no configuration has.

use super::*;
use crate::Pass;
use async_trait::async_trait;
use awa_storage::testing::TestDatabase;
use tracing::Span;

#[derive(Debug)]
struct Panics;

#[async_trait]
impl Duty for Panics {
    fn name(&self) -> &'static str {
        "rescue"
    }

    fn span(&self) -> Span {
        Span::none()
    }

    async fn pass(&self) -> Result<Pass, Error> {
        panic!("as the test says")
    }
}

#[tokio::test]
async fn a_duty_that_panics_in_a_tick_is_told_and_the_others_are_done() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let config = MaintenanceConfig::default();
    let promoter = DutyName::Promotion.duty(&pool, config, &Arc::default());
    let duties: Vec<(DutyName, Arc<dyn Duty>)> =
        vec![(DutyName::Rescue, Arc::new(Panics)), (DutyName::Promotion, promoter)];
    let ticked = exhaust_all(duties, &pool, config, Duration::from_secs(60)).await;
    let told: Vec<_> = ticked.iter().map(|one| (one.duty, one.is_done, one.error.is_some())).collect();
    assert_eq!(told, [(DutyName::Promotion, true, false), (DutyName::Rescue, false, true)]);
    let status = awa_storage::admin::fleet::status(&pool, config.staleness).await.expect("an answer");
    let rescue = status.duties.iter().find(|duty| duty.name == "rescue").expect("it is told");
    assert_eq!((rescue.failures, rescue.error.as_deref()), (1, Some("panicked: as the test says")));
}
