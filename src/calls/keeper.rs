//! The task that owns the history. Whoever asks is told from it; whoever follows hears of what comes after.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::file::{self, FileWriter};
use super::follower::{Followed, Follower};
use super::ring::NEVER;
use super::{Entry, Log, QUESTION_PLACES, Question, Reader};
use crate::clock::WallClockAnchor;
use crate::config::CallHistory;
use crate::deadline_timer::DeadlineTimer;

/// Followers at once; one more is not taken on.
const MAX_FOLLOWERS: usize = 32;
/// After entries were taken for a follower or the file; only very many end it early.
const REST: Duration = Duration::from_millis(100);

/// What the keeper tells.
#[derive(Debug)]
pub struct Told {
    /// Oldest first.
    pub entries: Vec<Arc<Entry>>,
    /// Entries that are not in the file: it could not be written, or too many calls ended at once.
    pub unwritten: u64,
    /// Entries that come after these, if they were asked for; `None` too if enough follow already.
    pub following: Option<mpsc::Receiver<Followed>>,
}

/// The running keeper. It ends when this is dropped; [`Keeping::finish`] waits for that.
#[derive(Debug)]
pub struct Keeping {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Keeping {
    /// Ends the keeper when everything that was left in the ring is written, in a bounded time.
    pub async fn finish(self) {
        drop(self.stop);
        // There is nobody to tell if it panicked.
        let _ = self.task.await;
    }
}

struct Keeper {
    log: Log,
    questions: mpsc::Receiver<Question>,
    /// At most `longest`, oldest first.
    history: VecDeque<Arc<Entry>>,
    longest: usize,
    followers: Vec<Follower>,
    file: Option<FileWriter>,
    timer: DeadlineTimer,
    resting: bool,
}

/// Starts the keeper.
///
/// # Errors
/// If the system has no timer for it.
pub fn start(keep: CallHistory) -> io::Result<(Log, Reader, Keeping)> {
    let log = Log::new(keep.history);
    let (question_sender, questions) = mpsc::channel(QUESTION_PLACES);
    let keeper = Keeper {
        log: log.clone(),
        questions,
        history: VecDeque::new(),
        longest: keep.history,
        followers: Vec::new(),
        file: keep.file.and_then(|path| file::start(path, keep.max_file)),
        timer: DeadlineTimer::new()?,
        resting: false,
    };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(keeper.run(stopped));
    Ok((log, Reader(question_sender), Keeping { stop, task }))
}

impl Keeper {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        loop {
            let is_watched = self.file.is_some() || !self.followers.is_empty();
            self.log.wake_at(match self.resting {
                _ if !is_watched => NEVER,
                true => self.log.capacity() / 4,
                false => 1,
            });
            tokio::select! {
                () = self.log.wanted() => self.take_batch(),
                () = self.timer.elapsed() => self.take_batch(),
                Some(question) = self.questions.recv() => self.tell(question),
                _ = &mut stopped => break,
            }
        }
        self.take_all();
        if let Some(file) = self.file.take() {
            file.finish().await;
        }
    }

    /// Takes what there is, and rests if that was anything, or if somebody has yet to be told what it lost.
    fn take_batch(&mut self) {
        self.resting = self.take_all();
        for follower in &mut self.followers {
            self.resting |= !follower.tell_missed();
        }
        self.timer.set(self.resting.then(|| Instant::now() + REST));
    }

    /// Takes what is in the ring; whether that was anything.
    fn take_all(&mut self) -> bool {
        let lost = self.log.take_overwritten();
        if lost > 0 {
            self.followers.iter_mut().for_each(|follower| follower.miss(lost));
            self.file.iter().for_each(|file| file.miss(lost));
        }
        let anchor = WallClockAnchor::now();
        let mut taken = 0;
        // Not more than it can hold, however fast it is filled.
        while taken < self.log.capacity()
            && let Some(record) = self.log.pop()
        {
            taken += 1;
            self.take(Arc::new(Entry { time: anchor.time_of(record.began), record }));
        }
        taken > 0
    }

    fn take(&mut self, entry: Arc<Entry>) {
        if let Some(file) = &self.file {
            file.push(&entry);
        }
        self.followers.retain_mut(|follower| follower.tell(&entry));
        if self.history.len() >= self.longest {
            self.history.pop_front();
        }
        self.history.push_back(entry);
    }

