//! Models around models, each by itself and all of them together.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "this is a test")]

mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use akg_core::chat::{ChatCapability, ChatEvent, ChatModel, ChatReply, ChatRequest, Usage};
use akg_core::{Error, ErrorKind, Result};
use akg_llm::{Account, Backoff, Budget, Limit, Meter, Price, Retry, Timeout};
use async_trait::async_trait;
use futures::executor::block_on;
use futures::future::{join, join_all};
use support::{Script, ask};

fn busy() -> Error {
    Error::new(ErrorKind::Unavailable, "busy")
}

fn text(text: &str) -> ChatEvent {
    ChatEvent::Text(text.to_owned())
}

/// Twice at most, at once.
fn twice() -> Backoff {
    Backoff {
        retries: 2,
        first: Duration::ZERO,
        ..Backoff::default()
    }
}

#[test]
fn trouble_that_passes_is_not_seen() {
    let script = Script::new([Err(busy()), Err(busy()), Ok(ChatReply::text("at last"))]);
    let model = Retry::new(script, twice());
    assert_eq!(block_on(model.chat(&ask("?"))).unwrap().text, "at last");
}

#[test]
fn trouble_that_lasts_is_the_last_error_with_the_count() {
    let script = Script::new((0..3).map(|_| Err(busy())));
    let error = block_on(Retry::new(script.clone(), twice()).chat(&ask("?"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("3 times"), "{error}");
    assert!(script.answers.lock().unwrap().is_empty());
}

#[test]
fn what_broke_off_is_void() {
    let script = Script::streaming(
        [
            (Vec::new(), Err(busy())),
            (vec![text("ha")], Err(busy())),
            (vec![text("who"), text("le")], Ok(ChatReply::text("whole"))),
        ]
        .into(),
    );
    let mut told = Vec::new();
    let model = Retry::new(script, twice());
    block_on(model.stream(&ask("?"), &mut |event| told.push(event))).unwrap();
    assert_eq!(told, [text("ha"), ChatEvent::Restart, text("who"), text("le")]);
}

/// Counts how many calls are in it, and lets each wait for another.
#[derive(Debug, Default)]
struct Crowd {
    inside: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait]
impl ChatModel for Crowd {
    fn name(&self) -> &str {
        "crowd"
    }

    fn capability(&self) -> ChatCapability {
        ChatCapability::ALL
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatReply> {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        for _ in 0..10 {
            let mut yielded = false;
            std::future::poll_fn(|context| {
                if std::mem::replace(&mut yielded, true) {
                    return std::task::Poll::Ready(());
                }
                context.waker().wake_by_ref();
                std::task::Poll::Pending
            })
            .await;
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(ChatReply::default())
    }
}

#[test]
fn only_so_many_calls_run_at_once_and_dropped_ones_make_room() {
    let crowd = Arc::new(Crowd::default());
    let model = Limit::new(crowd.clone(), NonZeroUsize::new(3), None);
    let request = ask("?");
    block_on(join_all((0..20).map(|_| model.chat(&request))));
    assert_eq!(crowd.most.load(Ordering::SeqCst), 3);

    let model = Limit::new(Arc::new(Never), NonZeroUsize::new(1), None);
    for _ in 0..3 {
        let call = futures::future::poll_immediate(model.chat(&request));
        assert!(block_on(call).is_none());
    }
}

/// Never answers.
#[derive(Debug)]
struct Never;

#[async_trait]
impl ChatModel for Never {
    fn name(&self) -> &str {
        "never"
    }

    fn capability(&self) -> ChatCapability {
        ChatCapability::ALL
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatReply> {
        std::future::pending().await
    }
}

#[test]
fn a_model_that_never_answers_is_given_up() {
    let model = Timeout::new(Arc::new(Never), Duration::from_millis(10));
    let request = ask("?");
    let (plain, streamed) = block_on(join(model.chat(&request), model.stream(&request, &mut |_| {})));
    for error in [plain.unwrap_err(), streamed.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.to_string().contains("never"), "{error}");
    }
}

fn reply_of(usage: Option<Usage>) -> ChatReply {
    ChatReply {
        usage,
        ..ChatReply::text("12345678")
    }
}

const USAGE: Usage = Usage {
    input: 100,
    cached: 50,
    output: 10,
};
const PRICE: Price = Price {
    input: 2e6,
    cached: 1e6,
    output: 10e6,
};

#[test]
fn models_share_an_account_until_it_is_spent() {
    let account = Arc::new(Account::new(Budget {
        tokens: None,
        money: Some(300.0),
    }));
    let meter = || {
        let script = Script::new((0..9).map(|_| Ok(reply_of(Some(USAGE)))));
        Meter::new(script, PRICE, account.clone())
    };
    let (one, other) = (meter(), meter());
    block_on(one.chat(&ask("?"))).unwrap();
    assert_eq!((account.spent().calls, account.spent().usage), (1, USAGE));
    assert!((account.spent().money - 250.0).abs() < 1e-9);
    block_on(other.chat(&ask("?"))).unwrap();
    for model in [&one, &other] {
        let error = block_on(model.chat(&ask("?"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BudgetSpent);
    }
    assert_eq!(account.spent().calls, 2);
}

#[test]
fn what_nobody_counts_is_estimated() {
    let account = Arc::new(Account::default());
    let model = Meter::new(Script::new([Ok(reply_of(None))]), PRICE, account.clone());
    block_on(model.chat(&ask("sixteen letters."))).unwrap();
    let spent = account.spent();
    assert_eq!((spent.calls, spent.estimated), (1, 1));
    assert_eq!((spent.usage.input, spent.usage.output), (4, 2));
}

#[test]
fn replies_that_broke_off_are_paid_for() {
    let account = Arc::new(Account::default());
    let script = Script::streaming(
        [
            (
                vec![text("1234"), ChatEvent::Restart, text("12345678")],
                Ok(reply_of(Some(USAGE))),
            ),
            (vec![text("12345678")], Err(busy())),
            (Vec::new(), Err(busy())),
        ]
        .into(),
    );
    let model = Meter::new(script, PRICE, account.clone());
    let request = ask("sixteen letters.");
    block_on(model.stream(&request, &mut |_| {})).unwrap();
    let first = account.spent();
    assert_eq!((first.usage.input, first.usage.output), (104, 11));
    block_on(model.stream(&request, &mut |_| {})).unwrap_err();
    let second = account.spent();
    assert_eq!((second.usage.input, second.usage.output), (108, 13));
    block_on(model.stream(&request, &mut |_| {})).unwrap_err();
    let third = account.spent();
    assert_eq!((third.calls, third.usage, third.estimated), (3, second.usage, 2));
}
