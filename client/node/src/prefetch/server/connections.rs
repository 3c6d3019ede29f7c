//! The threads that accept connections, receive bags and send blocks.

use super::shared::{Connection, DueBlock, MOST_PREFETCHERS, OUTBOX, Shared, Work};
use crate::prefetch::wire::{
    BAG_BYTES, HELLO_BYTES, Hello, Message, SentBag, WireError, notice_loss, read_raw,
};
use crossbeam_channel::{Receiver, bounded};
use polytrie_kv::{Worker, caught};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    ptr,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// Number of connections that may be open at a time, with those that have not said hello or learn that they are too many.
const MOST_CONNECTIONS: usize = 2 * MOST_PREFETCHERS;
/// Interval at which a thread that waits for a connection checks whether it should go on.
const TICK: Duration = Duration::from_millis(50);
/// Time within which a new connection must send its hello: as long as a stranger holds one and says nothing. A prefetcher sends
/// it at once, but its machine may stand still for some seconds, and one that runs tests for longer.
const GREETING: Duration = Duration::from_secs(if cfg!(test) { 3600 } else { 20 });
/// Time within which a bag must come, and a frame must be received. A prefetcher may be away for as long while all places are
/// taken.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Accepts connections until the node is done. Then waits until they are closed.
pub(super) fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    let mut connections: Vec<Worker> = Vec::new();
    let mut number = 0;
    while shared.ended.get().is_none() {
        connections.retain(|connection| !connection.is_finished());
        let (stream, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    tracing::debug!("a connection of a prefetcher is lost: {error}");
                }
                thread::sleep(TICK);
                continue;
            }
        };
        if connections.len() >= MOST_CONNECTIONS {
            tracing::debug!("a connection of {peer} is one too many");
            continue;
        }
        number += 1;
        let shared = Arc::clone(shared);
        let work = move || {
            if let Err(error) = serve(&shared, &stream, (peer, number), GREETING) {
                tracing::debug!("the connection of {peer} is closed: {error}");
            }
            // The shutdown ends the thread that sends, also while it waits.
            let _ = stream.shutdown(Shutdown::Both);
        };
        match Worker::start("prefetcher", work) {
            Ok(worker) => connections.push(worker),
            Err(error) => tracing::warn!("a prefetcher at {peer} is not taken in: {error}"),
        }
    }
}

/// Serves one connection, until either side ends it, or no hello has come for as long as `patience`.
pub(super) fn serve(
    shared: &Shared,
    stream: &TcpStream,
    (peer, number): (SocketAddr, u64),
    patience: Duration,
) -> Result<(), WireError> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    notice_loss(stream)?;
    stream.set_read_timeout(Some(TICK))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let began = Instant::now();
    let is_patient = || began.elapsed() < patience && shared.ended.get().is_none();
    let mut input = Patient { stream, is_patient: &is_patient };
    let Some(Message::Hello(hello)) = Message::read(&mut input, HELLO_BYTES)? else {
        return Ok(());
    };
    let mut output = stream;
    let (outbox, frames) = bounded(OUTBOX);
    let work = Arc::<Work>::default();
    let connection = Connection { number, outbox, work: Arc::clone(&work) };
    let many = || format!("the node has {MOST_PREFETCHERS} prefetchers; wait for one to leave");
    let objection =
        Hello::objection(&shared.hello, &hello).or_else(|| (!shared.enter(connection)).then(many));
    if let Some(reason) = objection {
        tracing::warn!("a prefetcher at {peer} is refused: {reason}");
        return Ok(output.write_all(&Message::Refused(reason).encode())?);
    }
    let mut sender = None;
    // After a panic the thread that sends would wait for frames until the node is done, and this one for that thread.
    let ended = caught(|| -> Result<(), WireError> {
        output.write_all(&Message::Hello(shared.hello.clone()).encode())?;
        // Frames may wait already: the hello is the first one.
        let stream_out = stream.try_clone()?;
        let sending = Worker::start("prefetcher-out", move || send(&stream_out, &frames));
        sender = Some(sending.map_err(io::Error::other)?);
        tracing::info!("a prefetcher at {peer} has connected");
        take_bags(shared, stream, &work)
    });
    shared.leave(number);
    match ended {
        Ok(Ok(())) => tracing::info!("the prefetcher at {peer} has left"),
        Ok(Err(error)) => tracing::info!("the prefetcher at {peer} has left: {error}"),
        Err(said) => tracing::error!("the thread of the prefetcher at {peer} panicked: {said}"),
    }
    let _ = stream.shutdown(Shutdown::Both);
    // Without its frames, and with the connection closed, the thread ends.
    drop(sender);
    Ok(())
}

