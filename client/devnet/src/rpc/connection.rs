//! Connections, and limits of the memory that the node uses for them.
//!
//! A client may send without reading, read without sending, or do either one byte a minute. Meanwhile the node
//! holds the bytes of incomplete requests and unread answers. So the socket beneath HTTP and WebSocket counts three
//! things for each connection: bytes of incomplete requests, bytes of running requests, and bytes of unread
//! answers. The limits are:
//!
//! - While the socket takes no more bytes of answers, no requests are read.
//! - While more than [`PAUSE`] bytes are unread, the next request waits.
//! - A client that reads nothing for [`PATIENCE`] is disconnected.
//! - Where all connections together hold more than [`MOST_HELD`] bytes, the one that holds most is closed.

use parking_lot::Mutex;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time,
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Number of requests of one WebSocket that run at the same time, without those that wait for a block.
const TURNS: usize = 8;

/// Number of running or waiting requests of one connection from which on no more are read.
const MOST_REQUESTS: usize = 1024;
/// Bytes of running or waiting requests of one connection from which on no more are read.
const MOST_ASKED: usize = 32 << 20;

/// Bytes of unread answers above which the next request waits.
const PAUSE: usize = 8 << 20;
/// Bytes of unread answers above which the connection is closed, beside those of one answer of the maximum size.
const MOST_UNREAD: usize = 64 << 20;
/// Time within which the client must read at least one byte of its answers.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of unread answers up to which a client never counts as stuck, since the system's own buffers hold more.
const LITTLE: usize = 64 << 10;

/// Bytes that may arrive beside those of a request: heads, frames, and the start of the next request.
const ENVELOPE: usize = 1 << 20;

/// Maximum number of bytes that all connections hold together.
const MOST_HELD: usize = 512 << 20;

/// All connections of the server, and the sum of the bytes that they hold.
#[derive(Debug)]
pub(super) struct Connections {
    open: Mutex<Vec<Weak<Connection>>>,
    held: AtomicUsize,
    /// Maximum number of bytes of a request; `max_response` is that of an answer.
    max_request: usize,
    max_response: usize,
}

/// One connection, with the bytes that the node holds for it.
#[derive(Debug)]
pub(super) struct Connection {
    state: Mutex<State>,
    turns: Arc<Semaphore>,
    /// Notified when bytes of an answer were sent or dropped.
    taken: Notify,
    closed: CancellationToken,
    all: Arc<Connections>,
}

#[derive(Debug)]
struct State {
    /// Bytes of an incomplete request.
    incoming: usize,
    /// Number of running or waiting requests; `asked` is the number of their bytes.
    requests: usize,
    asked: usize,
    /// Bytes of answers that are not sent yet.
    unread: usize,
    /// Time at which bytes were last sent, or at which the first of the unread bytes came.
    progress: Instant,
    /// Whether the last write to the socket would have blocked.
    is_full: bool,
    /// Waker of the reading task while it waits.
    reader: Option<Waker>,
}

impl State {
    const fn held(&self) -> usize {
        self.incoming + self.asked + self.unread
    }

    /// Whether the client has read nothing of its answers for too long.
    fn is_stuck(&self) -> bool {
        self.unread > LITTLE && self.progress.elapsed() > PATIENCE
    }
}

impl Connections {
    /// Creates an empty set of connections, whose requests and answers have at most these numbers of bytes.
    pub(super) fn new(max_request: usize, max_response: usize) -> Arc<Self> {
        let (open, held) = (Mutex::default(), AtomicUsize::new(0));
        Arc::new(Self { open, held, max_request, max_response })
    }

    /// Registers a new connection.
    pub(super) fn open(self: &Arc<Self>) -> Arc<Connection> {
        let state = State {
            incoming: 0,
            requests: 0,
            asked: 0,
            unread: 0,
            progress: Instant::now(),
            is_full: false,
            reader: None,
        };
        let connection = Arc::new(Connection {
            state: Mutex::new(state),
            turns: Arc::new(Semaphore::new(TURNS)),
            taken: Notify::new(),
            closed: CancellationToken::new(),
            all: Arc::clone(self),
        });
        self.open.lock().push(Arc::downgrade(&connection));
        connection
    }

    /// Returns the number of bytes that all connections hold.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Closes the connections of stuck clients, at regular intervals. The future never ends by itself.
    pub(super) async fn watch(self: Arc<Self>) {
        loop {
            time::sleep(PATIENCE / 12).await;
            for connection in self.all_open() {
                if connection.state.lock().is_stuck() {
                    connection.close(Some("it takes none of its answers"));
                }
            }
        }
    }

    fn all_open(&self) -> Vec<Arc<Connection>> {
        let mut open = self.open.lock();
        open.retain(|connection| connection.strong_count() > 0);
        open.iter().filter_map(Weak::upgrade).collect()
    }

    /// Closes connections, those that hold most first, until all together hold at most [`MOST_HELD`] bytes.
    fn make_room(&self) {
        while self.held() > MOST_HELD {
            let open = self.all_open().into_iter();
            let open = open.filter(|connection| !connection.closed.is_cancelled());
            let most = open.max_by_key(|connection| connection.state.lock().held());
            let Some(most) = most else { return };
            most.close(Some("all connections together hold too much, and it holds most"));
        }
    }
}

