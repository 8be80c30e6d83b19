//! Modules that leave something behind, and honest ones that change their process.

use std::fs;
use std::process::Command;

use super::*;
use crate::sources;

/// What a module does, a word that the evidence must have, and what undoes it.
const LEFT: &[(&str, &str, &str)] = &[
    // Settings of PyTorch.
    (
        "torch.set_default_dtype(torch.bfloat16)",
        "default type as torch.bfloat16 (it was torch.float32)",
        "torch.set_default_dtype(torch.float32)",
    ),
    (
        "torch.set_default_device('meta')",
        "default device as meta",
        "torch.set_default_device(None)",
    ),
    (
        "torch.set_num_threads(3)",
        "number of threads as 3",
        "torch.set_num_threads(THREADS)",
    ),
    (
        "torch.use_deterministic_algorithms(True)",
        "deterministic",
        "torch.use_deterministic_algorithms(False)",
    ),
    (
        "torch.set_float32_matmul_precision('medium')",
        "products in f32",
        "torch.set_float32_matmul_precision('highest')",
    ),
    (
        "torch.set_grad_enabled(False)",
        "gradients",
        "torch.set_grad_enabled(True)",
    ),
    (
        "torch.backends.cudnn.benchmark = True",
        "cudnn.benchmark",
        "torch.backends.cudnn.benchmark = False",
    ),
    (
        "torch.backends.cudnn.allow_tf32 = False",
        "cudnn.allow_tf32",
        "torch.backends.cudnn.allow_tf32 = True",
    ),
    (
        "torch.backends.mkldnn.enabled = False",
        "mkldnn.enabled",
        "torch.backends.mkldnn.enabled = True",
    ),
    (
        "torch.set_printoptions(precision=2)",
        "printing",
        "torch.set_printoptions(profile='default')",
    ),
    (
        "torch.nn.modules.module.register_module_forward_hook(print)",
        "_global_forward_hooks",
        "torch.nn.modules.module._global_forward_hooks.clear()",
    ),
    // Random generators.
    ("torch.manual_seed(0)", "with the seed 0", ""),
    ("random.random()", "Python's random generator", ""),
    (
        "import numpy; numpy.random.seed(1)",
        "NumPy's random generator",
        "",
    ),
    // Functions.
    (
        "torch.nn.functional.relu = lambda x, inplace=False: x",
        "`torch.nn.functional.relu` replaced",
        "torch.nn.functional.relu = RELU",
    ),
    (
        "torch.relu = torch.sigmoid",
        "`torch.relu` replaced",
        "torch.relu = OLD['torch'].relu",
    ),
    (
        "torch.Tensor.softmax = lambda *_: _[0]",
        "`torch.Tensor.softmax`",
        "del torch.Tensor.softmax",
    ),
    (
        "torch.nn.Module.__call__ = lambda *_: _[1]",
        "`torch.nn.Module.__call__` replaced",
        "torch.nn.Module.__call__ = CALL",
    ),
    (
        "torch.nn.Linear.forward = lambda *_: _[1]",
        "`torch.nn.Linear.forward` replaced",
        "torch.nn.Linear.forward = FORWARD",
    ),
    (
        "torch.nn.functional.softmax.__code__ = (lambda x, dim=None, _stacklevel=3, dtype=None: x).__code__",
        "softmax` with another body",
        "torch.nn.functional.softmax.__code__ = SOFTMAX",
    ),
    (
        "import builtins; builtins.sum = max",
        "`builtins.sum` replaced",
        "builtins.sum = SUM",
    ),
    (
        "import math; math.exp = math.log",
        "`math.exp` replaced",
        "math.exp = EXP",
    ),
    (
        "import time; time.perf_counter = lambda: 0.0",
        "`time.perf_counter` replaced",
        "time.perf_counter = CLOCK",
    ),
    ("del os.link", "`os.link` removed", "os.link = LINK"),
    (
        "sys.modules['json'] = os",
        "the module `json` replaced",
        "sys.modules['json'] = json",
    ),
    (
        "L = torch.library.Library('aten', 'IMPL'); L.impl('relu', lambda x: x, 'CPU')",
        "`aten/relu/CPU`",
        "HELD[0].L._destroy()",
    ),
    (
        "sys.modules['akg_worker.module'].len = lambda _: 0",
        "`len` replaced in `akg_worker.module`",
        "del sys.modules['akg_worker.module'].len",
    ),
    // The process and Python.
    (
        "os.environ['OMP_NUM_THREADS'] = '1'",
        "variable `OMP_NUM_THREADS`",
        "del os.environ['OMP_NUM_THREADS']",
    ),
    (
        "os.putenv('UNSEEN', '1')",
        "variable `UNSEEN`",
        "os.unsetenv('UNSEEN')",
    ),
    (
        "os.environ['HOME'] = '/elsewhere'",
        "`HOME` as /elsewhere",
        "os.environ['HOME'] = HOME",
    ),
    (
        "del os.environ['HOME']",
        "without the variable `HOME`",
        "os.environ['HOME'] = HOME",
    ),
    (
        "os.environ['TORCHINDUCTOR_CACHE_DIR'] = '/tmp'",
        "`TORCHINDUCTOR_CACHE_DIR`",
        "del os.environ['TORCHINDUCTOR_CACHE_DIR']",
    ),
    (
        "sys.path.insert(0, '/elsewhere')",
        "`sys.path`",
        "sys.path.pop(0)",
    ),
    (
        "import signal; signal.signal(signal.SIGINT, print)",
        "SIGINT",
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
    ),
    (
        "import signal; signal.setitimer(signal.ITIMER_REAL, 1000)",
        "ITIMER_REAL",
        "signal.setitimer(signal.ITIMER_REAL, 0)",
    ),
    (
        "sys.settrace(lambda *_: None)",
        "sys.settrace",
        "sys.settrace(None)",
    ),
    (
        "sys.setprofile(lambda *_: None)",
        "sys.setprofile",
        "sys.setprofile(None)",
    ),
    (
        "sys.setrecursionlimit(5000)",
        "recursion as 5000",
        "sys.setrecursionlimit(1000)",
    ),
    (
        "sys.setswitchinterval(1.0)",
        "switch interval",
        "sys.setswitchinterval(0.005)",
    ),
    ("import gc; gc.disable()", "collection of garbage", "gc.enable()"),
    (
        "import warnings; warnings.simplefilter('error')",
        "that raises",
        "warnings.filters.pop(0)",
    ),
    (
        "import warnings; warnings.resetwarnings()",
        "a filter that was there",
        "warnings.filters[:] = FILTERS",
    ),
    (
        "sys.stdout = open(os.devnull, 'w')",
        "`sys.stdout` replaced",
        "sys.stdout = OUTPUT",
    ),
    (
        "import atexit\natexit.register(print)",
        "`print` to be called at the end",
        "atexit.unregister(print)",
    ),
    // Threads. These come last, as they go on.
    (
        "import threading\ndef work(): EVENT.wait()\nthreading.Thread(target=work, name='own', daemon=True).start()",
        "thread running: `own`",
        "",
    ),
    (
        "import threading, _thread\n_thread.start_new_thread(lambda: EVENT.wait(), ())\nimport time; time.sleep(0.2)",
        "a thread running",
        "",
    ),
    (
        "from concurrent.futures import ThreadPoolExecutor as Pool\ndef work(): EVENT.wait()\npool = Pool(1)\npool.submit(work)",
        "thread running: `ThreadPoolExecutor",
        "",
    ),
];

