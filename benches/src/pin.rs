//! What holds the horizon of VACUUM and of the cursors back during a run: transactions that stay open.

use clap::ValueEnum;
use sqlx::{Connection as _, Executor as _, PgConnection};

use crate::{Result, database::Scratch};

/// Which transaction stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pin {
    /// A REPEATABLE READ one that has read another table.
    Reader,
    /// A REPEATABLE READ one that has read awa.jobs_hot, whose locks keep every segment from being emptied.
    HotReader,
    /// One that has written another table, and so owns a transaction id.
    Writer,
    /// The same in another database of the server.
    OtherDatabase,
}

/// An open transaction.
pub(crate) struct Pinned {
    connection: PgConnection,
    other: Option<Scratch>,
}

impl Pin {
    /// Its name, as on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::HotReader => "hot-reader",
            Self::Writer => "writer",
            Self::OtherDatabase => "other-database",
        }
    }

    /// Opens the transaction.
    pub(crate) async fn open(self, scratch: &Scratch) -> Result<Pinned> {
        let other = match self {
            Self::OtherDatabase => Some(scratch.beside().await?),
            Self::Reader | Self::HotReader | Self::Writer => None,
        };
        let mut connection = other.as_ref().unwrap_or(scratch).connect().await?;
        connection.execute("create table public.orders (id bigint)").await?;
        connection
            .execute(match self {
                Self::Reader => "begin isolation level repeatable read; select count(*) from public.orders",
                Self::HotReader => "begin isolation level repeatable read; select count(*) from awa.jobs_hot",
                Self::Writer | Self::OtherDatabase => "begin; insert into public.orders values (1)",
            })
            .await?;
        Ok(Pinned { connection, other })
    }
}

impl Pinned {
    /// Ends the transaction.
    pub(crate) async fn release(mut self) -> Result {
        self.connection.execute("rollback").await?;
        self.connection.close().await?;
        match self.other {
            Some(other) => other.drop().await,
            None => Ok(()),
        }
    }
}