impl Connection {
    /// Changes the state, updates the sum over all connections, and closes some of them if that is too large.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let before = state.held();
        let result = change(&mut state);
        let after = state.held();
        // The bytes of a closed connection were subtracted at its close, and do not count any more. The sum changes in
        // one step, so that no other connection ever finds these bytes counted twice.
        if !self.closed.is_cancelled() {
            match after.checked_sub(before) {
                Some(more) => self.all.held.fetch_add(more, Ordering::Relaxed),
                None => self.all.held.fetch_sub(before - after, Ordering::Relaxed),
            };
        }
        let is_more = after > before;
        drop(state);
        if is_more {
            self.all.make_room();
        }
        result
    }

    /// Counts a complete request of `bytes` bytes, until the returned guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, bytes: usize) -> UnderWay {
        self.change(|state| {
            state.incoming = 0;
            state.requests += 1;
            state.asked += bytes;
        });
        UnderWay { connection: Arc::clone(self), bytes }
    }

    /// Waits for a permit to run another request; `None` if the connection was closed meanwhile.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.turns).acquire_owned();
        let turn = tokio::select! {
            turn = turn => turn.ok()?,
            () = self.closed.cancelled() => return None,
        };
        self.room().await.then_some(turn)
    }

    /// Waits until at most [`PAUSE`] bytes are unread; returns `false` if the connection was closed meanwhile.
    pub(super) async fn room(&self) -> bool {
        loop {
            let taken = self.taken.notified();
            if self.state.lock().unread <= PAUSE {
                return !self.closed.is_cancelled();
            }
            tokio::select! {
                () = taken => {}
                () = self.closed.cancelled() => return false,
            }
        }
    }

    /// Counts the bytes of an answer that is to be sent. Closes the connection if too many are unread.
    pub(super) fn answered(&self, bytes: usize) {
        let unread = self.change(|state| {
            if state.unread == 0 {
                state.progress = Instant::now();
            }
            state.unread += bytes;
            state.unread
        });
        if unread > self.all.max_response.saturating_add(MOST_UNREAD) {
            self.close(Some("it asks for more than it takes"));
        }
    }

    /// Subtracts the bytes of an answer that is not sent after all.
    pub(super) fn dropped(&self, bytes: usize) {
        self.change(|state| state.unread = state.unread.saturating_sub(bytes));
        self.taken.notify_waiters();
    }

    /// Notes the result of a write to the socket.
    fn wrote(&self, result: &Poll<io::Result<usize>>) {
        let Poll::Ready(result) = result else {
            self.state.lock().is_full = true;
            return;
        };
        let bytes = *result.as_ref().unwrap_or(&0);
        let reader = self.change(|state| {
            state.unread = state.unread.saturating_sub(bytes);
            state.progress = Instant::now();
            state.is_full = false;
            state.reader.take()
        });
        if let Some(reader) = reader {
            reader.wake();
        }
        self.taken.notify_waiters();
    }

    /// Counts bytes that were received. Closes the connection if they are more than a request may have.
    fn came(&self, bytes: usize) {
        let incoming = self.change(|state| {
            state.incoming += bytes;
            state.incoming
        });
        if incoming > self.all.max_request.saturating_add(ENVELOPE) {
            self.close(Some("what it sends is no request"));
        }
    }

    /// Closes the connection. `why` is logged; `None` is for a regular end.
    fn close(&self, why: Option<&str>) {
        let mut state = self.state.lock();
        if self.closed.is_cancelled() {
            return;
        }
        self.closed.cancel();
        let held = state.held();
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
        self.all.held.fetch_sub(held, Ordering::Relaxed);
        drop(state);
        if let Some(why) = why {
            tracing::debug!("a connection was closed, {held} bytes were held for it: {why}");
        }
    }

    /// Whether more may be read; if not, the reading task is woken once it may.
    fn may_read(&self, context: &Context<'_>) -> bool {
        let mut state = self.state.lock();
        let may = !state.is_full && state.requests < MOST_REQUESTS && state.asked < MOST_ASKED;
        state.reader = (!may).then(|| context.waker().clone());
        may
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close(None);
    }
}

/// The guard of a running or waiting request.
#[derive(Debug)]
pub(super) struct UnderWay {
    connection: Arc<Connection>,
    bytes: usize,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let reader = self.connection.change(|state| {
            state.requests -= 1;
            state.asked -= self.bytes;
            state.reader.take()
        });
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// The socket of a connection, which counts the bytes that pass.
#[derive(Debug)]
pub(super) struct Watched {
    stream: TcpStream,
    connection: Arc<Connection>,
    /// Futures of the close, one for each direction, because different tasks poll them.
    closed: [Pin<Box<WaitForCancellationFutureOwned>>; 2],
}

impl Watched {
    pub(super) fn new(stream: TcpStream, connection: Arc<Connection>) -> Self {
        let closed = [(); 2].map(|()| Box::pin(connection.closed.clone().cancelled_owned()));
        Self { stream, connection, closed }
    }