    fn tell(&mut self, question: Question) {
        // A call that ended before the question was asked belongs to what is told.
        self.take_all();
        let Question { last, filter, follow, answer } = question;
        let wanted = self.history.iter().rev().filter(|entry| filter.admits(&entry.record));
        let mut entries: Vec<_> = wanted.take(last).cloned().collect();
        entries.reverse();
        self.followers.retain(|follower| !follower.has_gone());
        let following = (follow && self.followers.len() < MAX_FOLLOWERS).then(|| {
            let (follower, following) = Follower::new(filter);
            self.followers.push(follower);
            following
        });
        let unwritten = self.file.as_ref().map_or(0, FileWriter::unwritten);
        // Whoever asked may have gone.
        let _ = answer.send(Told { entries, unwritten, following });
    }
}

#[cfg(test)]
mod tests {
    use super::super::follower::FOLLOWED_PLACES;
    use super::super::{Caller, Filter, Moment, Outcome, Record};
    use super::*;

    fn record(server: &str) -> Record {
        let caller = Caller { session: 1, profile: "default".into(), pid: None, uid: 0, client: None };
        Record {
            began: Moment::now(),
            ended: Moment::now(),
            caller: Arc::new(caller),
            server: Some(server.into()),
            tool: "t".into(),
            outcome: Outcome::Ok,
            request_bytes: 0,
            reply_bytes: 0,
            arguments: None,
        }
    }

    fn start_with(history: usize) -> (Log, Reader, Keeping) {
        start(CallHistory { history, ..CallHistory::default() }).expect("a timer")
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_forgotten_was_to_be_forgotten() {
        let (log, reader, keeping) = start_with(1500);
        (0..5000).for_each(|_| log.push(record("a")));
        let told = reader.ask(usize::MAX, Filter::default(), false).await.expect("it runs");
        assert_eq!((told.entries.len(), told.unwritten), (1500, 0));
        keeping.finish().await;
        assert!(reader.ask(1, Filter::default(), false).await.is_none());
    }

    /// How many entries a follower was told, and how many it was told that it lost.
    fn told(following: &mut mpsc::Receiver<Followed>) -> (u64, u64) {
        std::iter::from_fn(|| following.try_recv().ok()).fold((0, 0), |(entries, missed), followed| match followed {
            Followed::Entry(_) => (entries + 1, missed),
            Followed::Missed(more) => (entries, missed + more),
        })
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_follower_is_told_how_much_it_missed() {
        let (log, reader, _keeping) = start_with(10);
        let mut following = reader
            .ask(0, Filter { server: Some("a".into()), tool: None }, true)
            .await
            .and_then(|told| told.following)
            .expect("a place");
        // It does not read, and has places for so many.
        for _ in 0..2 {
            (0..FOLLOWED_PLACES / 2 + 3).for_each(|_| log.push(record("a")));
            log.push(record("b"));
            reader.ask(0, Filter::default(), false).await.expect("it runs");
        }
        assert_eq!(told(&mut following), (FOLLOWED_PLACES as u64, 0));
        // More at once than the ring holds.
        let more = log.capacity() as u64 + 9;
        (0..more).for_each(|_| log.push(record("a")));
        let (mut entries, mut missed) = (0, 0);
        while entries + missed < more + 6 {
            // Nothing comes after them that it could be told with.
            match following.recv().await.expect("it runs") {
                Followed::Entry(_) => entries += 1,
                Followed::Missed(lost) => missed += lost,
            }
        }
        assert_eq!((entries + missed, told(&mut following)), (more + 6, (0, 0)));
        assert!(missed >= 6 + 9, "{missed}");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn followers_are_limited_and_make_room_when_they_leave() {
        let (_log, reader, _keeping) = start_with(10);
        let mut places = Vec::new();
        for _ in 0..MAX_FOLLOWERS {
            places.push(reader.ask(0, Filter::default(), true).await.and_then(|told| told.following).expect("a place"));
        }
        let ask = || async { reader.ask(0, Filter::default(), true).await.expect("it runs").following };
        assert!(ask().await.is_none());
        places.pop();
        assert!(ask().await.is_some());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_follows_need_not_ask_for_what_comes() {
        let (log, reader, _keeping) = start_with(10);
        let mut following =
            reader.ask(0, Filter::default(), true).await.and_then(|told| told.following).expect("a place");
        // The first at once, those of its rest after that, and the first of the next burst at once again.
        for burst in [1, 700, 1] {
            (0..burst).for_each(|_| log.push(record("a")));
            for _ in 0..burst {
                assert!(matches!(following.recv().await, Some(Followed::Entry(_))));
            }
        }
    }
}