/// Hands bags to the layer, until the prefetcher closes the connection, is too slow or breaks the protocol.
fn take_bags(shared: &Shared, stream: &TcpStream, work: &Work) -> Result<(), WireError> {
    let is_patient = || !is_too_slow(shared, work) && !shared.is_over();
    let mut input = Patient { stream, is_patient: &is_patient };
    while let Some(frame) = read_raw(&mut input, BAG_BYTES)? {
        let unexpected = || io::Error::other("it sends what it was not asked for");
        let _turn = shared.turn.lock();
        let SentBag { block, nodes } = match Message::decode(&frame)? {
            Message::Bag(bag) => bag,
            Message::Away => {
                shared.is_gone(work);
                continue;
            }
            Message::Ready => {
                shared.is_back(work);
                continue;
            }
            _ => return Err(unexpected().into()),
        };
        let asked = work.due.lock().front().filter(|asked| asked.hash == block).copied();
        let DueBlock { number, executed, .. } = asked.ok_or_else(unexpected)?;
        if work.away.lock().is_some() {
            // It answers blocks that were on their way, without having read anything.
            work.due.lock().pop_front();
            continue;
        }
        if let Some(bags) = shared.layer.bags() {
            bags.offer(number, nodes);
        }
        let was_late = number <= shared.turn_of.load(Relaxed);
        work.is_late.store(was_late, Relaxed);
        if !was_late {
            shared.was_in_time();
        } else if shared.are_all_late() {
            shared.was_late(shared.executed.load(Relaxed).saturating_sub(executed));
        }
        // From then on the block does not wait for it, so its nodes must be there.
        shared.came(work, number, was_late);
    }
    Ok(())
}

/// Whether a prefetcher is given up: it is ready and keeps a block for too long; or all places are taken, and it is away for
/// too long, counted from its last bag on. Of several that are away only the one that is away longest is given up: the
/// threads of all look at about the same time, and one place is enough for another prefetcher.
pub(super) fn is_too_slow(shared: &Shared, work: &Work) -> bool {
    if work.away.lock().is_none() {
        return work.due.lock().front().is_some_and(|block| block.since.elapsed() > PATIENCE);
    }
    let open = shared.open.lock();
    let now = Instant::now();
    let away = open.iter().filter_map(|of| Some((of.work.away_for(now)?, &of.work)));
    let longest = away.max_by_key(|(time, _)| *time);
    open.len() >= MOST_PREFETCHERS
        && longest.is_some_and(|(time, of)| time > PATIENCE && ptr::eq(&**of, work))
}

/// Sends frames, and the message of the end after the last one.
fn send(mut stream: &TcpStream, frames: &Receiver<Arc<Vec<u8>>>) {
    let mut send = || -> io::Result<()> {
        for frame in frames {
            stream.write_all(&frame)?;
        }
        stream.write_all(&Message::End.encode())?;
        // Bags that still come are read, because the prefetcher might not receive the end otherwise.
        stream.shutdown(Shutdown::Write)
    };
    if send().is_err() {
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Reads from a connection whose reads time out, as long as `is_patient` returns `true`.
struct Patient<'a> {
    stream: &'a TcpStream,
    is_patient: &'a dyn Fn() -> bool,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The check also applies to a connection that sends a byte now and then.
        while (self.is_patient)() {
            match self.stream.read(buffer) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                other => return other,
            }
        }
        Err(io::Error::other("it takes too long"))
    }
}
