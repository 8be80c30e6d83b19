//! The usual mistakes of models that write kernels, for sums of the rows of relu(x) of f32[37, 101] in C++.

use akg::chat::{ChatReply, Stop, ToolCall};
use akg::verdict::FailureKind::{
    self, Crashed, InputChanged, OutOfBounds, TimedOut, Unwritten, WrongType, WrongValues,
};

use crate::kernel::{PLAN, RIGHT, edit, fenced, kernel, slip};

/// What should become of a mistake.
pub(crate) enum End {
    /// It is repaired: candidates fail for one of these reasons each, and the one after them passes.
    Repaired(&'static [&'static [FailureKind]]),
    /// It is given up, and no candidate passes.
    Abandoned,
}

/// A mistake: what the coder's model and the fixer's say, and what is to come of it.
pub(crate) struct Mistake {
    pub(crate) name: &'static str,
    pub(crate) coder: Vec<ChatReply>,
    pub(crate) fixer: Vec<ChatReply>,
    /// Words that go back to the coder, or else to the fixer.
    pub(crate) told: &'static [&'static str],
    pub(crate) end: End,
}

fn cut_off(reply: ChatReply) -> ChatReply {
    let half = reply.text.len() / 2;
    ChatReply {
        text: reply.text[..half].to_owned(),
        stop: Stop::Length,
        ..reply
    }
}

fn call() -> ChatReply {
    let call = ToolCall {
        id: "1".to_owned(),
        name: "compile".to_owned(),
        arguments: "{}".to_owned(),
    };
    ChatReply {
        calls: vec![call],
        stop: Stop::Calls,
        ..ChatReply::default()
    }
}

fn refusal() -> ChatReply {
    ChatReply {
        stop: Stop::Refused,
        ..ChatReply::text("I cannot help with that.")
    }
}

/// A line of the right kernel that is wrong at first, found by the judge, and put right by an edit.
fn judged(
    name: &'static str,
    (right, wrong): (&str, &str),
    told: &'static [&'static str],
    kinds: &'static [&'static [FailureKind]],
) -> Mistake {
    Mistake {
        name,
        coder: vec![kernel(&slip(right, wrong))],
        fixer: vec![edit(wrong, right)],
        told,
        end: End::Repaired(kinds),
    }
}

