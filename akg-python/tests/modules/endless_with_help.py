import subprocess

subprocess.Popen(["sleep", "1000"], start_new_session=True)
while True:
    pass
