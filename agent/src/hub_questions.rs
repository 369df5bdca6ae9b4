//! Questions of the agent to its hub, on their way to whichever session is open.
//!
//! In: questions, as many as may wait, and the hub's answers. Out: the questions, to the session, once each; each answer, to who asked. A question
//! whose session ends is answered by nobody: who asked is told that, and asks again.

use std::collections::VecDeque;

use karmada_proto::v1::ask_hub::Question;
use karmada_proto::v1::hub_answer::Result as Answer;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

/// Questions that wait for a session to take them.
const MOST: usize = 256;

/// Where questions wait.
#[derive(Debug, Default)]
pub struct HubQuestions {
    waiting: Mutex<VecDeque<HubQuestion>>,
    news: Notify,
}

/// A question that waits, and where its answer goes.
#[derive(Debug)]
pub struct HubQuestion {
    /// What is asked.
    pub question: Question,
    /// Dropped where nobody answers.
    pub answer: oneshot::Sender<Answer>,
}

impl HubQuestions {
    /// Puts a question. The receiver ends without an answer where no session takes it, or its session ends, or too many wait.
    pub fn put(&self, question: Question) -> oneshot::Receiver<Answer> {
        let (answer, answered) = oneshot::channel();
        let mut waiting = self.waiting.lock();
        waiting.retain(|one| !one.answer.is_closed());
        if waiting.len() < MOST {
            waiting.push_back(HubQuestion { question, answer });
            self.news.notify_one();
        }
        answered
    }

    /// Waits until there is one to take.
    pub async fn come(&self) {
        while self.waiting.lock().is_empty() {
            self.news.notified().await;
        }
    }

    /// The next one for which somebody still waits.
    pub fn take(&self) -> Option<HubQuestion> {
        let mut waiting = self.waiting.lock();
        loop {
            let next = waiting.pop_front()?;
            if !next.answer.is_closed() {
                return Some(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use karmada_proto::v1::RetentionOf;

    use super::*;

    fn question(key: &str) -> Question {
        Question::RetentionOf(RetentionOf { key: key.into(), ..RetentionOf::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn questions_are_taken_once_and_by_nobody_once_who_asked_is_gone() {
        let questions = HubQuestions::default();
        let (first, second) = (questions.put(question("a")), questions.put(question("b")));
        questions.come().await;
        drop(first);
        let taken = questions.take().unwrap();
        assert_eq!(taken.question, question("b"));
        assert!(questions.take().is_none());
        drop(taken);
        assert!(second.await.is_err(), "the session ended");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_wait_than_may() {
        let questions = HubQuestions::default();
        let mut all: Vec<_> = (0..MOST).map(|at| questions.put(question(&at.to_string()))).collect();
        assert!(questions.put(question("one too many")).await.is_err());
        // Room is made by those who gave up.
        all.remove(0);
        let last = questions.put(question("last"));
        let taken = std::iter::from_fn(|| questions.take());
        let taken: Vec<_> = taken.collect();
        assert_eq!(taken.len(), MOST);
        assert_eq!(taken.last().unwrap().question, question("last"));
        drop((all, last));
    }
}
