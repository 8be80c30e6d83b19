//! What several tests need. Each uses a part of it.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use akg_core::Result;
use akg_core::chat::{ChatCapability, ChatEvent, ChatModel, ChatReply, ChatRequest, Message, Sink};
use async_trait::async_trait;

pub(crate) fn ask(text: &str) -> ChatRequest {
    ChatRequest::new([Message::user(text)])
}

/// A model that answers as it is told, in order. What it streams before an answer comes with it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) answers: Mutex<VecDeque<(Vec<ChatEvent>, Result<ChatReply>)>>,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Result<ChatReply>>) -> Arc<Self> {
        let answers = answers.into_iter().map(|answer| (Vec::new(), answer)).collect();
        Self::streaming(answers)
    }

    pub(crate) fn streaming(answers: VecDeque<(Vec<ChatEvent>, Result<ChatReply>)>) -> Arc<Self> {
        Arc::new(Self {
            answers: Mutex::new(answers),
        })
    }

    fn next(&self) -> (Vec<ChatEvent>, Result<ChatReply>) {
        let next = self.answers.lock().unwrap().pop_front();
        next.expect("the script is at its end")
    }
}

#[async_trait]
impl ChatModel for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn capability(&self) -> ChatCapability {
        ChatCapability::ALL
    }

    async fn chat(&self, _: &ChatRequest) -> Result<ChatReply> {
        self.next().1
    }

    async fn stream(&self, _: &ChatRequest, sink: Sink<'_>) -> Result<ChatReply> {
        let (events, answer) = self.next();
        events.into_iter().for_each(sink);
        answer
    }
}

/// A server that reads a request of each connection and then does as it is told. It serves as many connections as there are
/// answers, then none.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Headers and body of each request.
    pub(crate) requests: Arc<Mutex<Vec<(String, String)>>>,
}

/// What a server does with a connection after it has read the request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// Writes this and closes.
    Write(String),
    /// Writes this and then nothing more, without closing.
    Hang(String),
}

impl Answer {
    /// A whole response.
    pub(crate) fn json(status: &str, headers: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n");
        Answer::Write(format!("{head}{headers}content-length: {length}\r\n\r\n{body}"))
    }

    /// The beginning of a stream of events, of which the server does not say how long it is.
    pub(crate) fn events(events: &[&str]) -> String {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        format!("{head}data: {}\n\n", events.join("\n\ndata: "))
    }
}

impl Server {
    pub(crate) fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        thread::spawn(move || {
            let mut hanging = Vec::new();
            for answer in answers {
                let (stream, _) = listener.accept().unwrap();
                seen.lock().unwrap().push(read(&stream));
                match answer {
                    Answer::Write(text) => (&stream).write_all(text.as_bytes()).unwrap(),
                    Answer::Hang(text) => {
                        (&stream).write_all(text.as_bytes()).unwrap();
                        hanging.push(stream);
                    }
                }
            }
            // Until the test ends.
            while !hanging.is_empty() {
                thread::park();
            }
        });
        Self { address, requests }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://localhost:{}/v1", self.address.port())
    }
}

fn read(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
    }
    let head = head.to_lowercase();
    let length = head.lines().find_map(|l| l.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |l| l.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}
