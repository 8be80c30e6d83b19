import os
import signal

os.kill(os.getppid(), signal.SIGSTOP)
os._exit(3)
