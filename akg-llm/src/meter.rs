//! What models cost.

use std::sync::{Arc, Mutex, PoisonError};

use akg_core::chat::{ChatEvent, ChatModel, ChatReply, ChatRequest, Content, Message, Sink, Usage};
use akg_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::layer::{around, pass};

/// What a million tokens cost, in whatever money the budget is in.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Price {
    /// Tokens that are read.
    pub input: f64,
    /// Tokens that come from the server's cache.
    pub cached: f64,
    /// Tokens that are written.
    pub output: f64,
}

impl Price {
    /// What these tokens cost.
    pub fn of(&self, usage: Usage) -> f64 {
        let fresh = usage.input.saturating_sub(usage.cached);
        let millionths =
            fresh as f64 * self.input + usage.cached as f64 * self.cached + usage.output as f64 * self.output;
        millionths / 1e6
    }
}

/// What may be spent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Tokens, read and written; `None` for any number.
    pub tokens: Option<u64>,
    /// Money; `None` for any amount.
    pub money: Option<f64>,
}

/// What was spent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// Calls, with those that failed.
    pub calls: u64,
    /// Calls whose tokens are estimated from the length of their texts, four bytes a token: the server did not say, or the
    /// reply broke off.
    pub estimated: u64,
    /// Tokens.
    pub usage: Usage,
    /// Money.
    pub money: f64,
}

/// The account of a run, which all its models share.
///
/// A call begins only while something is left, and is then finished; so the calls that run at the same time may spend a
/// little more than the budget.
#[derive(Debug, Default)]
pub struct Account {
    budget: Budget,
    spent: Mutex<Spent>,
}

impl Account {
    /// An account of which nothing is spent yet.
    pub fn new(budget: Budget) -> Self {
        let spent = Mutex::default();
        Self { budget, spent }
    }

    /// What was spent so far.
    pub fn spent(&self) -> Spent {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call may begin.
    ///
    /// # Errors
    /// [`ErrorKind::BudgetSpent`] if nothing is left.
    pub fn check(&self) -> Result<()> {
        let spent = self.spent();
        let over = |what: String| Err(Error::new(ErrorKind::BudgetSpent, what));
        match (self.budget.tokens, self.budget.money) {
            (Some(tokens), _) if spent.usage.total() >= tokens => over(format!(
                "{} of {tokens} tokens are spent; raise the budget to go on",
                spent.usage.total()
            )),
            (_, Some(money)) if spent.money >= money => over(format!(
                "{:.4} of {money:.4} are spent on models; raise the budget to go on",
                spent.money
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn add(&self, usage: Usage, estimated: bool, price: Price) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.calls += 1;
        spent.estimated += u64::from(estimated);
        spent.usage = spent.usage + usage;
        spent.money += price.of(usage);
    }
}

/// A model whose tokens are put on an account.
#[derive(Debug)]
pub struct Meter {
    model: Arc<dyn ChatModel>,
    price: Price,
    account: Arc<Account>,
}

impl Meter {
    /// Puts what `model` takes on `account` at `price`.
    pub fn new(model: Arc<dyn ChatModel>, price: Price, account: Arc<Account>) -> Self {
        Self {
            model,
            price,
            account,
        }
    }

    async fn run(&self, request: &ChatRequest, sink: Option<Sink<'_>>) -> Result<ChatReply> {
        self.account
            .check()
            .map_err(|e| e.with("model", self.model.name()))?;
        // Replies that broke off, and the one that may yet do so.
        let (mut lost, mut arrived) = (Usage::default(), 0);
        let outcome = match sink {
            None => pass(&*self.model, request, None).await,
            Some(sink) => {
                let mut count = |event: ChatEvent| {
                    match &event {
                        ChatEvent::Text(text) => arrived += text.len(),
                        ChatEvent::Call(call) => arrived += call.name.len() + call.arguments.len(),
                        ChatEvent::Restart => {
                            lost = lost + estimate(request, std::mem::take(&mut arrived));
                        }
                    }
                    sink(event);
                };
                pass(&*self.model, request, Some(&mut count)).await
            }
        };
        let last = match &outcome {
            Ok(reply) => reply.usage,
            Err(_) if arrived == 0 => Some(Usage::default()),
            Err(_) => None,
        };
        let estimated = last.is_none() || lost != Usage::default();
        let last = last.unwrap_or_else(|| {
            let written = match &outcome {
                Ok(reply) => written(&reply.text, reply.calls.iter().map(|c| c.arguments.as_str())),
                Err(_) => arrived,
            };
            estimate(request, written)
        });
        self.account.add(last + lost, estimated, self.price);
        outcome
    }
}

around!(Meter);

fn written<'a>(text: &str, calls: impl Iterator<Item = &'a str>) -> usize {
    text.len() + calls.map(str::len).sum::<usize>()
}

/// The tokens of so many bytes, if nobody says.
pub(crate) fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// What reading a request and writing so many bytes takes, if nobody says.
fn estimate(request: &ChatRequest, written: usize) -> Usage {
    /// About what servers count for a picture of ordinary size.
    const IMAGE_BYTES: usize = 6000;
    let content = |content: &Content| match content {
        Content::Text { text } => text.len(),
        Content::Image { .. } => IMAGE_BYTES,
    };
    let message = |message: &Message| match message {
        Message::System { text } | Message::Tool { text, .. } => text.len(),
        Message::User { content: parts } => parts.iter().map(content).sum(),
        Message::Assistant { text, calls } => self::written(text, calls.iter().map(|c| c.arguments.as_str())),
    };
    Usage {
        input: tokens(request.messages.iter().map(message).sum()),
        cached: 0,
        output: tokens(written),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_have_their_own_price() {
        let price = Price {
            input: 2.0,
            cached: 0.5,
            output: 10.0,
        };
        let usage = Usage {
            input: 3_000_000,
            cached: 1_000_000,
            output: 500_000,
        };
        assert!((price.of(usage) - (4.0 + 0.5 + 5.0)).abs() < 1e-12);
    }

    #[test]
    fn an_account_is_spent_by_tokens_or_by_money() {
        let usage = Usage {
            input: 60,
            cached: 0,
            output: 40,
        };
        let price = Price {
            output: 1e6,
            ..Price::default()
        };
        let kind = |tokens, money| {
            let account = Account::new(Budget { tokens, money });
            account.check().unwrap();
            account.add(usage, false, price);
            account.check().map_err(|e| e.kind())
        };
        assert_eq!(kind(None, None), Ok(()));
        assert_eq!(kind(Some(101), Some(41.0)), Ok(()));
        assert_eq!(kind(Some(100), None), Err(ErrorKind::BudgetSpent));
        assert_eq!(kind(None, Some(40.0)), Err(ErrorKind::BudgetSpent));
    }
}
