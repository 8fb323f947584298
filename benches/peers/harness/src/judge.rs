//! Asks the database how many jobs are left: nothing that a peer believes of itself enters a figure.

use tokio_postgres::{Client, NoTls};

use crate::Result;

/// A connection of its own, and the peer's question.
pub(crate) struct Judge {
    client: Client,
    question: String,
}

impl Judge {
    /// Connects. The peer's schema exists by now.
    pub(crate) async fn connect(url: &str, left: &str) -> Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("judge: {error}");
            }
        });
        Ok(Self { client, question: format!("select ({left})::bigint") })
    }

    /// Jobs that are not completed.
    pub(crate) async fn left(&self) -> Result<u64> {
        let row = self.client.query_one(self.question.as_str(), &[]).await?;
        Ok(u64::try_from(row.try_get::<_, i64>(0)?)?)
    }

    /// Lets the planner know what is there. For a queue that was filled at one go only: of an empty one it would learn that
    /// queues are empty.
    pub(crate) async fn analyze(&self) -> Result {
        Ok(self.client.batch_execute("analyze").await?)
    }
}
