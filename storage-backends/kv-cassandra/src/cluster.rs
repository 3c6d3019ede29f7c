//! The connection to a cluster, and the repetition of requests.

use crate::{
    access::{Access, Keys},
    error::{failed, is_final, is_unpreparable},
    refusal::{hint, refusal},
    schema::{self, Statements},
};
use polytrie_kv::{KvError, Result};
use scylla::{
    client::{
        execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder,
    },
    errors::ExecutionError,
    policies::speculative_execution::SimpleSpeculativeExecutionPolicy,
    statement::{Consistency, SerialConsistency},
};
use std::{
    fmt::{self, Display},
    future::Future,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};

/// Time after which a request that is not answered is cancelled and sent again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(6);
/// Time after which a read, or a write that may be repeated, is sent to another node as well.
const SPECULATE_AFTER: Duration = Duration::from_millis(800);
/// Interval at which each connection is checked. A connection that does not answer within the time of a request is
/// closed: the driver has no other limit for connecting and preparing, and by itself waits a minute for a node that
/// accepts connections and does not answer.
const ALIVE_EVERY: Duration = Duration::from_secs(3);
/// The first and the longest pause between attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A connection to a cluster and one keyspace in it, which engines share.
pub struct Cluster {
    /// `None` only during the drop.
    runtime: Option<Runtime>,
    link: Arc<Link>,
}

/// The session, statements and limits that a request needs.
pub(crate) struct Link {
    pub(crate) session: Session,
    pub(crate) statements: Statements,
    patience: Duration,
    /// The nodes that were named, for messages.
    pub(crate) nodes: String,
    /// The connection state that a test may cut.
    #[cfg(test)]
    pub(crate) line: crate::tests::Line,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.link.nodes).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Connects to a cluster through some of its nodes (`host:port`), and creates the keyspace and its tables if they
    /// do not exist and `create` is set.
    ///
    /// `patience` is how long a request is repeated while nodes are slow, or too few of them answer.
    ///
    /// # Errors
    ///
    /// If a file of `access` cannot be used, if no node answers within the patience, if the nodes refuse the credentials
    /// or their certificates are not accepted, if Cassandra does not allow the keyspace's name, or if tables are missing
    /// and `create` is not set.
    pub fn connect(
        nodes: &[String],
        keyspace: &str,
        access: &Access,
        patience: Duration,
        create: bool,
    ) -> Result<Arc<Self>> {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if keyspace.is_empty() || keyspace.len() > 48 || !keyspace.chars().all(is_word) {
            return Err(failed(
                "choosing a keyspace",
                format!("`{keyspace}` is no name for one, expected up to 48 of a-z, 0-9 and _"),
            ));
        }
        let keys = access.load()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("cassandra")
            .enable_all()
            .build()
            .map_err(KvError::thread)?;
        let (nodes, keyspace, access) = (nodes.to_vec(), keyspace.to_owned(), access.clone());
        let connected = wait(&runtime, async move {
            Link::open(&nodes, &keyspace, (&access, &keys), patience, create).await
        })?;
        Ok(Arc::new(Self { runtime: Some(runtime), link: Arc::new(connected?) }))
    }

    pub(crate) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }

    /// Runs a future on the threads of the connection, and waits for its result. The calling thread, which may belong
    /// to another runtime, is blocked.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        wait(self.runtime(), work)?
    }

    /// Runs a future on the threads of the connection; its result comes through the channel.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> mpsc::Receiver<T> {
        spawn(self.runtime(), work)
    }

    #[expect(clippy::expect_used, reason = "taken by `drop` only, after which nobody asks")]
    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Waiting for the threads would panic if the last handle is dropped in a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn spawn<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // The send fails if the caller has stopped waiting, and needs no answer.
        let _ = sender.send(work.await);
    });
    receiver
}

fn wait<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T> {
    received(&spawn(runtime, work))
}

/// Waits for the result of a spawned future. Fails if it panicked.
pub(crate) fn received<T>(receiver: &mpsc::Receiver<T>) -> Result<T> {
    receiver.recv().map_err(|_| failed("waiting for an answer", "the request ended in a panic"))
}

