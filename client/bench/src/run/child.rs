//! The process of a run: this program again, with the job on its standard input.

use super::{BenchError, Job, MemoryLimit, Result};
use polytrie_kv::KvError;
use serde::de::DeserializeOwned;
use std::{
    env,
    io::{self, Read, Write},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// Time between two checks whether the process has ended.
const POLL: Duration = Duration::from_millis(10);
/// Hidden command that runs a job.
const JOB_COMMAND: [&str; 2] = ["bench", "run-job"];

/// Limits of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds<'a> {
    /// Limit of its memory.
    pub(super) memory: Option<MemoryLimit>,
    /// Cores that it may use, as `taskset` reads them.
    pub(super) cores: Option<&'a str>,
}

/// Runs a job in a new process and parses the figures that it prints.
///
/// # Errors
///
/// If the process fails, or `interrupt` is set: then the process is killed.
pub(super) fn run<T: DeserializeOwned>(
    job: &Job,
    run: usize,
    bounds: Bounds<'_>,
    interrupt: &AtomicBool,
) -> Result<T> {
    let process = |action| move |source| BenchError::Process { action, source };
    let mut line = serde_json::to_vec(job)
        .map_err(|e| process("write down what to measure")(io::Error::other(e)))?;
    line.push(b'\n');
    let program = env::current_exe().map_err(process("find this program"))?;
    let group = bounds.memory.map_or(Ok(None), |limit| limit.group())?;
    let mut command = match bounds.cores {
        None => Command::new(program),
        Some(cores) => {
            let mut taskset = Command::new("taskset");
            taskset.args(["--cpu-list", cores]).arg(program);
            taskset
        }
    };
    let mut child = command
        .args(JOB_COMMAND)
        .env("RAYON_NUM_THREADS", job.threads.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(process(match bounds.cores {
            None => "start a process for a run",
            Some(_) => "bind a run to cores with `taskset` (of util-linux)",
        }))?;
    // The process waits for its job, so it allocates little before it is in the group.
    if let Some(group) = &group
        && let Err(error) = group.enter(child.id())
    {
        let _ = child.kill().and_then(|()| child.wait());
        return Err(error);
    }
    // The pipe stays open: the process ends when it is closed, which also happens when this process dies.
    let mut stdin = child.stdin.take();
    if let Some(stdin) = &mut stdin {
        // A process that has ended already said why on standard error.
        let _ = stdin.write_all(&line).and_then(|()| stdin.flush());
    }
    let stdout = gather(child.stdout.take())?;
    let stderr = gather(child.stderr.take())?;
    let status = wait(&mut child, interrupt).map_err(process("wait for a run"))?;
    drop(stdin);
    let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    let Some(status) = status else {
        return Err(BenchError::Interrupted(format!("in run {run} of {}", job.subject)));
    };
    let failed = |text: String| BenchError::Child {
        run,
        subject: job.subject.to_string(),
        text,
        code: status.code(),
    };
    if !status.success() {
        return Err(failed(reason(status, &stderr)));
    }
    if job.log_slow_blocks.is_some() {
        // The log lines were asked for, so they are passed on.
        let _ = io::stderr().write_all(stderr.as_bytes());
    }
    serde_json::from_str(&stdout).map_err(|e| failed(format!("its figures are not JSON: {e}")))
}

/// Reads all output of a process on another thread.
fn gather(pipe: Option<impl Read + Send + 'static>) -> Result<thread::JoinHandle<String>> {
    let work = move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // After an error, the output up to it is kept.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(thread::Builder::new().spawn(work).map_err(KvError::thread)?)
}

/// Waits for the process to end. Kills it and returns `None` if `interrupt` is set.
fn wait(child: &mut Child, interrupt: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    loop {
        if interrupt.load(Ordering::Relaxed) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        if let Some(status) = child.try_wait()? {
            // Ctrl-C goes to both processes, so the child may have ended by it first.
            return Ok((!interrupt.load(Ordering::Relaxed)).then_some(status));
        }
        thread::sleep(POLL);
    }
}

/// The reason why a process failed, in one sentence.
fn reason(status: ExitStatus, stderr: &str) -> String {
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if let Some(text) = last.strip_prefix("error: ") {
        return text.to_owned();
    }
    match signal(status) {
        Some(9) => "it was killed; if it ran out of memory, choose fewer --keys, --accounts or --txs, a smaller --trie.cache or a larger --memory-limit".to_owned(),
        Some(signal) => format!("it was ended by signal {signal}: {last}"),
        None => format!("it ended with {status}: {last}"),
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}
