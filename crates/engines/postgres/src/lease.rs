//! Server numbers: each process on a schema has its own, so that no two ever make the same version.

use std::time::{Duration, Instant};

use entourage_model::Error;

use super::{Engine, error::Failure, lock::Name, migrations, numbering::LEVEL, row, time::database_millis};

const LEASE: Duration = Duration::from_secs(120);
const RENEW_AFTER: Duration = Duration::from_secs(40);

const TAKE: &str = "INSERT INTO servers (number, holder, leased_until, level, knows) \
     SELECT free.number, $1, clock_timestamp() + make_interval(secs => $2), $3, $4 \
     FROM generate_series(0, 1023) AS free (number) LEFT JOIN servers taken ON taken.number = free.number \
     WHERE taken.number IS NULL OR taken.leased_until < clock_timestamp() ORDER BY free.number LIMIT 1 \
     ON CONFLICT (number) DO UPDATE SET holder = excluded.holder, leased_until = excluded.leased_until, \
     level = excluded.level, knows = excluded.knows RETURNING number";
const RENEW: &str = "UPDATE servers SET leased_until = clock_timestamp() + make_interval(secs => $3) \
     WHERE number = $1 AND holder = $2 AND leased_until > clock_timestamp()";
const RELEASE: &str = "DELETE FROM servers WHERE number = $1 AND holder = $2";
const HIGH_WATER: &str = concat!("SELECT high_water, ", database_millis!(), " FROM relay");

#[derive(Clone, Copy, Debug)]
pub(super) struct Lease {
    pub(super) number: i16,
    holder: i64,
    /// The start of the lease, by this process's monotonic clock.
    from: Instant,
}

impl Engine {
    /// Takes a number and continues above every version stored that is not ahead of the time.
    pub(super) async fn take_lease(&self) -> Result<Lease, Failure> {
        let holder = rand::random::<i64>();
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        let statement = transaction.prepare_cached("SELECT pg_advisory_xact_lock($1)").await?;
        transaction.execute(&statement, &[&self.locks.number(Name::Lease)]).await?;
        let from = Instant::now();
        let statement = transaction.prepare_cached(TAKE).await?;
        let row = transaction
            .query_opt(&statement, &[&holder, &LEASE.as_secs_f64(), &LEVEL, &migrations::newest()])
            .await?
            .ok_or_else(|| Error::unavailable("all 1,024 server numbers of this schema are taken"))?;
        let number: i16 = row.get(0);
        let statement = transaction.prepare_cached(HIGH_WATER).await?;
        let began = self.time.begin();
        let found = transaction.query_one(&statement, &[]).await?;
        let (high_water, database) = (row::to_version(found.get(0)), self.time.learn(began, found.get(1)));
        transaction.commit().await.map_err(Failure::of_commit)?;
        self.versions.lock().renumber(number.unsigned_abs(), high_water, database);
        Ok(Lease { number, holder, from })
    }

    /// Before each commit. Versions are made only while much of the lease is left.
    pub(super) async fn keep_lease(&self) -> Result<(), Failure> {
        let mut held = self.lease.lock().await;
        match *held {
            Some(lease) if lease.from.elapsed() < RENEW_AFTER => return Ok(()),
            Some(lease) => {
                let from = Instant::now();
                let client = self.client().await?;
                let statement = client.prepare_cached(RENEW).await?;
                let renewed = client.execute(&statement, &[&lease.number, &lease.holder, &LEASE.as_secs_f64()]).await?;
                if renewed == 1 {
                    *held = Some(Lease { from, ..lease });
                    return Ok(());
                }
                tracing::warn!(number = lease.number, "the server number was lost to another process");
            }
            None => {}
        }
        *held = Some(self.take_lease().await?);
        Ok(())
    }

    pub(super) async fn release_lease(&self) -> Result<(), Failure> {
        let Some(lease) = self.lease.lock().await.take() else { return Ok(()) };
        let client = self.client().await?;
        let statement = client.prepare_cached(RELEASE).await?;
        client.execute(&statement, &[&lease.number, &lease.holder]).await?;
        Ok(())
    }
}