impl Link {
    async fn open(
        nodes: &[String],
        keyspace: &str,
        (access, keys): (&Access, &Keys),
        patience: Duration,
        create: bool,
    ) -> Result<Self> {
        let names = nodes.join(", ");
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::Quorum)
            .serial_consistency(Some(SerialConsistency::Serial))
            .request_timeout(Some(REQUEST_TIMEOUT))
            .speculative_execution_policy(Some(Arc::new(SimpleSpeculativeExecutionPolicy {
                max_retry_count: 1,
                retry_interval: SPECULATE_AFTER,
            })))
            .build();
        let mut trying = Patience::new(patience, &names);
        let session = loop {
            let mut builder = SessionBuilder::new()
                .known_nodes(nodes)
                .keepalive_interval(ALIVE_EVERY)
                .keepalive_timeout(REQUEST_TIMEOUT)
                .default_execution_profile_handle(profile.clone().into_handle())
                .tls_context(keys.tls.clone());
            if let Some((user, password)) = &keys.login {
                builder = builder.user(user, password);
            }
            let error = match builder.build().await {
                Ok(session) => break session,
                Err(error) => error,
            };
            if let Some(reason) = refusal(&error, access) {
                return Err(failed("connecting", reason));
            }
            let error = format!("{error}{}", hint(&error, access));
            trying.after("connecting", &error, false).await?;
        };
        while let Err(error) = schema::expect(&session, keyspace, create).await {
            trying.after("looking for the tables", &error, is_final(&error)).await?;
        }
        let statements = loop {
            match Statements::prepare(&session, keyspace).await {
                Ok(statements) => break statements,
                Err(error) => {
                    // Tables that were just created are not known to every node at once.
                    let is_final = !create && is_unpreparable(&error);
                    trying.after("preparing statements", &error, is_final).await?;
                }
            }
        };
        Ok(Self {
            session,
            statements,
            patience,
            nodes: names,
            #[cfg(test)]
            line: crate::tests::Line::default(),
        })
    }

    /// Sends a request until it is answered: nodes may be slow, restarted or cut off for a while. The request must be
    /// one that changes nothing when it is repeated.
    ///
    /// # Errors
    ///
    /// If the cluster refuses it for good, or the patience is over.
    pub(crate) async fn persist<T, F: Future<Output = Result<T, ExecutionError>>>(
        &self,
        action: &'static str,
        request: impl Fn() -> F,
    ) -> Result<T> {
        let mut patience = self.patience();
        loop {
            let answer = self.send(request()).await?;
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => patience.after(action, &error, is_final(&error)).await?,
            }
        }
    }

    /// Sends a request once. The outer result is an error only if a test has cut the connection.
    pub(crate) async fn send<T>(&self, request: impl Future<Output = T>) -> Result<T> {
        #[cfg(test)]
        self.line.send()?;
        let answer = request.await;
        #[cfg(test)]
        self.line.answer()?;
        Ok(answer)
    }

    /// Starts the time within which a request is repeated.
    pub(crate) fn patience(&self) -> Patience<'_> {
        Patience::new(self.patience, &self.nodes)
    }
}

/// The rest of the time within which a request is repeated.
pub(crate) struct Patience<'a> {
    bound: Duration,
    /// The nodes, for messages.
    nodes: &'a str,
    /// The time that is spent, and the moment up to which it was counted.
    spent: Duration,
    counted: Instant,
    pause: Duration,
    /// Whether a warning was logged.
    is_told: bool,
}

impl<'a> Patience<'a> {
    fn new(bound: Duration, nodes: &'a str) -> Self {
        let (spent, counted) = (Duration::ZERO, Instant::now());
        Self { bound, nodes, spent, counted, pause: PAUSES.0, is_told: false }
    }

    /// Waits for a pause after an error.
    ///
    /// # Errors
    ///
    /// If the error is final, or the time is over.
    pub(crate) async fn after(
        &mut self,
        action: &'static str,
        error: &impl Display,
        is_final: bool,
    ) -> Result<()> {
        if is_final {
            return Err(failed(action, error));
        }
        let (seconds, nodes) = (self.bound.as_secs(), self.nodes);
        // An attempt takes no longer. If more time has passed, this process was stopped or its machine slept.
        self.spent += self.counted.elapsed().min(REQUEST_TIMEOUT + PAUSES.1);
        self.counted = Instant::now();
        if self.spent + self.pause > self.bound {
            return Err(failed(
                action,
                format!(
                    "too few nodes of the cluster ({nodes}) answered within {seconds} s, the last error: {error}; nothing that was stored is lost, run the same command again when they do"
                ),
            ));
        }
        if self.pause == PAUSES.1 && !self.is_told {
            self.is_told = true;
            tracing::warn!(
                "{action}: {error}; the cluster ({nodes}) is asked again for up to {seconds} s"
            );
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
        Ok(())
    }
}
