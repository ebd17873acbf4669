//! The questions of operators that wait for a shard, and how many of them one turn answers.

use std::collections::VecDeque;
use std::time::Duration;

/// For how long a turn answers questions before it leaves the rest to the next one. One more step
/// may begin at the end of it: the longest take about 0.1 ms.
const ASKED_TIME: Duration = Duration::from_micros(50);

/// Questions, each answered at once, and steps of surveys, of which a turn makes one. Both have
/// their order. A turn that finds both begins with the kind that the last turn has not begun with,
/// so neither waits for all of the other.
#[derive(Debug)]
pub(super) struct Waiting<Q, S> {
    questions: VecDeque<Q>,
    steps: VecDeque<S>,
    turn: Turn,
    /// Whether the last turn that had a choice began with a step.
    stepped: bool,
}

/// What the present turn has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing: whatever comes first is done.
    Fresh,
    /// Something, and it may make a step.
    Begun,
    /// A step among other things.
    Stepped,
}

/// What a turn does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<Q, S> {
    /// Answers a question.
    Question(Q),
    /// Makes a step.
    Step(S),
}

impl<Q, S> Default for Waiting<Q, S> {
    fn default() -> Self {
        Self {
            questions: VecDeque::new(),
            steps: VecDeque::new(),
            turn: Turn::Fresh,
            stepped: false,
        }
    }
}

impl<Q, S> Waiting<Q, S> {
    /// Somebody asks.
    pub(super) fn push(&mut self, question: Q) {
        self.questions.push_back(question);
    }

    /// Somebody wants a step.
    pub(super) fn push_step(&mut self, step: S) {
        self.steps.push_back(step);
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty() && self.steps.is_empty()
    }

    /// A turn begins.
    pub(super) const fn begin_turn(&mut self) {
        self.turn = Turn::Fresh;
    }

    /// What the turn does next, which has answered for so long; `None` if it does no more.
    pub(super) fn next(&mut self, asked: Duration) -> Option<Next<Q, S>> {
        match self.turn {
            Turn::Fresh => self.first(),
            _ if asked >= ASKED_TIME => None,
            Turn::Begun => self.question().or_else(|| self.step()),
            Turn::Stepped => self.question(),
        }
    }

    fn first(&mut self) -> Option<Next<Q, S>> {
        let steps_first = !self.stepped && !self.steps.is_empty();
        let next = match steps_first {
            true => self.step(),
            false => self.question().or_else(|| self.step()),
        };
        self.stepped = matches!(next, Some(Next::Step(_)));
        if self.turn == Turn::Fresh && next.is_some() {
            self.turn = Turn::Begun;
        }
        next
    }

    fn question(&mut self) -> Option<Next<Q, S>> {
        self.questions.pop_front().map(Next::Question)
    }

    fn step(&mut self) -> Option<Next<Q, S>> {
        let step = self.steps.pop_front()?;
        self.turn = Turn::Stepped;
        Some(Next::Step(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_micros(1);

    /// What a turn does, if each question and each step take so long.
    fn turn(waiting: &mut Waiting<u8, char>, each: (Duration, Duration)) -> String {
        let (mut done, mut asked) = (String::new(), Duration::ZERO);
        waiting.begin_turn();
        while let Some(next) = waiting.next(asked) {
            let (shown, took) = match next {
                Next::Question(number) => (number.to_string(), each.0),
                Next::Step(name) => (name.to_string(), each.1),
            };
            done += &shown;
            asked += took;
        }
        done
    }

    fn turns(questions: u8, steps: &str, each: (Duration, Duration)) -> Vec<String> {
        let mut waiting = Waiting::default();
        (0..questions).for_each(|number| waiting.push(number));
        steps.chars().for_each(|step| waiting.push_step(step));
        let mut all = Vec::new();
        while !waiting.is_empty() {
            all.push(turn(&mut waiting, each));
        }
        all
    }

    #[test]
    fn quick_questions_are_answered_in_one_turn_with_one_step() {
        assert_eq!(turns(3, "ab", (QUICK, QUICK)), ["a012", "b"]);
        assert_eq!(turns(0, "abc", (QUICK, QUICK)), ["a", "b", "c"]);
    }

    #[test]
    fn a_turn_ends_when_its_time_is_over_and_the_rest_goes_on_in_order() {
        let third = ASKED_TIME / 3 + QUICK;
        assert_eq!(turns(7, "", (third, QUICK)), ["012", "345", "6"]);
        // A long one makes a turn that answers nothing else.
        assert_eq!(turns(3, "", (ASKED_TIME, QUICK)), ["0", "1", "2"]);
    }

    /// Whatever takes long, no turn takes two of it, and neither kind waits for all of the other.
    #[test]
    fn long_questions_and_long_steps_take_turns() {
        let long = (ASKED_TIME * 4, ASKED_TIME * 4);
        assert_eq!(turns(3, "abc", long), ["a", "0", "b", "1", "c", "2"]);
        let step = (QUICK, ASKED_TIME);
        assert_eq!(turns(2, "abc", step), ["a", "01b", "c"]);
    }

    #[test]
    fn a_turn_without_questions_does_nothing() {
        let mut waiting = Waiting::<u8, char>::default();
        assert_eq!(turn(&mut waiting, (QUICK, QUICK)), "");
        assert!(waiting.is_empty());
    }
}