/// What a module may do.
const RESTORED: &[&str] = &[
    "",
    "threads = torch.get_num_threads(); torch.set_num_threads(1); torch.set_num_threads(threads)",
    "import warnings; warnings.filterwarnings('ignore', message='any')",
    "import warnings\nwith warnings.catch_warnings(): warnings.simplefilter('error')",
    "import tempfile; kept = tempfile.TemporaryDirectory()",
    "import atexit\natexit.register(print)\natexit.unregister(print)",
    "import fractions, plistlib, xml.dom.minidom, numpy.random",
    "torch.nn.Linear(3, 3)",
    "import torch.utils.cpp_extension; os.environ['TORCH_CUDA_ARCH_LIST'] = '9.0'",
    "import threading\nthread = threading.Thread(target=print)\nthread.start()\nthread.join()",
    "from concurrent.futures import ThreadPoolExecutor as Pool\nwith Pool(2) as pool: list(pool.map(abs, [1]))",
    "from concurrent.futures import ThreadPoolExecutor as Pool\npool = Pool(2)\npool.submit(abs, 1).result()",
    "import subprocess; subprocess.run(['true'], check=True)",
    "import multiprocessing.pool",
];

/// Loads a module for each change, one after the other in one process, and gives what each left behind.
const SCRIPT: &str = "
import json, os, sys
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import random, signal, threading, types, warnings
import torch
from akg_worker.left_behind import LeftBehind
from akg_worker.module import load
THREADS, RELU, SOFTMAX = torch.get_num_threads(), torch.nn.functional.relu, torch.nn.functional.softmax.__code__
CALL, FORWARD, SUM, LINK, HOME = torch.nn.Module.__call__, torch.nn.Linear.forward, sum, os.link, os.environ['HOME']
import atexit, builtins, gc, math, time
EXP, CLOCK, FILTERS, OUTPUT = math.exp, time.perf_counter, list(warnings.filters), sys.stdout
OLD = {'torch': types.SimpleNamespace(relu=torch.relu)}
builtins.EVENT = threading.Event()
path, found, HELD = sys.argv[2], [], []
for change, undo in json.load(open(sys.argv[3])):
    open(path, 'w').write('import os, random, sys\\nimport torch\\n' + change)
    left = LeftBehind(path)
    HELD[:] = [load(path, {})]
    left.constructed()
    found.append(left.evidence())
    exec(undo)
