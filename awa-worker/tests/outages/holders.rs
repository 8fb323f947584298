//! What holds up the cleaning up of rows from outside any session: slots and replicas, as far as `awa.status` tells of them. They
//! belong to the whole server, so each test has one of its own.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use awa_worker::fleet::{Holder, HolderKind, Holds, Status, WarningCode};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, PgPool};

use crate::server::PrivateServer;
use crate::support::until;

async fn run(pool: &PgPool, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(pool).await.expect(statement);
}

async fn text(pool: &PgPool, query: &str) -> String {
    sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(pool).await.expect(query)
}

async fn status(pool: &PgPool) -> Status {
    awa_worker::fleet::status(pool, Duration::from_secs(90)).await.expect("an answer")
}

async fn holders(pool: &PgPool) -> Vec<Holder> {
    status(pool).await.holders
}

async fn warned(pool: &PgPool) -> bool {
    status(pool).await.warnings.iter().any(|warning| warning.code == WarningCode::Holder)
}

/// As much of a replica as it takes to say, as `hot_standby_feedback` does, which rows its queries still read.
struct Replica(TcpStream);

impl Replica {
    /// Connects, and begins to read, from a slot or without one.
    async fn reading(server: &PrivateServer, slot: Option<&str>) -> Self {
        let from = text(&server.pool, "select pg_current_wal_flush_lsn()::text").await;
        let options: PgConnectOptions = server.url.parse().expect("a URL");
        let password = server.url.split([':', '@']).nth(2).expect("a password").to_owned();
        let stream = TcpStream::connect((options.get_host(), options.get_port())).expect("the server listens");
        let mut replica = Self(stream);
        let mut startup = 196_608_i32.to_be_bytes().to_vec();
        startup.extend(b"user\0postgres\0replication\0true\0application_name\0far away\0\0");
        replica.write(None, &startup);
        assert_eq!(replica.until(b'R'), 3_i32.to_be_bytes(), "it asks for the password");
        replica.write(Some(b'p'), format!("{password}\0").as_bytes());
        replica.until(b'Z');
        let slot = slot.map(|slot| format!("SLOT {slot} ")).unwrap_or_default();
        replica.write(Some(b'Q'), format!("START_REPLICATION {slot}PHYSICAL {from}\0").as_bytes());
        replica.until(b'W');
        replica
    }

    /// Says that its queries still see what was before this transaction.
    fn feed_back(&mut self, xid: u64) {
        let (epoch, xmin) = ((xid >> 32) as u32, xid as u32);
        let mut message = vec![b'h'];
        message.extend(0_i64.to_be_bytes());
        for number in [xmin, epoch, 0, 0] {
            message.extend(number.to_be_bytes());
        }
        self.write(Some(b'd'), &message);
    }

    fn write(&mut self, kind: Option<u8>, body: &[u8]) {
        let length = i32::try_from(body.len() + 4).expect("short");
        let message: Vec<u8> = kind.into_iter().chain(length.to_be_bytes()).chain(body.iter().copied()).collect();
        self.0.write_all(&message).expect("the server reads");
    }

    /// Reads up to a message of this kind, and answers what is in it.
    fn until(&mut self, kind: u8) -> Vec<u8> {
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).expect("the server answers");
            let length = i32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; usize::try_from(length - 4).expect("a length")];
            self.0.read_exact(&mut body).expect("the server answers");
            assert_ne!(head[0], b'E', "{}", String::from_utf8_lossy(&body));
            if head[0] == kind {
                return body;
            }
        }
    }
}

async fn next_xid(pool: &PgPool) -> u64 {
    text(pool, "select pg_snapshot_xmax(pg_current_snapshot())::text").await.parse().expect("a number")
}

#[tokio::test]
async fn a_replica_that_tells_what_its_queries_read_is_told_as_long_as_it_does() {
    let server = PrivateServer::new().await;
    let mut replica = Replica::reading(&server, None).await;
    assert_eq!(holders(&server.pool).await, [], "it has told nothing");
    replica.feed_back(next_xid(&server.pool).await);
    until("its word", async || !holders(&server.pool).await.is_empty()).await;
    let found = holders(&server.pool).await;
    let [holder] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((holder.what, holder.application.as_deref()), (HolderKind::Replica, Some("far away")));
    assert_eq!((holder.holds.as_slice(), holder.since), ([Holds::Rows].as_slice(), None));
    assert!(holder.xids < Some(1000) && !warned(&server.pool).await, "{holder:?}");
    drop(replica);
    until("its end", async || holders(&server.pool).await.is_empty()).await;
}

#[tokio::test]
async fn a_slot_of_a_replica_holds_up_rows_after_its_reader_has_gone_and_is_warned_of_then() {
    let server = PrivateServer::new().await;
    run(&server.pool, "select pg_create_physical_replication_slot('far', true)").await;
    assert_eq!(holders(&server.pool).await, [], "it keeps WAL, and no row");
    let mut replica = Replica::reading(&server, Some("far")).await;
    replica.feed_back(next_xid(&server.pool).await);
    until("its word", async || !holders(&server.pool).await.is_empty()).await;
    let found = holders(&server.pool).await;
    let [holder] = found.as_slice() else { panic!("once, and not as a replica too: {found:?}") };
    assert_eq!(
        (holder.what, holder.name.as_deref(), holder.state.as_deref()),
        (HolderKind::Slot, Some("far"), Some("active"))
    );
    assert!(holder.holds.contains(&Holds::Rows) && holder.pid.is_some() && !warned(&server.pool).await);
    drop(replica);
    until("its end", async || holders(&server.pool).await[0].state.as_deref() == Some("inactive")).await;
    let found = holders(&server.pool).await;
    assert!(found[0].holds.contains(&Holds::Rows) && found[0].pid.is_none() && warned(&server.pool).await, "{found:?}");
    run(&server.pool, "select pg_drop_replication_slot('far')").await;
    assert_eq!(holders(&server.pool).await, []);
}

#[tokio::test]
async fn a_logical_slot_that_nobody_reads_holds_up_system_tables_and_is_warned_of() {
    let mut server = PrivateServer::new().await;
    run(&server.pool, "alter system set wal_level = 'logical'").await;
    server.tell("stop");
    server.tell("start");
    until("the server", async || sqlx::query("select 1").execute(&server.pool).await.is_ok()).await;
    run(&server.pool, "select pg_create_logical_replication_slot('reader', 'pgoutput')").await;
    let found = holders(&server.pool).await;
    let [holder] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((holder.what, holder.name.as_deref()), (HolderKind::Slot, Some("reader")));
    assert_eq!(
        (holder.holds.as_slice(), holder.application.as_deref()),
        ([Holds::Catalogs].as_slice(), Some("logical"))
    );
    assert!(holder.xids.is_some() && warned(&server.pool).await, "{holder:?}");
    run(&server.pool, "select pg_drop_replication_slot('reader')").await;
    assert_eq!(holders(&server.pool).await, []);
}