/// A first reply that goes back to the model before anything is judged; then it is right.
fn objected(name: &'static str, first: ChatReply, told: &'static [&'static str]) -> Mistake {
    Mistake {
        name,
        coder: vec![first, kernel(RIGHT)],
        fixer: Vec::new(),
        told,
        end: End::Repaired(&[]),
    }
}

/// A kernel on which the model insists.
fn cheat(name: &'static str, text: &str) -> Mistake {
    Mistake {
        name,
        coder: vec![kernel(text)],
        fixer: vec![fenced(&format!("{PLAN}{text}"))],
        told: &[],
        end: End::Abandoned,
    }
}

/// A kernel of this body around `x`, `y` and `rows` of the whole task, in one program.
fn whole(before: &str, body: &str) -> String {
    format!(
        "#include <cstdint>\n#include <cstring>\n{before}\nextern \"C\" void rows(void *const *tensors, const int64_t *, int64_t first, \
         int64_t last) {{\n  const float *x = static_cast<const float *>(tensors[0]);\n  float *y = static_cast<float \
         *>(tensors[1]);\n{body}\n}}\n"
    )
}

const SUM: &str = "for (int64_t r = first; r < last; ++r) { double s = 0; for (int64_t i = 0; i < 101; ++i) s += x[r * 101 + i] > 0 ? \
                   x[r * 101 + i] : 0; y[r] = s; }";

pub(crate) fn mistakes() -> Vec<Mistake> {
    let loop_line = "    for (int64_t i = 0; i < 101; ++i) {";
    let load_line = "      const float v = x[row * 101 + i];";
    let sum_line = "      sum += v > 0 ? v : 0;";
    let store_line = "    y[row] = static_cast<float>(sum);";
    let row_line = "  for (int64_t row = first; row < last; ++row) {";
    let x_line = "  const float *x = static_cast<const float *>(tensors[0]);";
    let y_line = "  float *y = static_cast<float *>(tensors[1]);";
    let undone = "sum += v > 0 ? v : 0";
    let mut all = vec![
        // The form of replies.
        objected(
            "prose_only",
            ChatReply::text("I would sum each row."),
            &["no fenced code block"],
        ),
        objected("empty_reply", ChatReply::default(), &["no fenced code block"]),
        objected("call_of_a_tool", call(), &["no tools to call"]),
        objected("truncated_reply", cut_off(kernel(RIGHT)), &["cut off"]),
        objected("no_launch_plan", fenced(RIGHT), &["begins with its launch plan"]),
        objected(
            "damaged_launch_plan",
            fenced(&format!("{}{RIGHT}", PLAN.replace("\"grid\": ", ""))),
            &["launch plan", "wrong"],
        ),
        objected(
            "another_language",
            ChatReply::text("```python\nimport triton\n\n@triton.jit\ndef rows(x, y):\n    pass\n```"),
            &["launch plan"],
        ),
        // What a compiler sees.
        objected(
            "missing_import",
            kernel(&slip("double sum = 0;", "double sum = std::abs(0.0);")),
            &["abs"],
        ),
        objected(
            "hallucinated_api",
            kernel(&slip(undone, "sum += akg::relu(v)")),
            &["akg"],
        ),
        objected(
            "syntax_error",
            kernel(&slip(undone, "sum += v > 0 ? v")),
            &["error"],
        ),
        objected(
            "undeclared_name",
            kernel(&slip("y[row]", "out[row]")),
            &["out", "^"],
        ),
        objected(
            "wrong_entry_name",
            kernel(&slip("void rows(", "void row_sums(")),
            &["`rows`"],
        ),
        objected(
            "wrong_signature_language",
            kernel(&slip("extern \"C\" ", "")),
            &["extern \"C\""],
        ),
        objected(
            "wrong_argument_type",
            kernel(&slip("static_cast<const float *>(tensors[0])", "tensors[0]")),
            &["void*"],
        ),
        objected(
            "throws",
            kernel(&slip(undone, "if (v != v) throw 1; sum += v > 0 ? v : 0")),
            &["-fexceptions"],
        ),
        // What the judge sees.
        judged(
            "wrong_mask",
            (loop_line, "    for (int64_t i = 0; i + 8 <= 101; ++i) {"),
            &["wrong-values", "got", "expected"],
            &[&[WrongValues]],
        ),
        judged(
            "off_by_one",
            (loop_line, "    for (int64_t i = 1; i < 101; ++i) {"),
            &["wrong-values"],
            &[&[WrongValues]],
        ),
        judged(
            "one_column_too_many",
            (loop_line, "    for (int64_t i = 0; i <= 101; ++i) {"),
            &["wrong-values"],
            &[&[WrongValues, OutOfBounds]],
        ),
        judged(
            "one_row_too_many",
            (row_line, "  for (int64_t row = first; row <= last; ++row) {"),
            &["out-of-bounds"],
            &[&[OutOfBounds, WrongValues]],
        ),
        judged(
            "last_row_missing",
            (row_line, "  for (int64_t row = first; row + 1 < last; ++row) {"),
            &["unwritten"],
            &[&[Unwritten]],
        ),
        judged(
            "wrong_layout",
            (load_line, "      const float v = x[i * 37 + row];"),
            &["wrong-values"],
            &[&[WrongValues]],
        ),
        judged(
            "forgotten_operator",
            (sum_line, "      sum += v;"),
            &["wrong-values"],
            &[&[WrongValues]],
        ),
        judged(
            "another_operator",
            (store_line, "    y[row] = static_cast<float>(sum / 101);"),
            &["wrong-values"],
            &[&[WrongValues]],
        ),
        judged(
            "too_little_precision",
            (
                sum_line,
                "      sum += v > 0 ? static_cast<float>(static_cast<_Float16>(v)) : 0;",
            ),
            &["fp32"],
            &[&[WrongValues]],
        ),
        judged(
            "adds_to_what_is_there",
            (store_line, "    y[row] += static_cast<float>(sum);"),
            &["y"],
            &[&[WrongValues, Unwritten]],
        ),
        judged(
            "writes_its_input",
            (
                sum_line,
                "      sum += v > 0 ? v : (const_cast<float *>(x)[row * 101 + i] = 0);",
            ),
            &["x"],
            &[&[InputChanged, Crashed]],
        ),
        judged(
            "null_pointer",
            (
                store_line,
                "    *static_cast<volatile float *>(nullptr) = static_cast<float>(sum);",
            ),
            &["crashed"],
            &[&[Crashed]],
        ),
        judged(
            "leaves",
            (store_line, "    __builtin_trap();"),
            &["crashed"],
            &[&[Crashed]],
        ),
        Mistake {
            name: "wrong_dtype_read",
            coder: vec![kernel(&slip(
                x_line,
                "  const double *x = static_cast<const double *>(tensors[0]);",
            ))],
            fixer: vec![edit(
                "  const double *x = static_cast<const double *>(tensors[0]);",
                x_line,
            )],
            told: &["x"],
            end: End::Repaired(&[&[WrongValues, OutOfBounds, Crashed]]),
        },
        Mistake {
            name: "wrong_dtype_written",
            coder: vec![kernel(&slip(
                y_line,
                "  double *y = static_cast<double *>(tensors[1]);",
            ))],
            fixer: vec![edit("  double *y = static_cast<double *>(tensors[1]);", y_line)],
            told: &["y"],
            end: End::Repaired(&[&[WrongValues, OutOfBounds]]),
        },
        Mistake {
            name: "wrong_dtype_in_the_plan",
            coder: vec![fenced(&format!(
                "{}{RIGHT}",
                PLAN.replace("\"y\", \"dtype\": \"f32\"", "\"y\", \"dtype\": \"f64\"")
            ))],
            fixer: vec![edit(
                "// {\"name\": \"y\", \"dtype\": \"f64\", \"shape\": [37], \"role\": \"output\", \"align\": 64}],",
                "// {\"name\": \"y\", \"dtype\": \"f32\", \"shape\": [37], \"role\": \"output\", \"align\": 64}],",
            )],
            told: &["wrong-type"],
            end: End::Repaired(&[&[WrongType]]),
        },
        // Programs that add to the same element, in no order.
        Mistake {
            name: "race",
            coder: vec![fenced(&format!(
                "{}{}",
                PLAN.replace("\"grid\": [37]", "\"grid\": [37, 101]"),
                whole(
                    "",
                    "  for (int64_t p = first; p < last; ++p) y[p / 101] += x[p] > 0 ? x[p] : 0;"
                )
            ))],
            fixer: vec![fenced(&format!("{PLAN}{RIGHT}"))],
            told: &["y"],
            end: End::Repaired(&[&[WrongValues, Unwritten]]),
        },
        judged(
            "endless_loop",
            (store_line, "    for (volatile int n = 1; n;) {}"),
            &["timed-out"],
            &[&[TimedOut]],
        ),
        // Repairs.
        Mistake {
            name: "two_slips",
            coder: vec![kernel(
                &slip("i = 0; i < 101", "i = 1; i < 101").replace(sum_line, "      sum += v;"),
            )],
            fixer: vec![
                edit("    for (int64_t i = 1; i < 101; ++i) {", loop_line),
                edit("      sum += v;", sum_line),
            ],
            told: &["wrong-values"],
            end: End::Repaired(&[&[WrongValues], &[WrongValues]]),
        },
        Mistake {
            name: "edit_of_what_is_not_there",
            coder: vec![kernel(&slip(sum_line, "      sum += v;"))],
            fixer: vec![edit("sum += v;", sum_line), edit("      sum += v;", sum_line)],
            told: &["not in the text", "      sum += v;"],
            end: End::Repaired(&[&[WrongValues]]),
        },
        Mistake {
            name: "edit_that_changes_nothing",
            coder: vec![kernel(&slip(sum_line, "      sum += v;"))],
            fixer: vec![
                edit("      sum += v;", "      sum += v;"),
                edit("      sum += v;", sum_line),
            ],
            told: &["the same after the change"],
            end: End::Repaired(&[&[WrongValues]]),
        },
        Mistake {
            name: "edit_that_does_not_compile",
            coder: vec![kernel(&slip(sum_line, "      sum += v;"))],
            fixer: vec![
                edit("      sum += v;", "      sum += relu(v);"),
                edit("      sum += relu(v);", sum_line),
            ],
            told: &["What you changed is done", "relu"],
            end: End::Repaired(&[&[WrongValues]]),
        },
        Mistake {
            name: "edit_without_an_end",
            coder: vec![kernel(&slip(sum_line, "      sum += v;"))],
            fixer: vec![
                ChatReply::text("<<<<<<< SEARCH\n      sum += v;\n=======\n"),
                edit("      sum += v;", sum_line),
            ],
            told: &["is not complete"],
            end: End::Repaired(&[&[WrongValues]]),
        },
        Mistake {
            name: "whole_file_at_last",
            coder: vec![kernel(&slip(sum_line, "      sum += v;"))],
            fixer: vec![kernel(RIGHT)],
            told: &["wrong-values"],
            end: End::Repaired(&[&[WrongValues]]),
        },
        Mistake {
            name: "repairs_in_circles",
            coder: vec![kernel(&slip(sum_line, "      sum += v;"))],
            fixer: vec![
                edit("      sum += v;", "      sum -= v;"),
                edit("      sum -= v;", "      sum += v;"),
            ],
            told: &["wrong-values"],
            end: End::Abandoned,
        },
        Mistake {
            name: "repetition",
            coder: vec![kernel(&slip(undone, "sum += relu(v)"))],
            fixer: Vec::new(),
            told: &["That is what you sent before"],
            end: End::Abandoned,
        },
        Mistake {
            name: "refusal",
            coder: vec![refusal()],
            fixer: Vec::new(),
            told: &[],
            end: End::Abandoned,
        },
        Mistake {
            name: "refusal_to_repair",
            coder: vec![kernel(&slip(sum_line, "      sum += v;"))],
            fixer: vec![refusal()],
            told: &["wrong-values"],
            end: End::Abandoned,
        },
        // Cheats, on which the model insists.
        cheat(
            "returns_its_input",
            &whole("", "  for (int64_t r = first; r < last; ++r) y[r] = x[r];"),
        ),
        cheat(
            "constant_output",
            &whole("", "  for (int64_t r = first; r < last; ++r) y[r] = 40.3f;"),
        ),
        cheat(
            "does_nothing",
            &whole("", "  (void)x; (void)y; (void)first; (void)last;"),
        ),
        cheat(
            "remembers_by_address",
            &whole(
                "static const float *seen; static float kept[37];",
                &format!(
                    "  if (seen == x && first == 0) {{ memcpy(y, kept, (last - first) * 4); return; }}\n  {SUM}\n  for (int64_t r = \
                          first; r < last; ++r) kept[r] = y[r];\n  seen = x;"
                ),
            ),
        ),
        cheat(
            "right_only_at_first",
            &whole(
                "static int calls; static float kept[37];",
                &format!(
                    "  if (calls > 60) {{ for (int64_t r = first; r < last; ++r) y[r] = kept[r]; return; }}\n  calls++;\n  {SUM}\n  \
                          for (int64_t r = first; r < last; ++r) kept[r] = y[r];"
                ),
            ),
        ),
    ];
    let surrounded = ChatReply::text(format!(
        "Such a kernel is called so:\n\n```cpp\nrows(tensors, nullptr, 0, 37);\n```\n\nFirst thought:\n\n```cpp\n{PLAN}{}```\n\nBut \
         better:\n\n```cpp\n{PLAN}{RIGHT}```\n\nThat is all.",
        slip(undone, "sum += v")
    ));
    for (name, first) in [
        ("several_blocks", surrounded),
        (
            "unclosed_block",
            ChatReply::text(format!("Here:\n```cpp\n{PLAN}{RIGHT}")),
        ),
    ] {
        all.push(Mistake {
            name,
            coder: vec![first],
            fixer: Vec::new(),
            told: &[],
            end: End::Repaired(&[]),
        });
    }
    let twice = PLAN.replace(
        "\"tensors\": [0, 1]}]",
        "\"tensors\": [0, 1]}, {\"kernel\": \"rows\", \"grid\": [37], \"tensors\": [0, 1]}]",
    );
    all.push(Mistake {
        name: "work_that_is_done_already",
        coder: vec![fenced(&format!("{twice}{RIGHT}"))],
        fixer: Vec::new(),
        told: &[],
        end: End::Abandoned,
    });
    all
}