json.dump(found, OUTPUT)
OUTPUT.flush()
os._exit(0)
";

#[test]
fn what_a_module_leaves_behind_is_named() {
    let Some(environment) = environment() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let changes = LEFT.iter().map(|(change, _, undo)| (*change, *undo));
    let changes: Vec<_> = RESTORED
        .iter()
        .map(|change| (*change, ""))
        .chain(changes)
        .collect();
    fs::write(at("changes.json"), serde_json::to_vec(&changes).unwrap()).unwrap();
    fs::write(at("script.py"), SCRIPT).unwrap();
    let output = Command::new(environment.python())
        .arg(at("script.py"))
        .arg(sources::write(&environment.cache).unwrap())
        .args([at("modelnew.py"), at("changes.json")])
        .env("HOME", directory.path())
        .env_remove("OMP_NUM_THREADS")
        .output()
        .unwrap();
    let found: Vec<Option<String>> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let (honest, others) = found.split_at(RESTORED.len());
    for (change, evidence) in RESTORED.iter().zip(honest) {
        assert_eq!(*evidence, None, "{change}");
    }
    assert_eq!(others.len(), LEFT.len());
    let wrong = LEFT.iter().zip(others).filter(|((_, word, _), evidence)| {
        let named = |text: &str| text.starts_with("the candidate left ") && text.contains(word);
        !evidence.as_deref().is_some_and(named)
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a module does when it is loaded and in each call, and a word of the evidence; none if it passes.
const PROCESSES: [(&str, &str, Option<&str>); 6] = [
    ("", "os.umask(0o77)", Some("umask")),
    ("os.chdir('/')", "", Some("the working directory is /")),
    (
        // Threads of a pool take over what they are started with.
        "torch.set_flush_denormal(True)",
        "",
        Some("flush-to-zero"),
    ),
    ("", "torch.set_grad_enabled(True)", Some("gradients")),
    ("", "torch.rand(1)", Some("PyTorch's random generator")),
    (
        "torch.nn.Linear(3, 3)\nold = os.umask(0o77)\nos.umask(old)",
        "torch.set_flush_denormal(True); x + x; torch.set_flush_denormal(False)",
        None,
    ),
];

#[test]
fn a_process_is_compared_from_outside_and_after_calls() {
    for (loaded, called, word) in PROCESSES {
        let text = format!(
            "import os\nimport torch\n{loaded}\nclass ModelNew:\n    def __call__(self, x):\n        {called}\n        return x * 2\n"
        );
        let Some(executor) = super::load(&text, &[(DType::F32, &[4, 6])], true) else {
            return;
        };
        let taken = executor.and_then(|mut executor| {
            run(&mut executor, 2, &[0])?;
            run(&mut executor, 2, &[1])
        });
        match (taken, word) {
            (Ok(taken), None) => assert_eq!(taken.len(), 1),
            (Err(failure), Some(word)) => {
                assert_eq!(failure.kind, FailureKind::LeftBehind, "{}", failure.evidence);
                assert!(failure.evidence.contains(word), "{}", failure.evidence);
            }
            (taken, _) => panic!("{loaded} {called}: {taken:?}"),
        }
    }
}
