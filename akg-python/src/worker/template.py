"""A process that has imported everything, and makes copies of itself in which modules run, one at a time.

What a module does to Python, PyTorch, its environment or its directory is gone with the copy. It may also see this process,
which it must not change: a debugger's rights are refused to it, everything that it has left behind is removed, and if
limits or priorities are others than before, there are no more copies.
"""

import ctypes
import gc
import os
import resource
import shutil
import signal
import time

from akg_worker.errors import CallError

LIBC = ctypes.CDLL(None, use_errno=True)

# Options of prctl(2).
SET_DUMPABLE, SET_CHILD_SUBREAPER = 4, 36

LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


class Template:
    def __init__(self):
        self._copy = None
        self._status = None
        self._traits = None

    def fork(self):
        """Whether this is the copy."""
        if self._copy is not None:
            raise CallError("unexpected", "the copy before has not ended")
        if self._traits is None:
            self._prepare()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            self._copy = os.fork() or None
            if self._copy is None:
                self._become_copy()
            return self._copy is None
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def end(self, seconds):
        """Ends the copy and all that it started; how it ended if it did by itself within that time."""
        deadline = time.monotonic() + seconds
        while self._copy is not None and self._status is None and time.monotonic() < deadline:
            time.sleep(0.001)
        status = self._status
        end_descendants()
        self._copy = self._status = None
        empty(os.getcwd())
        if traits() != self._traits:
            raise CallError("unexpected", "a module has changed the process that it was copied from")
        return {"status": status}

    def _prepare(self):
        # Orphans come here, where they are found.
        control(SET_CHILD_SUBREAPER, 1)
        # Refuses this process's memory and descriptors to others of the same user.
        control(SET_DUMPABLE, 0)
        # What is there stays, and copies need not look at it.
        gc.collect()
        gc.freeze()
        empty(os.getcwd())
        # Shows whether the system lets this process find them.
        descendants()
        self._traits = traits()
        signal.signal(signal.SIGCHLD, self._bury)

    def _become_copy(self):
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control(SET_DUMPABLE, 1)
            os.setsid()
        except OSError:
            # Nobody must answer in the template's place.
            os._exit(1)

    def _bury(self, *_):
        """Notes how the copy has ended, and ends what it has left behind: that may keep its pipes open."""
        while (ended := reap(os.WNOHANG)) is not None:
            pid, status = ended
            if pid == self._copy:
                self._status = status
                end_descendants()


def control(option, value):
    if LIBC.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def traits():
    """What others of the same user can change of this process."""
    limits = [resource.getrlimit(limit) for limit in LIMITS]
    priority = os.getpriority(os.PRIO_PROCESS, 0)
    return limits, priority, os.sched_getscheduler(0), os.sched_getparam(0).sched_priority, os.sched_getaffinity(0)


def reap(options):
    """A child that has ended and its status; None if there is none, or none has ended yet."""
    try:
        pid, status = os.waitpid(-1, options)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def descendants():
    """The ids of all processes below this one."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    # The name, in parentheses, may hold anything.
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
            children.setdefault(parent, []).append(int(name))
    found, unvisited = set(), [os.getpid()]
    while unvisited:
        new = children.pop(unvisited.pop(), [])
        found.update(new)
        unvisited += new
    return found


def end_descendants():
    """Kills every process below this one, and buries them."""
    stopped = set()
    # One that is stopped starts no others, so that this meets all in the end.
    while new := descendants() - stopped:
        for pid in new:
            send(pid, signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        send(pid, signal.SIGKILL)
    while reap(0):
        pass


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def empty(directory):
    """Removes what is in a directory."""
    with os.scandir(directory) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
