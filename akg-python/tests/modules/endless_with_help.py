import subprocess

subprocess.Popen(["sleep", "4321"], start_new_session=True)
while True:
    pass
