//! Asking all shards.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use stentor_hub::Part;

use super::ShardReport;
use crate::context::ServerContext;
use crate::shard::{Inquiry, ShardCommand, Survey};

/// How long anybody waits for a shard's answer: a shard answers within a turn, but a machine that
/// has too much to do may leave it waiting for its own.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(10);

/// How long anybody waits for all parts of a survey, who has to answer somebody as well.
const SURVEY_TIME: Duration = Duration::from_secs(15);

/// Asks every shard the same question and collects the answers that come in time, in no
/// particular order.
pub(crate) fn ask_all<T>(
    context: &ServerContext,
    mut question: impl FnMut(Sender<T>) -> Inquiry,
) -> Vec<T> {
    let (sender, answers) = channel();
    let count = context.shards.len();
    for shard in 0..count {
        context.post(shard, ShardCommand::Inquiry(question(sender.clone())));
    }
    drop(sender);
    receive(&answers, count)
}

/// Asks every shard the same question for one part after another, until all have answered for
/// the last one. No turn of a shard gets long by it, whatever there is to look at. Returns whether
/// all of them did so in time, else what they have not told is missing.
pub(crate) fn survey<T>(
    context: &ServerContext,
    question: impl Fn(Sender<Part<T>>) -> Survey,
    mut take: impl FnMut(T),
) -> bool {
    survey_while(context, question, |found| {
        take(found);
        ControlFlow::Continue(())
    })
}

/// The same, as long as somebody wants more.
pub(crate) fn survey_while<T>(
    context: &ServerContext,
    question: impl Fn(Sender<Part<T>>) -> Survey,
    mut take: impl FnMut(T) -> ControlFlow<()>,
) -> bool {
    let (end, mut is_complete) = (Instant::now() + SURVEY_TIME, true);
    let mut going: Vec<(usize, u64)> = (0..context.shards.len()).map(|it| (it, 0)).collect();
    while !going.is_empty() {
        let ask = |(shard, from)| {
            let (sender, answer) = channel();
            let inquiry = Inquiry::Survey(from, question(sender));
            context.post(shard, ShardCommand::Inquiry(inquiry));
            (shard, answer)
        };
        let asked: Vec<(usize, Receiver<Part<T>>)> = going.drain(..).map(ask).collect();
        let deadline = end.min(Instant::now() + ANSWER_TIME);
        for (shard, answer) in asked {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(part) = answer.recv_timeout(left) else {
                is_complete = false;
                continue;
            };
            if take(part.found).is_break() {
                return false;
            }
            going.extend(part.next.map(|next| (shard, next)));
        }
    }
    is_complete
}

/// Asks one shard.
pub(crate) fn ask_one<T>(
    context: &ServerContext,
    shard: usize,
    question: impl FnOnce(Sender<T>) -> Inquiry,
) -> Option<T> {
    let (sender, answers) = channel();
    context.post(shard, ShardCommand::Inquiry(question(sender)));
    receive(&answers, 1).pop()
}

fn receive<T>(answers: &Receiver<T>, count: usize) -> Vec<T> {
    let deadline = Instant::now() + ANSWER_TIME;
    let next = |_| {
        let left = deadline.saturating_duration_since(Instant::now());
        answers.recv_timeout(left).ok()
    };
    (0..count).map_while(next).collect()
}

/// The reports of all shards that answer in time, in order.
pub(crate) fn reports(context: &ServerContext) -> Vec<ShardReport> {
    let mut reports = ask_all(context, Inquiry::Report);
    reports.sort_by_key(|report| report.shard);
    reports
}

/// The sum of the shards' figures; its `shard` means nothing.
pub(crate) fn total<'a>(reports: impl IntoIterator<Item = &'a ShardReport>) -> ShardReport {
    let mut sum = ShardReport::default();
    for report in reports {
        add_stats(&mut sum, report);
        sum.shared_subscriptions += report.shared_subscriptions;
        sum.links += report.links;
        sum.refused += report.refused;
        sum.bytes_received += report.bytes_received;
        sum.bytes_sent += report.bytes_sent;
        sum.turns += report.turns;
        sum.turn_report.add(&report.turn_report);
        sum.mesh_inward += report.mesh_inward;
        sum.mesh_overflowed += report.mesh_overflowed;
        sum.stalled += report.stalled;
        sum.handovers += report.handovers;
        sum.latency.add(&report.latency);
        for (cause, count) in &report.losses.causes {
            *sum.losses.causes.entry(cause).or_default() += count;
        }
        sum.losses.worst.extend(report.losses.worst.iter().cloned());
    }
    sum.losses
        .worst
        .sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.cmp(b)));
    sum
}

fn add_stats(sum: &mut ShardReport, report: &ShardReport) {
    let (sum, more) = (&mut sum.stats, &report.stats);
    sum.connected += more.connected;
    sum.sessions += more.sessions;
    sum.subscriptions += more.subscriptions;
    sum.connects += more.connects;
    sum.packets_received += more.packets_received;
    sum.packets_sent += more.packets_sent;
    sum.publishes_received += more.publishes_received;
    sum.publish_bytes_received += more.publish_bytes_received;
    sum.publishes_sent += more.publishes_sent;
    sum.publish_bytes_sent += more.publish_bytes_sent;
    sum.publishes_dropped += more.publishes_dropped;
    sum.publishes_withheld += more.publishes_withheld;
    sum.denied += more.denied;
    sum.publishes_denied += more.publishes_denied;
    sum.topics_refused += more.topics_refused;
    sum.unkept_by_memory += more.unkept_by_memory;
    sum.expired += more.expired;
    sum.evicted += more.evicted;
    sum.evicted_by_memory += more.evicted_by_memory;
    sum.bugs += more.bugs;
}