    fn check(&mut self, direction: usize, context: &mut Context<'_>) -> io::Result<()> {
        match self.closed[direction].as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Requests that wait for a permit need no answer any more.
        self.connection.close(None);
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(0, context)?;
        if !self.connection.may_read(context) {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.connection.came(bytes);
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(1, context)?;
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.connection.wrote(&wrote);
        wrote
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(1, context)?;
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.connection.wrote(&wrote);
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn wrote(connection: &Connection, bytes: usize) {
        connection.wrote(&Poll::Ready(Ok(bytes)));
    }

    #[test]
    fn nothing_is_read_of_a_client_that_takes_nothing() {
        let all = Connections::new(1 << 20, 1 << 20);
        let one = all.open();
        let context = Context::from_waker(Waker::noop());
        assert!(one.may_read(&context));
        one.wrote(&Poll::Pending);
        assert!(!one.may_read(&context));
        wrote(&one, 1);
        assert!(one.may_read(&context));
        let requests: Vec<_> = (0..MOST_REQUESTS).map(|_| one.begin(1)).collect();
        assert!(!one.may_read(&context));
        drop(requests);
        assert!(one.may_read(&context));
        let large = one.begin(MOST_ASKED);
        assert!(!one.may_read(&context));
        drop(large);
        one.came((1 << 20) + ENVELOPE);
        assert!(!one.closed.is_cancelled());
        one.came(1);
        assert!(one.closed.is_cancelled());
    }

    #[test]
    fn what_is_held_is_counted_and_given_back() {
        let all = Connections::new(1 << 20, 1 << 20);
        let one = all.open();
        one.came(100);
        let request = one.begin(100);
        assert_eq!(all.held(), 100);
        one.answered(1_000);
        assert_eq!(all.held(), 1_100);
        drop(request);
        assert_eq!(all.held(), 1_000);
        // Heads and frames are sent too, but were not counted before.
        wrote(&one, 600);
        wrote(&one, 600);
        assert_eq!(all.held(), 0);
        one.answered(500);
        drop(one);
        assert_eq!(all.held(), 0);
    }

    #[test]
    fn who_asks_for_more_than_it_takes_is_left() {
        let all = Connections::new(1 << 20, 1 << 20);
        let one = all.open();
        one.answered(MOST_UNREAD);
        assert!(!one.closed.is_cancelled());
        one.answered((1 << 20) + 1);
        assert!(one.closed.is_cancelled());
        assert_eq!(all.held(), 0);
        // Later requests and answers of a closed connection do not count.
        let request = one.begin(10);
        one.answered(10);
        drop(request);
        assert_eq!(all.held(), 0);
    }

    #[test]
    fn who_holds_most_makes_room_for_all() {
        let all = Connections::new(1 << 20, MOST_HELD);
        let connections: Vec<_> = (0..8).map(|_| all.open()).collect();
        for (index, connection) in connections.iter().enumerate() {
            connection.answered(MOST_HELD / 8 - 100 + index);
        }
        assert!(connections.iter().all(|one| !one.closed.is_cancelled()));
        connections[0].answered(1_000);
        let closed: Vec<_> = connections.iter().map(|one| one.closed.is_cancelled()).collect();
        assert_eq!(closed, [true, false, false, false, false, false, false, false]);
        assert!(all.held() <= MOST_HELD);
    }

    #[test]
    fn what_one_holds_is_never_counted_twice() {
        let all = Connections::new(1 << 20, MOST_HELD);
        let (large, small) = (all.open(), all.open());
        large.answered(MOST_HELD / 3 * 2);
        std::thread::scope(|scope| {
            for connection in [&large, &small] {
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        connection.answered(1);
                        connection.dropped(1);
                    }
                });
            }
        });
        assert!([&large, &small].iter().all(|one| !one.closed.is_cancelled()));
        assert_eq!(all.held(), MOST_HELD / 3 * 2);
    }

    #[test]
    fn a_client_that_takes_nothing_is_stuck() {
        let all = Connections::new(1 << 20, 1 << 20);
        let one = all.open();
        one.answered(LITTLE + 1);
        let Some(long_ago) = Instant::now().checked_sub(PATIENCE + Duration::from_secs(1)) else {
            return;
        };
        assert!(!one.state.lock().is_stuck());
        one.state.lock().progress = long_ago;
        assert!(one.state.lock().is_stuck());
        wrote(&one, 1);
        assert!(!one.state.lock().is_stuck());
    }

    #[tokio::test]
    async fn a_request_waits_until_answers_are_taken() {
        let all = Connections::new(1 << 20, 1 << 20);
        let one = all.open();
        one.answered(PAUSE + 1);
        let waiting = tokio::spawn({
            let one = Arc::clone(&one);
            async move { one.turn().await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        wrote(&one, 1);
        assert!(waiting.await.unwrap());
        one.answered(PAUSE);
        let waiting = tokio::spawn({
            let one = Arc::clone(&one);
            async move { one.turn().await.is_some() }
        });
        tokio::task::yield_now().await;
        one.close(Some("test"));
        assert!(!waiting.await.unwrap());
    }
}
